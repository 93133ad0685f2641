"""Published rates against ceilings, claims to refute, and the times of tiers."""

from __future__ import annotations

import re

from benchmarks.known_ask import Json, Query, ask, config_file
from benchmarks.known_case import WEIGHTS, Case, Verdict, expected, inline, storage_options
from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.tiers import transfer_seconds


def ceiling(case: Case) -> Verdict:
    """`decode`: the ceiling is at least the measured rate and at most `max_factor` of it."""
    given = case.given
    found = ask(Query(_model(case), _options(given)))
    rate = found["decode"]["tokens_per_s_ceiling"] * given.get("accepted_tokens_per_step", 1)
    return _bounded(case, rate)


def claim(case: Case) -> Verdict:
    """`refute`: the command calls the claimed total impossible."""
    claimed = case.entry["claimed"]["tokens_per_s"]
    found = ask(Query(_model(case), _options(case.given) | {"claim": f"{claimed} tok/s total"}))
    verdict = found["claim"]
    text = f"claimed {claimed:g} tok/s, at most {found['decode']['tokens_per_s_ceiling']:.4g}"
    return Verdict("missed" if verdict["possible"] else "held", f"{text}; {'; '.join(verdict['remedies'])}")


def max_throughput(case: Case) -> Verdict:
    """The batch is what fits beside the weights at the mean context."""
    given = case.given
    options = _options(given) | {"block-size": 1}
    held = ask(Query(case.model(), options))["per_rank"]["weight_bytes"]
    pool = (given["kv_fraction"] * given["memory_gb"] * 1e9 - held) / 2**30
    fitting = ask(Query(case.model(), options | {"pool": pool, "context": int(options["context"])}))
    batch = fitting["pool"]["sequences"]
    peak = case.entry.get("peak_tflops")
    found = ask(Query(case.model(), options | {"batch": float(batch)} | ({"peak": peak} if peak else {})))
    return _bounded(case, found["decode"]["tokens_per_s_ceiling"])


# Prompt at which prefill is bounded: long enough for compute to rule, short enough for attention to be small.
PROMPT = 2048


def prompt_rate(case: Case) -> Verdict:
    """`prefill`, `cluster`: processed tokens/s at the dense peak."""
    given = case.given
    peak = given.get("peak_tflops") or given.get("peak_fp4_tflops")
    if not peak:
        raise KvdoctorError("a prefill ceiling needs a peak")
    options: Json = {
        "context": PROMPT,
        "peak": peak,
        "tp": given.get("gpus", 1),
        "bandwidth": given.get("bandwidth_gb_s", 1e6),
    }
    found = ask(Query(case.model(), options))
    return _bounded(case, PROMPT / found["prefill"]["seconds_floor"])


def _model(case: Case) -> str:
    """The config, or a stand-in with the KV shape and the bytes that the entry gives."""
    size = case.given.get("weights_bytes")
    if case.entry.get("model") or not size:
        return case.model()
    shape = {"layers": 64, "kv_heads": 1, "head_dim": 128} | (case.entry.get("shape") or {})
    width = shape["kv_heads"] * shape["head_dim"]
    config = inline(shape) | {"vocab_size": 64}
    config["intermediate_size"] = max(1, round(size / (3 * width * shape["layers"])))
    return config_file(config, case.scratch, case.entry["id"])


def _options(given: Json) -> Json:
    """Batch, context, width, bandwidth and formats in the command's spelling."""
    found = storage_options(given)
    gpus = given.get("gpus", 1)
    found["pp" if "pipeline" in str(given.get("split", "")) else "tp"] = gpus
    mean = given["input"] + given.get("output", 0) / 2 if "input" in given else 1
    found |= {"batch": float(given.get("batch", 1)), "context": given.get("context", mean)}
    found["bandwidth"] = given["bandwidth_gb_s"]
    if given.get("dp_attention"):
        found["dp-attention"] = gpus if given["dp_attention"] is True else given["dp_attention"]
    if given.get("state_bytes_per_elem"):
        found["state-dtype"] = {2: "bf16", 4: "fp32"}[given["state_bytes_per_elem"]]
    if weights := _weights(given):
        found["weights"] = weights
    return found


def _weights(given: Json) -> str | None:
    """`int8` with `lm_head`, `bf16` with experts in mxfp4, or the size of a file."""
    if "weights_bytes" in given:
        return f"{given['weights_bytes']}B"
    text = str(given.get("weights", ""))
    if size := re.search(r"file of ([\d.]+) ?(GiB|GB)", text):
        return f"{size[1]}{size[2]}"
    parts = [WEIGHTS.get(text, text)]
    for key, part in (("lm_head", "head"), ("expert_weights", "experts")):
        if key in given:
            parts.append(f"{part}={WEIGHTS.get(given[key], given[key])}")
    return ",".join(parts) if text else None


def _bounded(case: Case, rate: float) -> Verdict:
    """Whether a ceiling lies between the measured rate and `max_factor` times it."""
    measured, factor = expected(case)[1], case.entry["max_factor"]
    ratio = rate / measured
    outcome = "held" if 1 <= ratio <= factor else "missed"
    return Verdict(
        outcome, f"ceiling {rate:.5g} for measured {measured:.5g}: {ratio:.2f}x of at most {factor}x"
    )


def tier(case: Case) -> Verdict:
    """`bandwidth`: a transfer at the line rate is a floor on one at the measured rate."""
    want = case.entry["expect"]
    size = 2**30
    floor = transfer_seconds(size, rate=want["line_rate_gb_s"] * 1e9)
    taken = transfer_seconds(size, rate=want["measured_gb_s"] * 1e9)
    share = floor / taken
    near = abs(share - case.entry["fraction"]) <= 0.001
    return Verdict("held" if floor <= taken and near else "missed", f"{share:.1%} of the line rate")


def fetch(case: Case) -> Verdict:
    """`fetch_time`: bytes over the line rate is at most the measured time, which is within `max_factor`."""
    given = case.given
    floor = transfer_seconds(given["bytes"], rate=given["line_rate_gb_s"] * 1e9) * 1e3
    ratio = case.entry["expect"]["ms"] / floor
    return Verdict(
        "held" if 1 <= ratio <= case.entry["max_factor"] else "missed", f"floor {floor:.4g} ms, {ratio:.2f}x"
    )


def fetch_range(case: Case) -> Verdict:
    """`fetch_time_range`: the times at the rates that the tier names lie within the published range."""
    name = case.entry["tier"]
    rates = re.search(r"([\d.]+)(?: to ([\d.]+))? ?(TB|GB)/s", name)
    if not rates:
        raise KvdoctorError(f"no rate in {name!r}")
    scale = 1e12 if rates[3] == "TB" else 1e9
    times = [
        transfer_seconds(case.given["bytes"], rate=float(rate) * scale) * 1e3
        for rate in rates.groups()[:2]
        if rate
    ]
    want = case.entry["expect"]
    inside = all(want["ms_min"] <= time <= want["ms_max"] for time in times)
    return Verdict("held" if inside else "missed", f"{', '.join(f'{time:.4g}' for time in times)} ms")


def step_time(case: Case) -> Verdict:
    """`step_time`: bytes over bandwidth, to the digits that are printed."""
    seconds = transfer_seconds(case.given["bytes"], rate=case.given["bandwidth_gb_s"] * 1e9)
    want = case.entry["expect"]
    near = (
        abs(seconds * 1e3 / want["ms"] - 1) < 0.001
        and abs(1 / seconds / want["tokens_per_s_per_sequence"] - 1) < 0.001
    )
    return Verdict("held" if near else "missed", f"{seconds * 1e3:.4g} ms, {1 / seconds:.4g} tok/s")


def rehydrate(case: Case) -> Verdict:
    """`fetch_vs_recompute`: reading from disk is a floor on the hit, and the hit beats the cold prefill."""
    given, want = case.given, case.entry["expect"]
    floor = transfer_seconds(given["stored_bytes"], rate=given["disk_gb_s"] * 1e9)
    near = abs(floor / case.entry["floor"]["disk_rehydrate_s"] - 1) < 0.01
    held = near and floor <= want["disk_rehydrate_s"] < want["cold_prefill_s"]
    return Verdict(
        "held" if held else "missed", f"floor {floor:.3g} s for {want['disk_rehydrate_s']} s measured"
    )
