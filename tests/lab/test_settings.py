"""What is told to server and load over their standard inputs."""

from __future__ import annotations

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.lab import settings, wants
from kvdoctor.lab.faults import FAULTS, scene_of


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_settings_and_wants_of_every_fault_survive_their_line(fault):
    scene = scene_of([fault], seed=3)
    assert settings.from_line(settings.to_line(scene.settings)) == scene.settings
    asked = wants.Wants("http://127.0.0.1:1", "lab", 3, (scene.group, *scene.beside))
    assert wants.from_line(wants.to_line(asked)) == asked


def test_an_empty_line_is_a_healthy_server():
    assert settings.from_line("\n") == settings.Settings()


@pytest.mark.parametrize("line", ["{", "[]", '{"pool_block": 3}', '{"tiers": [{"sort": "host"}]}', "3"])
def test_anything_else_is_refused(line):
    with pytest.raises(KvdoctorError, match="settings"):
        settings.from_line(line)
