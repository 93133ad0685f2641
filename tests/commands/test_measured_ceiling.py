"""From the file of a probe to the ceiling of a report and of a roofline, as a user runs them."""

from __future__ import annotations

import json

import pytest
from loads import load
from program import Program

from kvdoctor.store import save

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
PROBE = {
    "schema_version": 1,
    "probe": "decode",
    "at": "2026-11-29T10:00:00Z",
    "device": "CPU",
    "step_seconds": 0.02,
    "achieved_bytes_per_s": 1.0e12,
    "plain_read_bytes_per_s": 1.2e12,
    "conditions": {"model": "m", "batch": 40, "context": 2000, "weights": "bf16", "kv_dtype": "bf16"},
}


@pytest.fixture
def program(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "probe.json").write_text(json.dumps(PROBE) + "\n")
    (tmp_path / "disk.json").write_text('{"probe": "nvme", "rows": [{"bytes_per_s": 2e9}]}\n')
    # 40 sequences of 2,000 tokens in decode, 40 ms a step
    recording = load(prompt=1990, outputs=21, first_tokens=1500, itl_mean=0.04, usage=0.8)
    save(recording, str(tmp_path / "r.kvrec"))
    return Program(tmp_path)


def bandwidth(answer):
    """The finding's evidence by name."""
    (found,) = (one for one in answer["findings"] if one["bound"] == "bandwidth")
    return {one["name"]: one for one in found["evidence"]}


def test_a_report_is_held_against_what_the_probe_measured_and_keeps_it(program):
    asked = ("r.kvrec", "--model", "config.json", "--bandwidth", "probe.json")
    ran = program.run("diagnose", *asked, "--save", "kept.kvrec", "--json")
    assert ran.code == 0, ran.err
    ceiling = bandwidth(json.loads(ran.out))["HBM read ceiling"]
    assert ceiling["value"] == pytest.approx(1.0e12)
    assert ceiling["source"].startswith("measured by probe decode at batch 40, context 2,000: decode of m")
    again = program.run("report", "kept.kvrec", "--json")
    assert bandwidth(json.loads(again.out)) == bandwidth(json.loads(ran.out))


@pytest.mark.parametrize(
    ("changes", "gpu", "says"),
    [
        (
            {"device": "NVIDIA H100 80GB HBM3"},
            "H200",
            "the ceiling was measured on NVIDIA H100 80GB HBM3 and the",
        ),
        ({"device": "NVIDIA H200"}, "H200", ""),
        (
            {"device": "NVIDIA H200", "conditions": {**PROBE["conditions"], "batch": 1}},
            "H200",
            "other conditions",
        ),
        (
            {"device": "NVIDIA H200", "conditions": {"shared_with_others": True}},
            "H200",
            "is a lower bound and no",
        ),
    ],
)
def test_what_speaks_against_a_probe_is_a_warning_at_once(program, changes, gpu, says):
    (program.folder / "other.json").write_text(json.dumps({**PROBE, **changes}) + "\n")
    asked = ("r.kvrec", "--model", "config.json", "--bandwidth", "other.json", "--gpu", gpu)
    for command in ("diagnose", "report"):
        ran = program.run(command, *asked)
        assert ran.code == 0, ran.err
        warnings = [line for line in ran.err.splitlines() if line.startswith("kvdoctor: warning: ")]
        assert [says in line and "; try: " in line for line in warnings] == [True] * bool(says)


def test_a_rate_that_is_told_later_replaces_the_probes(program):
    program.run(
        "diagnose", "r.kvrec", "--model", "config.json", "--bandwidth", "probe.json", "--save", "k.kvrec"
    )
    ran = program.run("report", "k.kvrec", "--bandwidth", "900", "--json")
    ceiling = bandwidth(json.loads(ran.out))["HBM read ceiling"]
    assert (ceiling["value"], ceiling["source"]) == (pytest.approx(9e11), "as given by --bandwidth")


def test_the_roofline_takes_the_same_file(program):
    asked = ("--batch", "40", "--context", "2000", "--measured", "probe.json", "--json")
    ran = program.run("roofline", "config.json", *asked)
    assert ran.code == 0, ran.err
    machine = json.loads(ran.out)["machine"]
    assert machine["bandwidth_bytes_per_s"] == pytest.approx(1.0e12)
    assert machine["bandwidth_basis"].startswith("measured by probe decode at batch 40, context 2,000")


@pytest.mark.parametrize(
    "words",
    [("report", "r.kvrec", "--bandwidth"), ("roofline", "config.json", "--measured")],
    ids=["report", "roofline"],
)
@pytest.mark.parametrize(
    ("file", "says"),
    [("disk.json", "none of how fast memory is read"), ("config.json", "holds no rate")],
)
def test_a_wrong_file_is_a_sentence_and_exit_code_2(program, words, file, says):
    ran = program.run(*words, file)
    assert (ran.code, says in ran.err.replace("\n", " "), "kvdoctor probe decode" in ran.err) == (
        2,
        True,
        True,
    )
