"""What a Python stack was doing, by a table of module and function patterns per engine."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache


class Doing(str, Enum):
    """What a thread was doing when its stack was taken."""

    SCHEDULER = "scheduler"
    KV_LOOKUP = "kv_lookup"
    TOKENIZER = "tokenizer"
    DETOKENIZER = "detokenizer"
    SAMPLING = "sampling"
    GPU_WAIT = "gpu_wait"
    CONNECTOR = "kv_connector_wait"
    DISK = "disk"
    IPC = "ipc"
    IDLE = "idle"
    FORWARD = "model_forward"
    OTHER = "other"


Rule = tuple[str, Doing]

# A rule is a pattern that must match from the start of a frame, written `module:Class.function`.
# Within a table the first match counts; frames are tried from the innermost outwards.
_VLLM: tuple[Rule, ...] = (
    (
        r"vllm\.v1\.core\..*(hash|cached_block|computed_blocks|cache_hit|common_prefix|cache_full)",
        Doing.KV_LOOKUP,
    ),
    (r"vllm\.v1\.request:.*hash|vllm\.utils\.hashing", Doing.KV_LOOKUP),
    (r"vllm\.distributed\.kv_transfer\..*(matched_tokens|lookup)", Doing.KV_LOOKUP),
    (r"vllm\.v1\.kv_offload\..*lookup", Doing.KV_LOOKUP),
    (r"vllm\.v1\.(core|structured_output)\.", Doing.SCHEDULER),
    (r"vllm\.v1\.engine\.core:.*(add_request|abort_requests|log_error)", Doing.SCHEDULER),
    (r"vllm\.distributed\.(kv_transfer|kv_events)|vllm\.v1\.(simple_)?kv_offload", Doing.CONNECTOR),
    (r"vllm\.v1\.worker\.(kv|ec)_connector", Doing.CONNECTOR),
    (r"vllm\.model_executor\.model_loader", Doing.DISK),
    (r"vllm\.(v1\.engine\.(detokenizer|output_processor|logprobs)|tokenizers\.detok)", Doing.DETOKENIZER),
    (r"vllm\.transformers_utils\.detok", Doing.DETOKENIZER),
    (r"vllm\.(tokenizers|renderers|inputs|multimodal)|vllm\.entrypoints\.chat_utils", Doing.TOKENIZER),
    (r"vllm\.v1\.engine\.(input_)?processor|vllm\.transformers_utils\.tokenizer", Doing.TOKENIZER),
    (r"vllm\.v1\.worker\..*(get_output|_to_list|synchroni[sz]e|_valid_sampled)", Doing.GPU_WAIT),
    (r"vllm\.v1\.outputs:.*get_output", Doing.GPU_WAIT),
    (r"vllm\.v1\.(sample|spec_decode)\.", Doing.SAMPLING),
    (r"vllm\.v1\.worker\..*[._](sample|_sample|sample_tokens|_bookkeeping_sync)$", Doing.SAMPLING),
    (r"vllm\.v1\.worker\..*:WorkerProc\.", Doing.IPC),
    (r"vllm\.distributed\.(device_communicators\.shm_|utils:sched_yield)", Doing.IPC),
    (r"vllm\.v1\.(executor|serial_utils|utils|engine\.core_client|engine\.tensor_ipc)", Doing.IPC),
    (r"vllm\.v1\.engine\.core:.*process_(input|output)_sockets", Doing.IPC),
    (r"vllm\.v1\.engine\.core:.*_process_input_queue|vllm\.v1\.engine\.utils:", Doing.IDLE),
    (r"vllm\.(v1\.worker|model_executor|v1\.attention|attention|compilation|forward_context)", Doing.FORWARD),
    (r"vllm\.distributed\.(parallel_state|communication_op|device_comm|eplb)", Doing.FORWARD),
    (r"vllm\.(v1\.cudagraph|lora|_custom_ops|_C|vllm_flash_attn|platforms)", Doing.FORWARD),
)
_SGLANG: tuple[Rule, ...] = (
    (r"sglang\.srt\.mem_cache\..*(match|child_key|hash|prefix_len)", Doing.KV_LOOKUP),
    (r"sglang\.srt\.managers\.schedule_policy:.*(prefix|calc_priority)", Doing.KV_LOOKUP),
    (r"sglang\.srt\.mem_cache\.(storage\..*file|hicache_storage)", Doing.DISK),
    (r"sglang\.srt\.(disaggregation|mem_cache\.storage|managers\.cache_controller)", Doing.CONNECTOR),
    (r"sglang\.srt\.managers\.scheduler.*:.*recv_requests", Doing.IPC),
    (r"sglang\.srt\.managers\.(scheduler.*|.*detokenizer_manager):.*event_loop", Doing.IDLE),
    (r"sglang\.srt\.managers\.(scheduler.*:.*run_batch|tp_worker)", Doing.FORWARD),
    (r"sglang\.srt\.managers\.(detok|beam_search_detok)", Doing.DETOKENIZER),
    (
        r"sglang\.srt\.managers\.(tokenizer|async_dynamic|multi_tokenizer|multimodal|async_mm)",
        Doing.TOKENIZER,
    ),
    (r"sglang\.srt\.(entrypoints\.openai\.serving|conversation|parser)", Doing.TOKENIZER),
    (r"sglang\.srt\.(managers|mem_cache|constrained)", Doing.SCHEDULER),
    (r"sglang\.srt\.(layers\.sampler|sampling|speculative)", Doing.SAMPLING),
    (r"sglang\.srt\.model_loader", Doing.DISK),
    (r"sglang\.srt\.(model_executor|models|layers|distributed|lora)|sgl_kernel", Doing.FORWARD),
)
_OTHERS: tuple[Rule, ...] = (
    (r"lmdeploy\.pytorch\.paging\.(block_trie|radix)", Doing.KV_LOOKUP),
    (
        r"lmdeploy\.pytorch\.(paging|messages)|lmdeploy\.pytorch\.engine\.(engine|inputs|request)",
        Doing.SCHEDULER,
    ),
    (r"lmdeploy\.pytorch\.disagg", Doing.CONNECTOR),
    (r"lmdeploy\.tokenizer", Doing.TOKENIZER),
    (r"lmdeploy\.pytorch\.(engine\.(model_agent|logits)|models|nn|kernels|backends)", Doing.FORWARD),
    (r"tensorrt_llm\._torch\.pyexecutor\.(connector|kv_cache_transceiver)", Doing.CONNECTOR),
    (r"tensorrt_llm\._torch\.pyexecutor\.(sampler|decoder)", Doing.SAMPLING),
    (r"tensorrt_llm\._torch\.pyexecutor\.(.*model_engine|.*cuda_graph|engine)", Doing.FORWARD),
    (r"tensorrt_llm\._torch\.pyexecutor\..*:.*_forward_step", Doing.FORWARD),
    (r"tensorrt_llm\._torch\.pyexecutor", Doing.SCHEDULER),
    (r"tensorrt_llm\.tokenizer|tensorrt_llm\.inputs", Doing.TOKENIZER),
    (r"tensorrt_llm\.executor", Doing.IPC),
    (r"tensorrt_llm\._torch", Doing.FORWARD),
    (r"text_generation_server\.utils\.(tokens|logits)", Doing.SAMPLING),
    (r"text_generation_server\.(models|layers)", Doing.FORWARD),
    (r"lmcache\..*(lookup|token_database)", Doing.KV_LOOKUP),
    (r"lmcache\..*(local_disk|gds|file)", Doing.DISK),
    (r"lmcache\.|nixl|mooncake|kvbm", Doing.CONNECTOR),
)
_LAB: tuple[Rule, ...] = (
    (r"kvdoctor\.reference\.blocks:.*(match|hash)", Doing.KV_LOOKUP),
    (r"kvdoctor\.(reference|lab)\.tier.*:.*promise", Doing.KV_LOOKUP),
    (r"kvdoctor\.lab\.tokenizer", Doing.TOKENIZER),
    (r"kvdoctor\.reference\.stores:FileStore", Doing.DISK),
    (r"kvdoctor\.(reference\.(tiers|loader|remote|bucket|stores)|lab\.tiering)", Doing.CONNECTOR),
    (r"kvdoctor\.(reference\.(scheduler|blocks|request)|lab\.planning)", Doing.SCHEDULER),
    (r"kvdoctor\.reference\.(model|attention|linear|batch|cache|weights)", Doing.FORWARD),
    (r"kvdoctor\.lab\.(core|front):.*(serve|_read)", Doing.IPC),
)
_LIBRARIES: tuple[Rule, ...] = (
    (r"transformers\.tokenization.*:.*(decode|convert_tokens|convert_ids)", Doing.DETOKENIZER),
    (r"transformers\.(tokenization|models\..*tokenization)", Doing.TOKENIZER),
    (r"(tokenizers|tiktoken|sentencepiece|mistral_common)\b", Doing.TOKENIZER),
    (r"transformers\.(utils\.chat_template|processing_utils)|jinja2", Doing.TOKENIZER),
    (
        r"transformers\.generation\.(logits|stopping)|transformers\.generation\.utils:.*_sample$",
        Doing.SAMPLING,
    ),
    (r"torch\.(cuda|accelerator|_C).*:.*synchroni[sz]e|torch\.cuda\.streams:.*(wait|query)", Doing.GPU_WAIT),
    (r"safetensors|torch\.serialization|kvikio|accelerate\.utils\.offload", Doing.DISK),
    (r"numpy.*:.*(fromfile|memmap|load)$", Doing.DISK),
    (r"gzip|zipfile|shutil|pathlib.*:.*(read|write)|aiofiles", Doing.DISK),
    (r"torch\.distributed\.(distributed_c10d|_functional)", Doing.FORWARD),
    (r"transformers\.(models|modeling|cache_utils|integrations|generation)|accelerate", Doing.FORWARD),
    (r"torch\.(nn|_inductor|_dynamo|_ops|_higher_order|compiler|fx|utils\._device)", Doing.FORWARD),
    (r"(triton|flash_attn|flashinfer|xformers)\b", Doing.FORWARD),
    (r"zmq|msgspec|msgpack|pickle|multiprocessing\.(connection|queues|managers)|ray\.|grpc", Doing.IPC),
)
_WAITS: tuple[Rule, ...] = (
    (
        r"(threading|queue|selectors|concurrent\.futures|asyncio\.(base_events|runners|locks)|uvloop)",
        Doing.IDLE,
    ),
    (
        r"(multiprocessing\.(resource|popen|connection|process)|socketserver|sched|signal|subprocess)",
        Doing.IDLE,
    ),
)
"""Generic waits say something only when nothing more telling stands above them."""

_WORK = tuple((re.compile(p), doing) for p, doing in (*_VLLM, *_SGLANG, *_OTHERS, *_LAB, *_LIBRARIES))
_GENERIC = tuple((re.compile(p), doing) for p, doing in _WAITS)


@lru_cache(maxsize=65536)
def _frame(frame: str, generic: bool) -> Doing | None:
    for pattern, doing in _GENERIC if generic else _WORK:
        if pattern.match(frame):
            return doing
    return None


def classify(frames: str, *, active: bool) -> Doing:
    """Sort one folded stack, outermost frame first.

    A frame that no pattern knows is `other`, also in an inactive thread: it may as well wait for a disk.
    An active thread in a wait of the standard library is busy with something that Python does not show.
    """
    stack = frames.split(";")[::-1]
    for frame in stack:
        doing = _frame(frame, False)
        if doing is not None:
            return doing
    waits = _frame(stack[0], True) is not None
    return Doing.IDLE if waits and not active else Doing.OTHER
