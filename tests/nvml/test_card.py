"""The card that a probe is granted, by the real binding over the mock library: joined by UUID, MIG instances apart."""

from __future__ import annotations

import json

import pytest
from nvml import scenes
from nvml.mock import SCENARIO, installed
from nvml.test_command import serving, texts
from program import Program

from kvdoctor.collectors.chosen import Service
from kvdoctor.commands.card import granted
from kvdoctor.errors import Unavailable
from kvdoctor.target.family import Card

GIB = scenes.GIB
ROOM = "* memory.used 0 1073741824"
SERVICE = frozenset({scenes.PID})


@pytest.fixture
def ask(stage, monkeypatch):
    """Play lines on three cards and ask for one."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent")

    def run(*lines, device="auto", service=None, need=GIB, more=False, number=3, force=False, **environment):
        nvml = stage.play(*scenes.healthy(number), ROOM, *lines)
        return granted(
            need,
            device,
            service=service,
            more=more,
            force=force,
            load=lambda: nvml,
            environment=environment,
        )

    return run


def test_the_child_sees_the_card_by_its_uuid_and_no_other(ask):
    found = ask(device="cuda:1")
    assert found.environment == {"CUDA_VISIBLE_DEVICES": "GPU-00000001"}
    assert found.options == {"device": "cuda:0"}
    assert found.told == {"card": {"name": "GPU 1", "uuid": "GPU-00000001"}}


def test_where_the_environment_counts_otherwise_the_card_that_is_meant_is_asked_about(ask):
    hot = "2 reasons 0 64"
    with pytest.raises(Unavailable, match="GPU 2: hardware thermal slowdown is active"):
        ask(hot, CUDA_VISIBLE_DEVICES="2,0")
    assert ask(hot, device="cuda:1", CUDA_VISIBLE_DEVICES="2,0").told["card"]["uuid"] == "GPU-00000000"


def test_the_refuse_list_looks_at_the_services_card(ask):
    full = (f"1 memory.used 0 {141 * GIB}", "0 rows.pending 0 1")
    service = Service((Card(-1, "GPU-00000001"),), SERVICE)
    with pytest.raises(Unavailable, match="GPU 1: 0 MiB are free"):
        ask(*full, service=service)
    with pytest.raises(Unavailable, match="GPU 0: memory rows wait to be remapped"):
        ask(*full)
    assert ask(*full, service=Service((Card(2),), SERVICE)).told["card"]["name"] == "GPU 2"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 mode 0 3", "its compute mode lets one process in"),
        ("0 rows.pending 0 1", "memory rows wait to be remapped"),
        ("0 ecc.uncorrected 0 2", "2 memory errors could not be corrected"),
        ("lib confidential 0 1", "confidential computing is on"),
        ("0 reasons 0 128", "power brake is active"),
        ("0 nvmlDeviceGetMemoryInfo 0 !15", "the card fell off the bus"),
        ("0 nvmlDeviceGetRemappedRows 0 !16", "the card needs a reset"),
    ],
)
def test_what_forbids_a_card(ask, line, reason):
    with pytest.raises(Unavailable, match=reason) as refused:
        ask(line)
    assert refused.value.cure


def test_forced_it_is_the_same_card_and_takes_little_of_what_mps_shares_out(ask):
    service = Service((Card(-1, "GPU-00000001"),), SERVICE)
    assert ask("1 reasons 0 64", service=service, force=True).environment == {
        "CUDA_VISIBLE_DEVICES": "GPU-00000001",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1024M",
    }


def test_a_card_that_is_cut_is_not_taken_from_its_owners(ask):
    with pytest.raises(Unavailable, match="GPU 0 is cut into 2 MIG instances, and they belong to others"):
        ask(*scenes.MIG)


def test_an_instance_is_named_by_its_uuid_and_asked_for_its_own_memory(ask):
    found = ask(*scenes.MIG, CUDA_VISIBLE_DEVICES="MIG-bbbb")
    assert found.environment == {"CUDA_VISIBLE_DEVICES": "MIG-bbbb"}
    assert found.told["card"]["name"] == "GPU 0 instance 3"
    with pytest.raises(Unavailable, match=r"GPU 0 instance 3: .* are free"):
        ask(*scenes.MIG, need=17 * GIB, CUDA_VISIBLE_DEVICES="MIG-bbbb")
    with pytest.raises(Unavailable, match="GPU 0 instance 3: hardware slowdown is active"):
        ask(*scenes.MIG, "0 reasons 0 8", CUDA_VISIBLE_DEVICES="MIG-bbbb")


def test_of_a_card_that_is_cut_the_instance_of_the_service_is_taken(ask):
    service = Service((Card(0, "GPU-00000000"),), SERVICE)
    elsewhere = "0.3 processes 0 none"
    found = ask(*scenes.MIG, f"0.1 processes 0 {scenes.PID}:1024", elsewhere, service=service)
    assert found.environment == {"CUDA_VISIBLE_DEVICES": "MIG-aaaa"}
    with pytest.raises(Unavailable, match="which one is the service's is not told"):
        ask(*scenes.MIG, "0.1 processes 0 none", elsewhere, service=service)


def test_copies_between_cards_see_the_free_ones_and_none_beside_a_service(ask):
    hot = "1 reasons 0 64"
    seen = ask(hot, more=True).environment["CUDA_VISIBLE_DEVICES"]
    assert seen == "GPU-00000000,GPU-00000002"
    service = Service((Card(0),), SERVICE)
    assert ask(more=True, service=service).environment["CUDA_VISIBLE_DEVICES"] == "GPU-00000000"


# -- the real command ----------------------------------------------------------------------------------------------


@pytest.fixture
def command(library, tmp_path):
    """Run `kvdoctor probe` beside an engine that NVML sees on card 1 of two, with more lines of the scenario."""

    def run(*words, scene=()):
        folder, pages = tmp_path / "run", tmp_path / "pages"
        folder.mkdir()
        pages.write_text(json.dumps(texts()))
        with serving(folder, pages) as pid:
            lines = [*scenes.healthy(2), ROOM, "* processes 0 none", f"1 processes 0 {pid}:1024", *scene]
            (folder / "scene").write_text("\n".join(lines))
            settings = {"LD_LIBRARY_PATH": str(installed(library, folder / "lib"))}
            settings |= {SCENARIO: str(folder / "scene"), "CUDA_VISIBLE_DEVICES": "0"}
            program = Program(folder, CUDA_MPS_PIPE_DIRECTORY="/nonexistent", **settings)
            return program.run("probe", *words, "--pid", str(pid), "--json")

    return run


def test_the_command_refuses_for_the_services_card_and_not_for_the_one_that_we_would_see(command):
    ran = command("hbm", scene=("1 reasons 0 64", "0 rows.pending 0 1"))
    assert ran.code == 1
    assert json.loads(ran.out)["refused"]["reason"] == "GPU 1: hardware thermal slowdown is active: " + (
        "a rate would say nothing about the card"
    )


def test_the_command_tells_the_card_that_it_took(command):
    found = json.loads(command("hbm", "--size", "128MiB").out.splitlines()[0])
    assert found["card"] == {"name": "GPU 1", "uuid": "GPU-00000001"}
