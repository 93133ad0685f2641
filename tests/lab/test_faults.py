"""The table of faults."""

from __future__ import annotations

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.lab.faults import FAULTS, NAMES, chosen, scene_of
from kvdoctor.model import SUBCLASSES, Bound


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_a_name_of_the_contract(fault):
    if fault.name == "none":
        assert (fault.primary, fault.subclass) == ("healthy", None)
    else:
        assert fault.subclass in SUBCLASSES[Bound(fault.primary)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_seed_draws_the_magnitudes_and_nothing_else_does(fault):
    assert scene_of([fault], seed=1) == scene_of([fault], seed=1)
    drawn = {tuple(scene_of([fault], seed=seed).magnitudes.items()) for seed in range(12)}
    assert len(drawn) > 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_prompt_of_a_load_fits_the_pool(fault):
    scene = scene_of([fault], seed=2)
    for group in (scene.group, *scene.beside):
        longest = group.prefix + group.tail[1] + group.outputs[1] + 6
        assert longest <= scene.settings.pool_blocks * scene.settings.block_size


def test_two_faults_make_one_scene():
    scene = scene_of(chosen("capacity,host"), seed=1)
    assert scene.settings.ranking_s > 0
    assert scene.settings.pool_blocks < 100
    assert set(scene.magnitudes) == {"pool_blocks", "ranking_s"}


@pytest.mark.parametrize("names", ["", "nonsense", "none,host", "host,host", ","])
def test_what_is_no_fault_or_no_pair_is_refused(names):
    with pytest.raises(KvdoctorError) as error:
        chosen(names)
    assert error.value.hint


def test_the_names_are_the_ones_of_the_table():
    assert NAMES[0] == "none"
    assert len(set(NAMES)) == len(FAULTS)
