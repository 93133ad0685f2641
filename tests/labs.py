"""The lab's engine without tensors: a model that answers at once, memory of a few bytes a block."""

from __future__ import annotations

from kvdoctor.lab.core import Core
from kvdoctor.lab.messages import Report
from kvdoctor.lab.settings import Settings
from kvdoctor.reference.engine import Output
from kvdoctor.reference.request import Request

BLOCK_BYTES = 64


class Instant:
    """Each new token is 300, at no cost."""

    def run(self, plan):
        """The new tokens."""
        return Output({work.request.name: 300 for work in plan.work if work.samples}, 0, 0, 0)


class Bytes:
    """Memory of the pool."""

    def __init__(self, blocks):
        self._all = bytearray(blocks * BLOCK_BYTES)

    def outgoing(self, block):
        """The bytes of a block."""
        return memoryview(self._all)[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]

    incoming = outgoing

    def arrived(self, block):
        """Nothing more to do."""


def core(**settings):
    """An engine core with these settings."""
    chosen = Settings(**settings)
    return Core(chosen, Instant(), Bytes(chosen.pool_blocks), BLOCK_BYTES)


def serve(one, *requests):
    """Run some requests to their end; returns all reports."""
    for name, prompt, outputs in requests:
        one.engine.add(Request(name, tuple(prompt), outputs))
    reports = []
    while one.engine.busy:
        report = one.recorder.step(one.engine.step())
        if report is not None:
            reports.append(report)
    return reports


def updates(reports: list[Report], name):
    """What was told of one request, in order."""
    return [update for report in reports for update in report.updates if update.name == name]
