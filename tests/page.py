"""A strict reader of our pages: what elements, attributes, ids and text they have."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Everything a browser would see of a page's structure; raises where tags do not match."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(source)
        self.close()
        if self.open:
            raise ValueError(f"never closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element without content."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Match an end with its start."""
        if self.open.pop() != tag:
            raise ValueError(f"</{tag}> does not match")

    def handle_data(self, data: str) -> None:
        """Keep what a reader reads."""
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """The page's text with single blanks."""
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        """Return the values of an attribute, in order."""
        return [value for _, attribute, value in self.attributes if attribute == name]
