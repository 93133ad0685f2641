"""Settings for all property tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# The machine that runs the tests may be busy: how long an example takes says nothing.
settings.register_profile(
    "unhurried",
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unhurried")


def pytest_addoption(parser):
    """`--update` writes the sample reports anew."""
    parser.addoption("--update", action="store_true", help="write sample_reports anew")


def pytest_collection_modifyitems(config, items):
    """Whole runs of the lab take most of a minute each: they run only where `-m lab` asks for them."""
    if "lab" in config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.skip(reason="a whole run of the lab: pytest -m lab"))
