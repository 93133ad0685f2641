"""The parser against prometheus_client's, and against texts that no exporter should send."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kvdoctor import exposition
from kvdoctor.exposition import Parser
from kvdoctor.textline import Heads

SHARED = Path(os.environ.get("KVDOCTOR_SHARED") or Path(__file__).resolve().parents[1] / ".." / "shared")
CAPTURES = sorted(SHARED.glob("captures/*.prom"))

Series = tuple[str, frozenset[tuple[str, str]]]


def parsed(text: bytes, parser: Parser | None = None) -> dict[Series, float]:
    """Return what a text says, read by a fresh parser unless told."""
    parser = parser or Parser([])
    change = parser.read(text)
    keys = [(c.name, frozenset(c.labels)) for c in parser.columns]
    return {keys[i]: value for i, value in zip(change.ids, change.values, strict=True)}


def oracle(text: str) -> dict[Series, float]:
    """Return the same, read by prometheus_client; comments are left out, it renames counters by their type."""
    plain = "".join(line + "\n" for line in text.split("\n") if line and not line.startswith("#"))
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(plain)
        for sample in family.samples
    }


def same(ours: dict[Series, float], theirs: dict[Series, float]) -> bool:
    return ours.keys() == theirs.keys() and all(
        ours[k] == theirs[k] or (math.isnan(ours[k]) and math.isnan(theirs[k])) for k in ours
    )


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
keys = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,4}", fullmatch=True)
texts = st.text('ab01 ={}[],"\\\n\r\t#+\x00\x1b\x85\u2028ü€𝄞\ufffd', max_size=8) | st.sampled_from(
    [
        "}",
        "{",
        ",",
        "# {",
        ' # {a="b"} 1',
        "\\",
        '"',
        "\n",
        "\\n",
        "a=b",
        "]",
        "[red]",
        "\x1b[31m",
        "</script>",
        "$x$",
    ]
)
values = st.floats() | st.integers(-(10**18), 10**18)
blanks = st.sampled_from(["", " ", "  "])


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(keys, texts, max_size=4))
    gap = draw(blanks)
    body = f"{gap},{gap}".join(f'{key}{gap}={gap}"{escaped(value)}"' for key, value in labels.items())
    tail = draw(st.sampled_from(["", ","])) if labels else ""
    braces = f"{{{gap}{body}{tail}{gap}}}" if labels else draw(st.sampled_from(["", "{}"]))
    stamp = draw(st.sampled_from(["", " 1395066363000", " -5"]))
    return f"{draw(names)}{braces} {draw(values)}{stamp}"


@given(st.lists(lines(), max_size=6))
def test_it_agrees_with_prometheus_client(found: list[str]) -> None:
    text = "".join(line + "\n" for line in found)
    assert same(parsed(text.encode()), oracle(text))


@given(st.lists(st.lists(lines(), max_size=5), max_size=4))
def test_reading_by_what_changed_gives_what_reading_anew_gives(found: list[list[str]]) -> None:
    parser, state = Parser([]), {}
    for page in found:
        text = "".join(line + "\n" for line in page).encode()
        state.update(parsed(text, parser))
        if page:
            live = {key: value for key, value in state.items() if not math.isnan(value)}
            assert live == {k: v for k, v in parsed(text).items() if not math.isnan(v)}


@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_no_bytes_break_it(first: bytes, second: bytes, cut: bool) -> None:
    parser = Parser([])
    for text in (first, second, first):
        change = parser.read(text, cut=cut)
        assert len(change.ids) == len(change.values)


@pytest.mark.skipif(not CAPTURES, reason="the captured pages are not here")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_captured_page_reads_as_prometheus_client_reads_it(path: Path) -> None:
    text = path.read_bytes()
    assert same(parsed(text), oracle(text.decode()))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a 2.894350336e+010", 28943503360.0),
        ("a NaN", math.nan),
        ("a +Inf", math.inf),
        ("a Inf", math.inf),
        ("a -Inf", -math.inf),
        ("a 9223372036854775794", 9223372036854775794.0),
        ("a 5 1395066363000", 5.0),
        ('a 5 # {trace_id="x_y"} 0.67 1520879607.789', 5.0),
        ('a 5 1520879607.789 # {trace_id="# 1"} 0.67', 5.0),
        ("a\t5", 5.0),
        ("  a 5  ", 5.0),
        ("a 5\r", 5.0),
    ],
)
def test_values_as_they_are_met(line: str, value: float) -> None:
    (found,) = parsed(line.encode() + b"\n").values()
    assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a ",
        "a 0x10",
        "a 1_000",
        "a 5 soon",
        "a 5 6 7",
        "1a 5",
        "a{b} 5",
        'a{b="c" 5',
        'a{b="c"d="e"} 5',
        'a{b="c",b="d"} 5',
        "a{b=c} 5",
        "{} 5",
        "5",
        "a # 5",
        "a{" + "x" * 70_000 + "} 5",
    ],
)
def test_a_line_that_is_no_sample_is_counted_and_nothing_else(line: str) -> None:
    parser = Parser([])
    assert len(parsed(f"b 1\n{line}\nc 2\n".encode(), parser)) == 2
    (gap,) = parser.gaps("s")
    assert gap.reason.startswith("lines that are no Prometheus text: 1, in readings: 1; the first: ")


def test_a_quoted_name_is_a_name() -> None:
    assert parsed(b'{"a.b","c.d"="e"} 1\n') == {("a.b", frozenset({("c.d", "e")})): 1.0}


def types(text: str) -> dict[str, str]:
    parser = Parser([])
    parser.read(text.encode())
    return {c.name: c.type for c in parser.columns}


def test_the_declared_type_decides_and_not_the_suffix() -> None:
    text = (
        '# TYPE vllm:iteration_tokens_total histogram\nvllm:iteration_tokens_total_bucket{le="1"} 1\n'
        "vllm:iteration_tokens_total_sum 1\n# TYPE a_total counter\na_total 1\n# TYPE b counter\nb_total 1\n"
        "b_created 1\n# TYPE c gauge\nc_count 1\nd_total 1\n# TYPE e summary\ne_sum 1\n"
    )
    assert types(text) == {
        "vllm:iteration_tokens_total_bucket": "histogram",
        "vllm:iteration_tokens_total_sum": "histogram",
        "a_total": "counter",
        "b_total": "counter",
        "b_created": "gauge",
        "c_count": "",
        "d_total": "",
        "e_sum": "summary",
    }


def test_only_what_changed_is_told() -> None:
    parser = Parser([])
    assert len(parsed(b"a 1\nb 2\n", parser)) == 2
    assert parsed(b"a 1\nb 3\n", parser) == {("b", frozenset()): 3.0}
    assert parser.read(b"a 1\nb 3\n").samples == 2


def test_a_series_that_is_gone_becomes_nan_once_and_may_come_back() -> None:
    parser = Parser([])
    parser.read(b"a 1\nb 2\n")
    assert math.isnan(parsed(b"a 1\n", parser)["b", frozenset()])
    assert parsed(b"a 1\n", parser) == {}
    assert parsed(b"a 1\nb 2\n", parser) == {("b", frozenset()): 2.0}


def test_a_series_is_the_same_whatever_the_order_of_its_labels_and_lines() -> None:
    parser = Parser([])
    parser.read(b'a{x="1",y="2"} 1\nb 1\n')
    assert parsed(b'b 1\na{y="2",x="1"} 4\n', parser) == {("a", frozenset({("x", "1"), ("y", "2")})): 4.0}


def test_of_a_series_that_comes_twice_the_last_line_counts_and_a_gap_says_so() -> None:
    parser = Parser([])
    assert parsed(b"a 1\na 2\n", parser) == {("a", frozenset()): 2.0}
    assert parsed(b"a 7\na 2\n", parser) == {}
    assert parsed(b"a 7\na 3\n", parser) == {("a", frozenset()): 3.0}
    assert "twice in one text: 3, in readings: 3" in parser.gaps("s")[0].reason


def test_a_cut_text_loses_its_last_line_and_takes_nothing_for_gone() -> None:
    parser = Parser([])
    parser.read(b"a 1\nb 22\nc 3\n")
    assert parsed(b"a 5\nb 2", parser) == {("a", frozenset()): 5.0}
    assert [gap.reason[:31] for gap in parser.gaps("s")] == ["readings that were cut short: 1"]


def test_the_end_mark_of_openmetrics_needs_no_line_feed() -> None:
    parser = Parser([])
    parser.read(b"a 1\n# EOF")
    assert parser.gaps("s") == ()


def test_bytes_that_are_not_utf8_are_replaced_and_told() -> None:
    parser = Parser([])
    assert parsed(b'a{b="\xff\xfe"} 1\n', parser) == {("a", frozenset({("b", "\ufffd\ufffd")})): 1.0}
    assert "not UTF-8" in parser.gaps("s")[0].reason


def test_a_text_without_a_series_changes_nothing() -> None:
    parser = Parser([])
    parser.read(b"a 1\n")
    assert parser.read(b"# nothing\n").samples == 0
    assert parsed(b"a 1\n", parser) == {}


def test_a_hundred_thousand_series_are_read() -> None:
    text = b"".join(b'a{i="%d"} %d\n' % (i, i) for i in range(100_000))
    parser = Parser([])
    assert parser.read(text).samples == 100_000
    assert parser.gaps("s") == ()


@pytest.mark.parametrize(
    ("limit", "words"), [("MAX_LINES", "the rest was left out"), ("MAX_SERIES", "lines left out because")]
)
def test_what_is_over_a_limit_is_left_out_and_told(
    limit: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, limit, 2)
    parser = Parser([])
    assert parser.read(b"a 1\nb 2\nc 3\n").samples == 2
    assert words in parser.gaps("s")[0].reason


def test_a_text_over_the_size_limit_is_read_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MAX_TEXT", 6)
    parser = Parser([])
    assert parser.read(b"a 1\nb 2\nc 3\n").samples == 1
    assert "the rest was left out" in parser.gaps("s")[0].reason


def test_parsers_that_share_heads_read_alike_and_keep_a_name_once():
    heads, lists = Heads(), [[], [], []]
    text = b'a{x="1",y="2"} 1\na{y="2",x="3"} 2 1700000000\nb 3\n"no\n'
    changes = [Parser(columns, heads).read(text) for columns in lists[:2]]
    changes.append(Parser(lists[2]).read(text))
    assert changes[0] == changes[1] == changes[2]
    told = [[(c.name, c.labels) for c in columns] for columns in lists]
    assert told[0] == told[1] == told[2]
    assert lists[0][0].labels is lists[1][0].labels


def test_bytes_that_are_no_text_are_told_of_each_source():
    heads = Heads()
    for _ in range(2):
        parser = Parser([], heads)
        parser.read(b'a{x="\xff"} 1\n')
        assert "not UTF-8" in parser.gaps("s")[0].reason
