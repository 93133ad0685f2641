"""Stacks are sorted by their most telling frame, per engine."""

from __future__ import annotations

import pytest
from hosts import ENGINE, FIXTURES

from kvdoctor.collectors.stacks import folded
from kvdoctor.stackclass import Doing, classify

PROC = "vllm.v1.engine.core:EngineCoreProc"
CORE = f"<string>:<module>;{PROC}.run_engine_core;{PROC}.run_busy_loop;"
STEP = f"{CORE}{PROC}._process_engine_step;vllm.v1.engine.core:EngineCore.step;"
SCHEDULE = STEP + "vllm.v1.core.sched.scheduler:Scheduler.schedule"
MANAGER = "vllm.v1.core.kv_cache_manager:KVCacheManager"
WORKER = "vllm.v1.worker.gpu_worker:Worker.execute_model;vllm.v1.worker.gpu_model_runner:GPUModelRunner"
HF = "transformers.tokenization_utils_base:PreTrainedTokenizerBase"
DETOKENIZER = "vllm.v1.engine.detokenizer"
SAMPLE = "transformers.generation.utils:GenerationMixin._sample"
LAB = "kvdoctor.lab.core:main;kvdoctor.lab.core:Core.serve;kvdoctor.reference.engine:Engine.step"
SGLANG = "sglang.srt.managers.scheduler:Scheduler.event_loop_overlap"


@pytest.mark.parametrize(
    ("frames", "doing"),
    [
        (SCHEDULE, Doing.SCHEDULER),
        (f"{LAB};kvdoctor.reference.scheduler:Scheduler.step", Doing.SCHEDULER),
        (f"{LAB};kvdoctor.lab.planning:RankingScheduler.rank", Doing.SCHEDULER),
        (f"{LAB};kvdoctor.lab.tiering:IndexedTiers.promise", Doing.KV_LOOKUP),
        (f"{LAB};kvdoctor.reference.model:Transformer.run;kvdoctor.reference.linear:linear", Doing.FORWARD),
        (f"{LAB};kvdoctor.reference.loader:Loader._run;kvdoctor.reference.stores:FileStore.read", Doing.DISK),
        (f"{LAB};kvdoctor.lab.tiering:WatchedLoader.wait", Doing.CONNECTOR),
        ("threading:Thread.run;kvdoctor.lab.tokenizer:Tokenizer.encode", Doing.TOKENIZER),
        (f"{SCHEDULE};{MANAGER}.allocate_slots", Doing.SCHEDULER),
        (f"{SCHEDULE};{MANAGER}.get_computed_blocks", Doing.KV_LOOKUP),
        (f"{SCHEDULE};vllm.v1.core.block_pool:BlockPool.get_cached_block", Doing.KV_LOOKUP),
        (CORE + "vllm.v1.core.kv_cache_utils:hash_block_tokens;vllm.utils.hashing:sha256", Doing.KV_LOOKUP),
        (STEP + "vllm.v1.core.sched.scheduler:Scheduler.update_from_output", Doing.SCHEDULER),
        (f"{CORE}{PROC}._process_input_queue;queue:Queue.get;threading:Condition.wait", Doing.IDLE),
        (f"{STEP}{WORKER}.execute_model;torch.nn.modules.module:Module._call_impl", Doing.FORWARD),
        (f"{STEP}{WORKER}._prepare_inputs", Doing.FORWARD),
        (f"{STEP}{WORKER}.sample_tokens;{WORKER}._sample;vllm.v1.sample.sampler:Sampler.forward", Doing.SAMPLING),
        (f"{STEP}{WORKER}._to_list", Doing.GPU_WAIT),
        (f"{STEP}vllm.v1.worker.gpu_model_runner:AsyncGPUModelRunnerOutput.get_output", Doing.GPU_WAIT),
        (f"{STEP}{WORKER}.execute_model;torch.cuda:synchronize", Doing.GPU_WAIT),
        (f"{STEP}vllm.distributed.kv_transfer.kv_connector.v1.nixl.worker:X.get_finished", Doing.CONNECTOR),
        (f"{STEP}lmcache.v1.cache_engine:LMCacheEngine.retrieve", Doing.CONNECTOR),
        (f"{STEP}lmcache.v1.storage_backend.local_disk_backend:LocalDiskBackend.read_file", Doing.DISK),
        (f"vllm.renderers.base:BaseRenderer.render_prompt;{HF}.encode", Doing.TOKENIZER),
        (f"vllm.v1.engine.output_processor:X.process_outputs;{DETOKENIZER}:Fast.decode_next", Doing.DETOKENIZER),
        (f"{DETOKENIZER}:Slow.decode_next;{HF}.convert_tokens_to_string", Doing.DETOKENIZER),
        (f"{SGLANG};sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_run", Doing.SCHEDULER),
        (f"{SGLANG};sglang.srt.mem_cache.radix_cache:RadixCache.match_prefix", Doing.KV_LOOKUP),
        (f"{SGLANG};sglang.srt.managers.tp_worker:TpModelWorker.forward_batch_generation", Doing.FORWARD),
        (SGLANG, Doing.IDLE),
        ("sglang.srt.managers.tokenizer_manager:TokenizerManager._tokenize_one_request", Doing.TOKENIZER),
        ("sglang.srt.managers.detokenizer_manager:DetokenizerManager.handle_batch_token_id_out", Doing.DETOKENIZER),
        ("tensorrt_llm._torch.pyexecutor.scheduler:X.schedule_request", Doing.SCHEDULER),
        (f"{SAMPLE};transformers.models.llama.modeling_llama:LlamaModel.forward", Doing.FORWARD),
        (SAMPLE, Doing.SAMPLING),
        ("serve:loop;numpy._core.records:fromfile", Doing.DISK),
        ("serve:loop;serve:something_of_its_own", Doing.OTHER),
    ],
)  # fmt: skip
def test_the_innermost_telling_frame_decides(frames, doing):
    assert classify(frames, active=True) is doing


@pytest.mark.parametrize(
    ("frames", "active", "doing"),
    [
        ("threading:Thread.run;concurrent.futures.thread:_worker", False, Doing.IDLE),
        ("threading:Thread.run;threading:Condition.wait", False, Doing.IDLE),
        ("asyncio.runners:Runner.run", True, Doing.OTHER),
        ("threading:Thread.run;serve:loop", False, Doing.OTHER),
    ],
)
def test_only_a_thread_that_stands_in_a_known_wait_is_idle(frames, active, doing):
    assert classify(frames, active=active) is doing


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("vllm_engine_core_idle", Doing.IDLE),
        ("vllm_engine_core_loaded", Doing.IPC),
        ("vllm_api_server", Doing.IDLE),
    ],
)
def test_every_thread_of_a_captured_vllm_has_a_name(name, doing):
    stacks = folded((FIXTURES / "stacks" / f"{name}.json").read_bytes(), ENGINE)
    sorted_ = {thread: classify(frames, active=active == "true") for thread, active, frames in stacks}
    assert sorted_["main"] is doing
    assert Doing.OTHER not in sorted_.values()
