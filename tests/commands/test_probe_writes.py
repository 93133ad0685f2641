"""Heavy writes to the disk of the KV tier, by counters that the test moves."""

from __future__ import annotations

import os

import pytest

from kvdoctor.commands.probe_writes import HEAVY_BYTES_PER_S, HEAVY_UNDER_WAY, busy_disk
from kvdoctor.errors import Unavailable
from kvdoctor.probes.filesystem import file_system

PIDS = frozenset({7, 8})
SECTOR = 512


class Disk:
    """A /proc whose counters move while somebody sleeps, by so much a second."""

    def __init__(self, root, device, folder):
        self.root, self.device, self.folder, self.now = root, device, folder, 100.0
        self.sectors = self.ms = self.written = 0
        self.rates = (0.0, 0.0, 0.0)
        for pid in PIDS:
            (root / str(pid)).mkdir()
        self.write()

    def write(self):
        major, minor = self.device.split(":")
        line = f" {major} {minor} sda1 1 0 8 1 5 0 {self.sectors} {self.ms} 0 9 9 0 0 0 0 0 0\n"
        (self.root / "diskstats").write_text(" 259 99 other 1 0 8 1 5 0 999999 99 0 9 9\n" + line)
        for pid in PIDS:
            (self.root / f"{pid}/io").write_text(f"rchar: 1\nwrite_bytes: {self.written}\nx: 5\n")

    def sleep(self, seconds):
        self.now += seconds
        rate, waiting, written = self.rates
        self.sectors += int(rate * seconds / SECTOR)
        self.ms += int(1e3 * waiting * seconds)
        self.written += int(written * seconds)
        self.write()

    def ask(self, rate=0.0, waiting=0.0, written=0.0):
        self.rates = (rate, waiting, written)
        busy_disk(self.folder, PIDS, str(self.root), sleep=self.sleep, clock=lambda: self.now)


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "proc").mkdir()
    here = os.path.realpath(tmp_path)
    return Disk(tmp_path / "proc", file_system(here).device, here)


@pytest.mark.parametrize(
    ("rate", "waiting", "refused"),
    [
        (0.99 * HEAVY_BYTES_PER_S, 0.0, False),
        (1.01 * HEAVY_BYTES_PER_S, 0.0, True),
        (0.0, 0.99 * HEAVY_UNDER_WAY, False),
        (0.0, HEAVY_UNDER_WAY, True),
    ],
)
def test_a_disk_that_is_written_much_or_waited_for_is_refused(disk, rate, waiting, refused):
    if not refused:
        disk.ask(rate, waiting)
        return
    with pytest.raises(Unavailable, match="is under heavy write") as caught:
        disk.ask(rate, waiting)
    assert "--force" in caught.value.cure


def test_the_sentence_has_what_was_seen(disk):
    with pytest.raises(Unavailable) as caught:
        disk.ask(256e6, 2.5)
    assert "256 MB/s were written in a look of 1 s, 2.5 writes under way in the mean" in caught.value.reason


def test_where_no_disk_is_told_the_service_s_own_writes_are(disk):
    disk.device = "0:4095"
    disk.write()
    disk.ask(written=0.4 * HEAVY_BYTES_PER_S)
    with pytest.raises(Unavailable, match="under heavy write"):
        disk.ask(written=0.6 * HEAVY_BYTES_PER_S)


def test_where_nobody_tells_nothing_is_refused_and_nobody_waits(tmp_path):
    asked = busy_disk(
        str(tmp_path), PIDS, str(tmp_path / "absent"), sleep=lambda seconds: pytest.fail("it waited")
    )
    assert asked is None
