"""Texts that would do harm if anything obeyed them, and answers that have one in every string."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from diagnosis_capacity import CAPACITY

from kvdoctor.model import Diagnosis

ATTACKS: dict[str, str] = {
    "markup": "[bold red]x[/bold red] [link=http://evil]y[/link] :smile: [/]",
    "ansi": "\x1b[31mred\x1b[0m\x1b[2J\x9b1;1H",
    "osc": "\x1b]0;title\x07\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "bidi": "\u202eevil\u2066x\u200b\u2028y",
    "html": "</script></style></title><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\"'><svg onload=x>",
    "maths": "$x^2$ $\\frac$ $$",
    "template": "{{7*7}}{% raw %}{#x#}",
    "long": "L" * 10_000,
    "newlines": "a\r\nb\n\n# c\n- d\x00\x08",
    "markdown": "`x` | y | @team #12 [t](http://evil) ![i](http://evil/i.png) **b** _i_ ~~s~~ "
    "http://evil www.evil.com",
    "unicode": "\ud800\U0001f600\u0627\u0644 _label",
    "empty": "",
}


def poison(value: Any, text: str) -> Any:
    """Return the same value with every string in it replaced, keys of the answer and enumerations apart."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return text
    if isinstance(value, tuple):
        return tuple(poison(item, text) for item in value)
    if isinstance(value, dict):
        return {key: poison(item, text) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: poison(getattr(value, f.name), text) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    return value


def hostile(name: str) -> Diagnosis:
    """Return the richest sample with an attack in every string."""
    poisoned: Diagnosis = poison(CAPACITY, ATTACKS[name])
    return poisoned
