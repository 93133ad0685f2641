"""Published KV and weight sizes against the roofline's."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.known_ask import Json, Query, ask, config_file
from benchmarks.known_case import Case, Verdict, answered, expected, in_unit, judge, rounding, storage_options
from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.doubt import suspects
from kvdoctor.roofline.source import shape_of

_HALVES = ("k_gib", "v_gib", "k_mib", "v_mib")


def sizes(case: Case) -> Verdict:
    """`total`, `alloc`, `alloc_bytes`, `request`: bytes for a number of tokens."""
    given, (key, want) = case.given, expected(case)
    tokens = given.get("tokens", given.get("tokens_per_seq"))
    count = given.get("batch", 1) * given.get("seqs", 1) * (_key_share(case) if key in _HALVES else 1)
    found = answered(case, context=tokens)
    growing = found["per_rank"]["kv_bytes_per_token"] * tokens
    state = found["per_rank"]["state_bytes_per_sequence"]
    # Every layer holds every token, as engines without a manager for windows keep them.
    every = answered(case, context=tokens, windows="full")["kv_bytes_per_sequence"] - state
    counted = str(given.get("layers_counted", ""))
    if counted.startswith("sliding"):
        readings = [every - growing]
    elif counted.startswith("full"):
        readings = [growing]
    elif case.entry["kind"].startswith("alloc"):
        # A pool's line does not say whether the layers with a window are in it.
        readings = [growing, every]
    else:
        readings = [found["kv_bytes_per_sequence"]]
    values = [in_unit(key, size * count) for size in readings]
    warnings = [*found["warnings"], *_doubts(case, readings[0] * count)]
    return judge(case, min(values, key=lambda value: abs(value - want)), warnings)


def _key_share(case: Case) -> float:
    """The share of the keys in K and V together."""
    cache = next(layer.cache for layer in shape_of(case.model()).layers if layer.cache)
    share = cache.k_dim / (cache.k_dim + cache.v_dim)
    return share if expected(case)[0].startswith("k_") else 1 - share


def _doubts(case: Case, size: float) -> list[str]:
    """Why a published size may be wrong."""
    key, claimed = expected(case)
    scale = size / in_unit(key, size)
    return list(suspects(shape_of(case.model()), claimed=claimed * scale, computed=size))


def pools(case: Case) -> Verdict:
    """`pool`, `hybrid_pool`: tokens of a pool that is printed to 0.01 GiB; `max_len`: the longest sequence."""
    given, key = case.given, expected(case)[0]
    printed = float(given["pool_gib"] if "pool_gib" in given else given["pool_gib_per_rank"])
    field = "longest_sequence" if case.entry["kind"] == "max_len" else "tokens"
    context = given.get("max_model_len", case.entry["expect"].get("max_concurrency_len", 4096))
    if key == "max_concurrency":
        field = "concurrency"
    values = []
    for pool in (printed - rounding(printed), printed + rounding(printed), printed):
        found = answered(case, pool=pool, context=context)
        values.append(found["pool"][field])
    inside = values[0] <= expected(case)[1] <= values[1]
    return judge(case, expected(case)[1] if inside else values[2], found["warnings"])


def layouts(case: Case) -> Verdict:
    """`block_bytes`, `bytes_per_page`, `bytes_per_token_layer`, `transfer_bytes`."""
    given, key = case.given, expected(case)[0]
    kind = case.entry["kind"]
    if kind in ("bytes_per_token_layer", "bytes_per_page"):
        return _one_layer(case)
    found = answered(case)
    token = found["per_rank"]["kv_bytes_per_token"]
    size = token * given["block_size"]
    if kind == "transfer_bytes":
        blocks = given["tokens"] // given["block_size"] + 1
        size *= blocks * given.get("tp", 1)
    return judge(case, in_unit(key, size), found["warnings"])


def _one_layer(case: Case) -> Verdict:
    """Bytes of one token (or page) in one layer: the latent or the index key, whichever the format names."""
    given, key = case.given, expected(case)[0]
    form = str(given.get("format", given.get("kv_dtype", ""))).lower()
    tokens = next((given[name] for name in ("page_size", "page", "block_size", "tokens") if name in given), 1)
    config = json.loads(Path(case.model()).read_text(encoding="utf-8"))
    bare = {name: value for name, value in config.items() if not name.startswith("index_")}
    dtype = "fp8_ds_mla" if "fp8" in form and ("scale" in form or "ds_mla" in form) else form.split()[0]
    options = {"kv-dtype": "bf16" if "index" in form or "index" in case.notes else dtype, "context": 1}
    plain = ask(Query(config_file(bare, case.scratch, f"{case.entry['id']}-bare"), options))
    size = plain["kv_bytes_per_sequence"] / plain["model"]["kv_layers"]
    if "index" in form or "index" in case.notes:
        whole = ask(Query(case.model(), options))
        size = whole["kv_bytes_per_sequence"] / whole["model"]["kv_layers"] - size
    return judge(case, in_unit(key, size * tokens), plain["warnings"])


def concurrency(case: Case) -> Verdict:
    """Blocks (or tokens) and a length are printed: any uniform model with that many blocks answers it."""
    given = case.given
    config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 128}
    config |= {"vocab_size": 128, "intermediate_size": 128}
    path = config_file(config, case.scratch, case.entry["id"])
    block = given.get("block_size", 1)
    options = {"block-size": block, "context": _length(given)}
    token = ask(Query(path, options))["per_rank"]["kv_bytes_per_token"]
    held = given["blocks"] * block if "blocks" in given else given["tokens"]
    found = ask(Query(path, options | {"pool": held * token / 2**30}))
    field = "concurrency" if expected(case)[0] == "max_concurrency" else "tokens"
    return judge(case, found["pool"][field], found["warnings"])


def _length(given: Json) -> int:
    """The length that a printed concurrency is for."""
    for name in ("max_model_len", "max_concurrency_len", "context", "tokens_per_request"):
        if name in given:
            return int(given[name])
    raise KvdoctorError("the entry names no length")


def ratio(case: Case) -> Verdict:
    """`ratio`: two printed numbers against what they should be to each other."""
    numbers = [float(value) for value in case.given.values() if isinstance(value, (int, float))]
    if len(numbers) != 2 or not all(numbers):
        raise KvdoctorError(f"a ratio of {len(numbers)} numbers")
    want = expected(case)[1]
    return judge(case, min(numbers[0] / numbers[1], numbers[1] / numbers[0], key=lambda x: abs(x - want)), [])


def resident(case: Case) -> Verdict:
    """`weights`: resident bytes, parameter counts, or bytes a token implied by a printed bandwidth."""
    given, key = case.given, expected(case)[0]
    if "params" in given:
        return judge(case, in_unit(key, given["params"] * given["bytes_per_param"]), [])
    text = str(given.get("dtype", ""))
    options = {name: value for name, value in storage_options(given).items() if name == "tp"}
    if form := weight_option(text):
        options["weights"] = form
    found = ask(Query(case.model(), options))
    if key == "params_b":
        return judge(case, found["parameters"]["total"] / 1e9, found["warnings"])
    if "bandwidth_gb_s" in given:
        return _implied(case, options)
    return judge(case, in_unit(key, found["per_rank"]["weight_bytes"]), found["warnings"])


def _implied(case: Case, options: Json) -> Verdict:
    """Bytes that a token reads; a tool may have counted the embedding table, which is not read in full."""
    form = options.get("weights")
    query = Query(
        case.model(), options | ({"weights": f"{form},head={form}"} if form else {}) | {"context": 0}
    )
    found = ask(query)
    key, want = expected(case)
    sizes = (found["decode"]["bytes"]["weights"], found["per_rank"]["weight_bytes"])
    return judge(
        case, min((in_unit(key, size) for size in sizes), key=lambda x: abs(x - want)), found["warnings"]
    )


def weight_option(text: str) -> str | None:
    """`int8 linear, ...`, `fp8 blocks, ...`, `AWQ int4 group 128`; None for what the config says itself."""
    low = text.lower()
    if "experts" in low or not low:
        return None
    group = re.search(r"g(?:roup)?[ =]?(\d+)", low)
    for word, form in (
        ("int8", "int8"),
        ("w8a8", "int8"),
        ("fp8 block", "fp8-block"),
        ("fp8", "fp8"),
        ("nvfp4", "nvfp4"),
        ("mxfp4", "mxfp4"),
        ("nf4", "nf4"),
    ):
        if word in low.split(",")[0]:
            return form
    if any(word in low for word in ("awq", "gptq", "int4")):
        return f"int4-g{group[1] if group else 128}"
    if re.search(r"\b(bf16|fp16|f16)\b", low):
        return "bf16"
    raise KvdoctorError(f"the weights {text!r} are not understood")
