"""Which card a probe gets: CUDA's numbers and NVML's differ, and MIG instances are cards of their own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakenvml import FakeNvml

from kvdoctor.collectors.chosen import Service, choose, others, visible
from kvdoctor.errors import Unavailable
from kvdoctor.target.family import Card

NOBODY = None


def cards(number=3, **names):
    fake = FakeNvml(number)
    fake.answers |= names
    return fake


def chosen(fake, number=None, service=NOBODY, **environment):
    return choose(fake, number, service=service, environment=environment)


@pytest.mark.parametrize(
    ("number", "told", "uuid"),
    [
        (None, {}, "GPU-0"),
        (2, {}, "GPU-2"),
        (None, {"CUDA_VISIBLE_DEVICES": "2,0"}, "GPU-2"),
        (1, {"CUDA_VISIBLE_DEVICES": "2,0"}, "GPU-0"),
        (0, {"CUDA_VISIBLE_DEVICES": "GPU-1"}, "GPU-1"),
        (1, {"CUDA_VISIBLE_DEVICES": "GPU-1, 2"}, "GPU-2"),
    ],
)
def test_without_a_service_cudas_numbers_are_those_that_the_environment_leaves(number, told, uuid):
    assert chosen(cards(), number, **told).uuid == uuid


@pytest.mark.parametrize(
    ("text", "count"), [("0,9,1", 1), ("", 0), ("-1", 0), ("NoDevFiles", 0), ("1,GPU-0", 2)]
)
def test_cuda_reads_its_list_up_to_the_first_word_that_names_no_card(text, count):
    assert len(visible(cards(), {"CUDA_VISIBLE_DEVICES": text})) == count


def test_a_number_beyond_the_cards_is_refused():
    with pytest.raises(Unavailable, match="there is no card cuda:1: CUDA_VISIBLE_DEVICES leaves 1"):
        chosen(cards(), 1, CUDA_VISIBLE_DEVICES="0")


def kinds(fake):
    """Let the cards be of two kinds."""
    real = fake._answer
    fake._answer = lambda name, card, answer: (
        f"NVIDIA {card % 2}" if name == "nvmlDeviceGetName" else real(name, card, answer)
    )
    return fake


def test_numbers_of_cards_of_several_kinds_are_not_guessed():
    with pytest.raises(Unavailable, match="counts them otherwise than NVML") as refused:
        chosen(kinds(cards()), CUDA_VISIBLE_DEVICES="1")
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in refused.value.cure
    told = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert chosen(kinds(cards()), **told).uuid == "GPU-1"
    assert chosen(kinds(cards()), CUDA_VISIBLE_DEVICES="GPU-1").uuid == "GPU-1"


def test_beside_a_service_its_own_card_counts_and_not_ours():
    service = Service((Card(0, "GPU-2"), Card(1)), frozenset({7}))
    assert chosen(cards(), service=service, CUDA_VISIBLE_DEVICES="0").uuid == "GPU-2"
    assert chosen(cards(), 1, service=service).uuid == "GPU-1"
    with pytest.raises(Unavailable, match="there is no card cuda:2: the service uses 2"):
        chosen(cards(), 2, service=service)


def test_a_service_is_found_on_the_card_where_nvml_lists_it():
    fake = cards()
    real = fake._answer
    fake._answer = lambda name, card, answer: (
        [SimpleNamespace(pid=7, usedGpuMemory=1)]
        if name == "nvmlDeviceGetComputeRunningProcesses" and card == 1
        else real(name, card, answer)
    )
    assert chosen(fake, service=Service((), frozenset({7})), CUDA_VISIBLE_DEVICES="0").uuid == "GPU-1"


def test_a_service_whose_cards_are_not_seen_gets_no_card_guessed():
    unseen = Service((), frozenset({8}))
    with pytest.raises(Unavailable, match="which of the cards the service uses is not known") as refused:
        chosen(cards(), service=unseen)
    assert refused.value.cure == "--device cuda:N"
    assert chosen(cards(), 1, service=unseen).uuid == "GPU-1"
    assert chosen(cards(1), service=unseen).uuid == "GPU-0"


def test_a_lost_card_is_refused_with_its_reason():
    fake = cards()
    fake.codes["nvmlDeviceGetHandleByIndex", 1] = 15
    with pytest.raises(Unavailable, match="GPU 1: the card fell off the bus"):
        chosen(fake, 1)
    assert chosen(fake, 2).uuid == "GPU-2"


def test_the_others_are_for_copies_between_cards():
    fake = cards()
    assert [each.uuid for each in others(fake, chosen(fake, 1))] == ["GPU-0", "GPU-2"]
