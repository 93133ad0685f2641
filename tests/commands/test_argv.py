"""Options whose value may be left out."""

from __future__ import annotations

import pytest

from kvdoctor.commands.argv import with_defaults


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        ("report f --json", "report f --json -"),
        ("report f --json -", "report f --json -"),
        ("report f --json out", "report f --json out"),
        ("report --json --html h f", "report --json - --html h f"),
        ("report f --json --markdown m", "report f --json - --markdown m"),
        ("report f --markdown --json", "report f --markdown - --json -"),
        ("report f --json=out", "report f --json=out"),
        ("report f --html", "report f --html"),
        ("report -- --json", "report -- --json"),
        ("report --json -- f", "report --json - -- f"),
        ("", ""),
    ],
)
def test_a_value_that_is_left_out_is_standard_output(line: str, understood: str) -> None:
    assert with_defaults(line.split()) == understood.split()
