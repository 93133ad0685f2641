"""Everything that is said of a family without asking it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fakeproc import FakeProc, vllm

from kvdoctor.target.describe import Host, Target, describe
from kvdoctor.target.family import Card
from kvdoctor.target.gpu import Device, Devices
from kvdoctor.target.kin import family_at
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc
from kvdoctor.target.scan import scan

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def described(fake: FakeProc, pid: int = 100, seen: Devices | None = None) -> Target:
    proc, patience = Proc(fake.root), Patience()
    kin = family_at(scan(proc, patience, own_pid=0), pid)
    assert kin is not None
    return describe(Host(proc, patience, seen or Devices(), 1000), kin)


def test_a_server_is_described_from_its_command_line_and_its_files(fake: FakeProc, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "opt/venv/lib/python3.12/site-packages/vllm-0.32.0.dist-info").mkdir(parents=True)
    (root / "models/m").mkdir(parents=True)
    (root / "models/m/config.json").write_text(json.dumps(CONFIG))
    vllm(fake, 100, "/models/m", "-tp", "2", "--max-num-seqs", "64", "--api-key", "sk-1", uid=os.geteuid())
    fake.sees(100, root, exe="/usr/bin/python3.12")
    fake.listens(100, "0.0.0.0", 8000, inode=1)
    target = described(fake, 103)
    info, facts = target.info, dict(target.facts)
    assert (info.engine, info.version, info.model, info.pid) == ("vllm", "0.32.0", "/models/m", 100)
    assert info.url == "http://127.0.0.1:8000/metrics"
    assert info.ranks == ("TP0", "TP1")
    assert info.uptime_seconds == 10000.0 - 500_000 / os.sysconf("SC_CLK_TCK")
    assert (facts["tp"], facts["max_num_seqs"], facts["pid"], facts["engine"]) == ("2", "64", "100", "vllm")
    assert json.loads(facts["model_config"])["hidden_size"] == 64
    assert facts["target_cmdline"].endswith("--api-key ***")
    assert target.gaps == ()
    assert [(m.purpose, m.path, m.device) for m in target.family.mounts] == [("model", "/models/m", "8:1")]
    assert target.family.net_namespace == 4026531840


def test_no_secret_is_anywhere_in_a_description(fake: FakeProc) -> None:
    words = ["m", "--api-key", "sk-1", "--hf-token=hf_2", "--otlp-traces-endpoint", "http://u:pw3@h:1/x"]
    words += ["--kv-transfer-config", '{"kv_connector":"X","extra":{"redis_password":"pw4"}}']
    vllm(fake, 100, *words, environ={"VLLM_API_KEY": "sk-5", "LMCACHE_REMOTE_URL": "redis://u:pw6@h"})
    text = repr(described(fake))
    assert [secret for secret in ("sk-1", "hf_2", "pw3", "pw4", "sk-5", "pw6") if secret in text] == []


def test_the_card_becomes_a_fact_where_all_are_alike(fake: FakeProc) -> None:
    vllm(fake, 100, "m")
    fake.opens(102, "/dev/nvidia0")
    fake.opens(103, "/dev/nvidia1")
    cards = [Card(n, f"GPU-{n}", "NVIDIA H200") for n in (0, 1)]
    seen = Devices(tuple(Device(c, c.index, frozenset((102 + c.index,))) for c in cards), is_readable=True)
    target = described(fake, seen=seen)
    assert dict(target.facts)["gpu"] == "NVIDIA H200"
    assert target.family.cards == tuple(cards)


@pytest.mark.parametrize(
    ("names", "reason"), [(("NVIDIA H200", "Tesla T4"), "several kinds"), (("Foo 9000",) * 2, "Foo 9000")]
)
def test_a_card_that_is_not_clear_is_a_gap(fake: FakeProc, names: tuple[str, str], reason: str) -> None:
    vllm(fake, 100, "m")
    for pid in (102, 103):
        fake.opens(pid, "/dev/nvidia0")
    devices = (Device(Card(n, f"GPU-{n}", names[n]), n, frozenset((102 + n,))) for n in (0, 1))
    target = described(fake, seen=Devices(tuple(devices), is_readable=True))
    assert "gpu" not in dict(target.facts)
    assert any(reason in gap.reason for gap in target.gaps)


def test_the_sides_of_a_pair_are_told_by_their_flags(fake: FakeProc) -> None:
    vllm(fake, 100, "m", "--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}')
    fake.process(200, ["python", "-m", "sglang.launch_server", "--disaggregation-mode", "decode"])
    assert described(fake).info.role == "prefill"
    assert described(fake, 200).info.role == "decode"


def test_folders_for_kv_are_mounts_too(fake: FakeProc) -> None:
    vllm(fake, 100, "m", environ={"LMCACHE_LOCAL_DISK": "file:///kv/a/,relative"})
    assert [(m.purpose, m.path) for m in described(fake).family.mounts] == [("kv", "/kv/a")]


def test_another_users_server_is_described_as_far_as_it_can_be(fake: FakeProc) -> None:
    vllm(fake, 100, "org/unheard-of", "--port", "8123", uid=0)
    fake.listens(100, "0.0.0.0", 8123, inode=1, uid=0, also=("self",))
    for pid in range(100, 105):
        fake.closes(pid)
    target = described(fake)
    assert target.info.url == "http://127.0.0.1:8123/metrics"
    assert target.info.version is None
    assert [gap.source for gap in target.gaps] == ["model"]
    assert target.gaps[0].cure.endswith("diagnose --pid 100")


def test_a_family_that_vanishes_while_it_is_described_raises_nothing(fake: FakeProc) -> None:
    import shutil

    vllm(fake, 100, "m")
    proc, patience = Proc(fake.root), Patience()
    kin = family_at(scan(proc, patience, own_pid=0), 100)
    assert kin is not None
    for pid in range(100, 105):
        shutil.rmtree(fake.root / str(pid))
    target = describe(Host(proc, patience, Devices(), 1000), kin)
    assert (target.info.url, len(target.family.members)) == (None, 5)
