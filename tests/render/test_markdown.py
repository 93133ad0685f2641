"""The report for a ticket."""

from __future__ import annotations

import dataclasses
import re

import pytest
from diagnoses import SAMPLES
from diagnosis_capacity import CAPACITY
from markdown_it import MarkdownIt

from kvdoctor.render.markdown import code, plain, render


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("`x`", "\\`x\\`"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("@team", "@&#8203;team"),
        ("me@host", "me&#8203;@&#8203;host"),
        ("#12", "\\#&#8203;12"),
        ("http://x", "http:&#8203;//x"),
        ("www.x.com", "www&#8203;.x.com"),
        ("[t](u)", "\\[t\\](u)"),
        ("$x$", "<span>$</span>x<span>$</span>"),
        (":smile:", ":&#8203;smile:"),
        ("{{7}}", "&#123;&#123;7&#125;&#125;"),
        ("1. one", "1\\. one"),
        ("- item", "\\- item"),
        ("1.5 s at 19:31:50", "1.5 s at 19:31:50"),
        ("vllm:num_x", "vllm:num\\_x"),
        ("a\n# b", "a # b"),
    ],
)
def test_marks_of_markdown_are_shown_and_not_meant(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_raw_name_in_a_table_is_a_code_span_of_its_own() -> None:
    assert code('vllm:a_b{x="`|"}') == '`vllm:a_b{x="\'\\|"}`'
    assert code("") == ""


@pytest.mark.parametrize("name", SAMPLES)
def test_every_table_row_has_its_heads_number_of_cells(name: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", render(SAMPLES[name]), re.MULTILINE)
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_a_markdown_reader_sees_tables_headings_and_the_verdict() -> None:
    page = MarkdownIt("commonmark").enable("table").render(render(CAPACITY))
    assert page.startswith(
        "<h2>kvdoctor: Bound by capacity / preemption (family capacity), high confidence</h2>"
    )
    assert page.count("<table>") >= 6
    assert "<code>vllm:kv_cache_usage_perc</code>" in page
    assert "<strong>The KV pool is full" in page


def test_it_is_short_enough_for_a_ticket() -> None:
    assert len(render(CAPACITY).splitlines()) < 130


def test_an_address_can_be_copied_as_it_is() -> None:
    (target,) = CAPACITY.targets[:1]
    found = dataclasses.replace(CAPACITY, targets=(dataclasses.replace(target, url="http://h:8000/metrics"),))
    assert "`http://h:8000/metrics`" in render(found)
