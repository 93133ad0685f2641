"""One file a family of engines: the lines of its log."""

from __future__ import annotations

from kvdoctor.readers.logs import kv, others, sglang, vllm
from kvdoctor.readers.logs.line import Line

LINES: tuple[Line, ...] = (*vllm.LINES, *sglang.LINES, *kv.LINES, *others.LINES)
