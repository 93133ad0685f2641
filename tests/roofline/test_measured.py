"""What a probe measured: the ceiling that it makes, its conditions in words, and what of them is another."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvdoctor.errors import Misuse
from kvdoctor.render import roofline_text
from kvdoctor.roofline import serving
from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.asked import Asked, question_of
from kvdoctor.roofline.measured import Measured, from_text, of_result
from kvdoctor.roofline.presets import preset
from kvdoctor.roofline.probefile import measured_in, rates_in
from kvdoctor.roofline.report import Report
from kvdoctor.roofline.whatif import what_ifs

LLAMA = preset("Llama-3.1-8B")
STEP = serving.decode_bytes(LLAMA, batch=8, context=4096).total
DECODE: dict[str, Any] = {
    "schema_version": 1,
    "probe": "decode",
    "at": "2026-11-29T10:00:00Z",
    "device": "NVIDIA H100 80GB HBM3",
    "step_seconds": STEP / 2.4e12,
    "achieved_bytes_per_s": 2.4e12,
    "plain_read_bytes_per_s": 3.0e12,
    "bytes_per_step": STEP,
    "rows": [{"bytes_per_s": 2.4e12}, {"bytes_per_s": 3.0e12}],
    "conditions": {
        "model": "Llama-3.1-8B",
        "batch": 8,
        "context": 4096,
        "weights": "bf16",
        "kv_dtype": "bf16",
    },
}
HBM: dict[str, Any] = {
    "probe": "hbm",
    "at": "2026-11-28T10:00:00Z",
    "device": "CPU",
    "measures": "system memory",
    "achieved_bytes_per_s": 25e9,
    "rows": [{"op": "read", "bytes_per_s": 20e9}, {"op": "copy", "bytes_per_s": 40e9}],
    "conditions": {},
}
NVME = {"probe": "nvme", "rows": [{"op": "random read", "bytes_per_s": 2e9}]}
REFUSED = {"probe": "decode", "refused": {"reason": "the card is hot", "cure": "wait"}}


def measured(**changes: Any) -> Measured:
    found = of_result(DECODE)
    assert found is not None
    return replace(found, **changes)


def written(folder: Path, *results: object) -> Path:
    path = folder / "probe.json"
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    return path


def test_decode_steps_near_the_plain_read_are_the_ceiling_with_their_conditions() -> None:
    found = measured()
    assert found.bytes_per_s == 2.4e12
    assert found.basis == (
        "measured by probe decode at batch 8, context 4,096: decode of Llama-3.1-8B, bf16 weights, bf16 KV, "
        "NVIDIA H100 80GB HBM3, 2026-11-29"
    )


@pytest.mark.parametrize(("decode", "ceiling"), [(1.8e12, 1.8e12), (1.79e12, 3.0e12)])
def test_below_six_tenths_of_the_plain_read_a_step_is_no_ceiling_of_reads(
    decode: float, ceiling: float
) -> None:
    assert measured(decode=decode).bytes_per_s == ceiling


def test_a_step_that_reads_do_not_bind_is_said() -> None:
    basis = measured(decode=0.9e12).basis
    assert (
        "at batch 8, context 4,096: a plain read; its decode reached 30% of it, not bound by reads" in basis
    )


def test_memory_that_a_cpu_read_is_not_called_a_gpu(tmp_path: Path) -> None:
    found = answer(question_of(Asked("Llama-3.1-8B", measured=written(tmp_path, HBM))))
    text = " ".join(roofline_text.render(Report(found, ())).split())
    assert text.startswith("Llama-3.1-8B on a machine's CPUs ")
    assert "the machine's memory: 25.0 GB/s (measured by probe hbm: a plain read, CPU" in text
    assert "hit in memory, " in text
    assert "a GPU: " not in text


def test_a_machines_own_memory_has_no_card_to_fetch_to_to_offload_from_or_to_double(tmp_path: Path) -> None:
    asked = question_of(Asked("Llama-3.1-8B", measured=written(tmp_path, HBM), memory="64", peak=1.5))
    names = {place.tier.name for place in answer(asked).places}
    assert "this memory" in names
    assert not any("PCIe" in name or "NVLink" in name or name == "HBM" for name in names)
    changes = {row.change for row in what_ifs(asked)}
    assert "KV fp8" in changes
    assert not changes & {"TP x2", "offload idle KV", "offload weights"}
    text = roofline_text.render(Report(answer(asked), what_ifs(asked)))
    assert "usable (90% of the memory)" in text
    assert "card" not in text


def test_without_a_peak_the_floor_on_a_miss_is_said_to_leave_computing_out(tmp_path: Path) -> None:
    asked = Asked("Llama-3.1-8B", measured=written(tmp_path, HBM))
    text = " ".join(roofline_text.render(Report(answer(question_of(asked)), ())).split())
    assert "for its reads; computing is not counted (--peak TFLOPS)" in text


def test_a_rate_of_another_machine_is_said_before_any_rate(tmp_path: Path) -> None:
    other = question_of(Asked("Llama-3.1-8B", "H200", measured=written(tmp_path, DECODE)))
    text = " ".join(roofline_text.render(Report(answer(other), ())).split())
    said = "Every rate below is that of NVIDIA H100 80GB HBM3, where it was measured"
    assert text.index(said) < text.index("Ceiling")
    same = question_of(Asked("Llama-3.1-8B", "H100", measured=written(tmp_path, DECODE)))
    assert "Every rate below" not in roofline_text.render(Report(answer(same), ()))


def test_memory_that_a_card_read_is_a_gpus(tmp_path: Path) -> None:
    text = roofline_text.render(
        Report(answer(question_of(Asked("Llama-3.1-8B", measured=written(tmp_path, DECODE)))), ())
    )
    assert "a GPU: 2.40 TB/s" in text
    assert "hit in HBM, " in text


def test_the_memory_probe_gives_its_plain_read() -> None:
    found = of_result(HBM)
    assert found is not None
    assert (found.bytes_per_s, found.basis) == (25e9, "measured by probe hbm: a plain read, CPU, 2026-11-28")
    assert found.doubts(LLAMA, batch=64, context=9, kv_dtype="fp8") == ()


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"settled": True, "on_processor": 0.95}, ""),
        ({"settled": False, "on_processor": 0.95}, "its warm-up did not settle"),
        ({"on_processor": 0.4}, "other work left the probe 40% of its processors' time"),
        ({"shared_with_others": True}, "the service took its share meanwhile"),
    ],
)
def test_what_disturbed_a_probe_is_kept(about: dict[str, Any], says: str) -> None:
    found = of_result({**DECODE, "conditions": {**DECODE["conditions"], **about}})
    assert found is not None
    assert found.disturbed == says


def test_a_row_of_the_memory_probe_tells_of_other_work_too() -> None:
    found = of_result({**HBM, "rows": [{"bytes_per_s": 1.0, "conditions": {"on_processor": 0.5}}]})
    assert found is not None
    assert "50% of its processors' time" in found.disturbed


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"achieved_bytes_per_s": "fast"},
        {"achieved_bytes_per_s": float("nan")},
        {"achieved_bytes_per_s": 10**400, "plain_read_bytes_per_s": 10**400},
        {"achieved_bytes_per_s": 0, "plain_read_bytes_per_s": 1},
        {"achieved_bytes_per_s": 1e9},
    ],
)
def test_a_decode_result_without_its_rates_is_none(broken: dict[str, Any]) -> None:
    assert of_result({"probe": "decode", **broken}) is None


def test_a_recording_keeps_all_of_it() -> None:
    assert from_text(measured().text()) == measured()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "7", "[" * 100_000, measured().text().replace("3000000000000.0", "-1"),
     measured().text().replace('"NVIDIA H100 80GB HBM3"', "4"), measured().text().replace("8.0", "NaN")],
)  # fmt: skip
def test_what_no_probe_wrote_is_none(text: str) -> None:
    assert from_text(text) is None


SAME = {"batch": 8.0, "context": 4096.0, "kv_dtype": None}


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({}, []),
        ({"batch": 16.0, "context": 2048.0}, []),
        ({"batch": 17.0}, ["batch 8, used for batch 17"]),
        ({"batch": 3.9}, ["batch 8, used for batch 3.90"]),
        ({"context": 8193.0}, ["context 4,096, used for context 8,193"]),
        ({"kv_dtype": "fp8"}, ["bf16 KV, used for fp8 KV"]),
        ({"batch": None, "context": None}, []),
    ],
)
def test_other_conditions_are_said(load: dict[str, Any], says: list[str]) -> None:
    assert list(measured().doubts(LLAMA, **{**SAME, **load})) == says


@pytest.mark.parametrize("name", ["Qwen3-32B", "Llama-3.1-70B"])
def test_the_shape_of_another_model_is_said(name: str) -> None:
    (doubt,) = measured().doubts(preset(name), **SAME)
    assert "Llama-3.1-8B in bf16, whose step reads 19.3 GB" in doubt


def test_without_a_shape_batch_and_context_are_compared_all_the_same() -> None:
    assert len(measured().doubts(None, batch=99, context=None, kv_dtype="fp8")) == 1


@pytest.mark.parametrize(
    ("card", "same"), [("H100", True), ("NVIDIA H100 80GB HBM3", True), ("H200", False), ("CPU", False)]
)
def test_cards_are_told_apart_however_they_are_written(card: str, same: bool) -> None:
    assert measured().is_of(card) is same


def test_the_fastest_decode_of_a_file_goes_before_its_plain_reads(tmp_path: Path) -> None:
    slow = {**DECODE, "achieved_bytes_per_s": 2.0e12}
    assert measured_in(written(tmp_path, HBM, slow, NVME, DECODE, REFUSED)) == measured()


def test_a_file_of_the_memory_probe_alone_gives_its_plain_read(tmp_path: Path) -> None:
    assert measured_in(written(tmp_path, NVME, HBM)).bytes_per_s == 25e9


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([NVME], "holds results of nvme, and none of how fast memory is read"),
        ([REFUSED], "the probe decode measured nothing: the card is hot"),
        ([{"schema_version": 1}], "holds no rate"),
        ([{"probe": "decode"}], "holds results of decode"),
        (["{"], "holds no rate"),
    ],
)
def test_a_wrong_file_is_misuse_with_a_cure(tmp_path: Path, results: list[object], says: str) -> None:
    with pytest.raises(Misuse, match=says) as caught:
        measured_in(written(tmp_path, *results))
    assert caught.value.hint


def test_what_is_no_file_or_no_text_is_misuse(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"\xff\xfe")
    (tmp_path / "words").write_text("not json")
    for name, says in (
        ("none", "can't be read"),
        ("raw", "is no text"),
        ("words", "is not JSON"),
        (".", "can't"),
    ):
        with pytest.raises(Misuse, match=says):
            measured_in(tmp_path / name)


def test_rates_are_found_at_any_depth_and_nothing_else_is() -> None:
    rows = {"a": [{"bytes_per_s": 2.0, "achieved_bytes_per_s": 1.0}, {"b": {"bytes_per_s": 3}}], "rate": 9}
    assert list(rates_in(rows)) == [1.0, 3.0]


def test_numbers_beyond_a_floats_range_are_no_rates() -> None:
    assert list(rates_in([{"bytes_per_s": 10**400}, {"bytes_per_s": float("inf")}])) == []


def test_a_file_without_an_end_is_misuse() -> None:
    with pytest.raises(Misuse, match="too large for a probe's result"):
        measured_in(Path("/dev/zero"))


def test_the_roofline_gives_the_probes_own_step_back(tmp_path: Path) -> None:
    path = written(tmp_path, DECODE)
    asked = Asked("Llama-3.1-8B", gpu="H100", batch=8, context="4096", measured=str(path))
    found = answer(question_of(asked))
    assert found.decode.seconds_floor == pytest.approx(DECODE["step_seconds"])
    assert found.decode.expected is not None
    assert found.decode.ceiling is not None
    assert found.decode.ceiling == pytest.approx(8 / DECODE["step_seconds"])
    assert found.decode.expected[1] == pytest.approx(8 / DECODE["step_seconds"])
    assert found.question.card.basis == f"{measured().basis} (probe.json)"
    assert not [text for text in found.warnings if "other conditions" in text]
    assert [text for text in found.warnings if "only that cannot be exceeded" in text]


def test_the_roofline_says_what_was_measured_otherwise(tmp_path: Path) -> None:
    path = written(tmp_path, DECODE)
    asked = Asked("Llama-3.1-8B", gpu="H200", batch=64, context="4096", kv_dtype="fp8", measured=str(path))
    said = " ".join(answer(question_of(asked)).warnings)
    assert "measured on NVIDIA H100 80GB HBM3, not on NVIDIA H200" in said
    assert "other conditions: batch 8, used for batch 64" in said
    assert "other conditions: bf16 KV, used for fp8 KV" in said
