"""Only variables on the list, and of them no secret."""

from __future__ import annotations

from pathlib import Path

from fakeproc import FakeProc

from kvdoctor.target.environment import VALUE, environment
from kvdoctor.target.process import Proc


def test_only_names_on_the_list_and_no_secret(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    env = {
        "VLLM_USE_V1": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "VLLM_API_KEY": "sk-1",
        "LMCACHE_REMOTE_SECRET": "s",
        "LMCACHE_REMOTE_URL": "redis://u:p@host:1",
        "AWS_SECRET_ACCESS_KEY": "a",
        "HF_TOKEN": "hf_x",
        "PATH": "/bin",
        "PGPASSWORD": "x",
        "UCX_TLS": "tcp\x1b[2J",
        "VLLM_LONG": "y" * 5000,
    }
    fake.process(10, ["x"], environ=env)
    found = environment(Proc(fake.root), 10)
    assert set(found) == {"VLLM_USE_V1", "CUDA_VISIBLE_DEVICES", "LMCACHE_REMOTE_URL", "UCX_TLS", "VLLM_LONG"}
    assert found["LMCACHE_REMOTE_URL"] == "redis://***@host:1"
    assert found["UCX_TLS"] == "tcp"
    assert len(found["VLLM_LONG"]) == VALUE


def test_a_title_written_over_the_environment_breaks_nothing(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["x"])
    (fake.root / "10" / "environ").write_bytes(b"ineCore\0\0   \0\xff\xfe=\0VLLM_X=1\0HOME")
    assert environment(Proc(fake.root), 10) == {"VLLM_X": "1"}
    assert environment(Proc(fake.root), 11) == {}
