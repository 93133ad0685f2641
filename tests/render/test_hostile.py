"""Outside text in every string of an answer: shown by every renderer, obeyed by none."""

from __future__ import annotations

import io
import re
import unicodedata

import pytest
from attacks import ATTACKS, hostile
from diagnosis_capacity import CAPACITY
from markdown_it import MarkdownIt
from page import Page
from rich.console import Console

from kvdoctor.render import html, markdown, terminal
from kvdoctor.render.text import visible

SGR = re.compile(r"\x1b\[[\d;]*m")
INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
CLEAN = {tag for tag in Page(html.render(CAPACITY)).tags}


def on_terminal(name: str) -> str:
    """Return the report on a terminal that can do everything."""
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="truecolor", legacy_windows=False)
    terminal.render(hostile(name), console)
    return out.getvalue()


def steering(text: str) -> set[str]:
    """Return the characters that would steer a display."""
    return {c for c in text if unicodedata.category(c) in INVISIBLE and c != "\n"}


@pytest.mark.parametrize("name", ATTACKS)
def test_on_a_terminal_only_our_own_colours_are_set(name: str) -> None:
    written = on_terminal(name)
    assert steering(SGR.sub("", written)) == set()
    ours = {sequence for sequence in SGR.findall(written)}
    assert ours <= {f"\x1b[{code}m" for code in ("0", "1", "2", "1;31", "1;33", "36", "1;36")}
    assert "\x1b]8" not in written


def test_markup_of_rich_is_shown_as_it_came() -> None:
    text = SGR.sub("", on_terminal("markup"))
    assert "[bold red]x[/bold red]" in text
    assert ":smile:" in text


@pytest.mark.parametrize("name", ATTACKS)
def test_on_a_page_no_element_is_new_and_nothing_can_run(name: str) -> None:
    source = html.render(hostile(name))
    page = Page(source)
    assert set(page.tags) <= CLEAN
    assert not [a for _, a, _ in page.attributes if a.startswith("on") or a in ("src", "href")]
    assert steering(source) == set()
    source.encode("utf-8")


@pytest.mark.parametrize("name", ["markup", "html", "maths", "template", "markdown", "newlines"])
def test_a_page_shows_the_text_as_it_came(name: str) -> None:
    assert visible(ATTACKS[name]) in Page(html.render(hostile(name))).text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_template_in_a_label_is_not_worked_out() -> None:
    assert "{{7*7}}" in html.render(hostile("template"))
    assert "{{7*7}}" in SGR.sub("", on_terminal("template"))


def test_a_label_of_ten_thousand_characters_is_cut_and_says_so() -> None:
    for text in (html.render(hostile("long")), markdown.render(hostile("long"))):
        assert "more characters" in text
        assert "L" * 1001 not in text


@pytest.mark.parametrize("name", ATTACKS)
def test_in_a_ticket_there_is_no_link_no_image_no_mention_and_no_new_element(name: str) -> None:
    source = markdown.render(hostile(name))
    assert steering(source) == set()
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(source)
    allowed = [
        "h2",
        "h3",
        "p",
        "ul",
        "li",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "span",
    ]
    assert set(re.findall(r"<(\w+)", page)) <= set(allowed)
    assert set(re.findall(r"<span[^>]*>", page)) <= {"<span>"}
    outside_code = re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
    assert not re.search(r"@\w|#\d|://|www\.|:smile:|\$[^<]", outside_code)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_ticket_keeps_its_shape(name: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", markdown.render(hostile(name)), re.MULTILINE)
    assert len(tables) == len(re.findall(r"(?:^\|.*\n)+", markdown.render(CAPACITY), re.MULTILINE))
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
