"""The one pass over a log: the newest of each kind, lines across pieces, lines without end."""

from __future__ import annotations

import io

from kvdoctor.readers.logs import LINES
from kvdoctor.readers.logs.scan import KEPT, MAX_LINE, scan


def test_of_a_kind_that_comes_too_often_the_newest_lines_are_kept():
    text = b"".join(b"Prefill batch. #new-seq: %d\n" % n for n in range(KEPT + 5))
    found = scan(io.BytesIO(text), LINES)
    assert (len(found.hits), found.dropped, found.lines) == (KEPT, 5, KEPT + 5)
    assert found.hits[0].number == 6


def test_a_line_across_two_pieces_and_one_without_an_end_are_found(monkeypatch):
    monkeypatch.setattr("kvdoctor.readers.logs.scan.PIECE", 64)
    text = b"x" * 50 + b"\nPrefill batch. #new-seq: 3\n" + b"y" * 200 + b"\nPrefill batch. #new-seq: 4"
    assert [hit.number for hit in scan(io.BytesIO(text), LINES).hits] == [2, 4]


def test_of_a_line_without_end_no_more_than_its_surroundings_is_kept():
    found = scan(io.BytesIO(b"z" * 10_000_000 + b"Prefill batch. #new-seq: 3" + b"z" * 10_000_000), LINES)
    assert all(len(hit.text) <= MAX_LINE for hit in found.hits)
