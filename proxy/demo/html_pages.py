"""The words of one HTML page of the Python documentation, each with the heading or described object it stands under."""

from __future__ import annotations

from html.parser import HTMLParser

from vecsieve.proxy.demo.chunking import Word

_HEADINGS = frozenset({"h1", "h2", "h3", "h4"})
_BLOCKS = _HEADINGS | {
    "p",
    "pre",
    "dt",
    "dd",
    "dl",
    "li",
    "ul",
    "ol",
    "div",
    "section",
    "table",
    "tr",
    "td",
    "th",
    "br",
}
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_SILENT_TAGS = frozenset({"script", "style", "nav"})
_SILENT_CLASSES = frozenset({"headerlink", "copybutton", "contents", "topic"})


def page_words(html: str) -> tuple[Word, ...]:
    """The words of the element with class ``body``; navigation, scripts and permalink signs are left out."""
    reader = _BodyReader()
    reader.feed(html)
    reader.close()
    return tuple(reader.words)


class _BodyReader(HTMLParser):
    """Collects words between the start and the end of the page body."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[Word] = []
        self._open: list[str] = []  # tags open inside the body; empty means outside
        self._silent_depth = 0  # depth at which a silent element was opened, 0 when none is open
        self._title = ""
        self._heading: list[str] | None = None  # text of the heading being read
        self._text: list[str] = []  # text since the last block boundary

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = set((given.get("class") or "").split())
        if not self._open and not (tag == "div" and "body" in classes):
            return
        if tag in _BLOCKS:
            self._flush()
        if tag in _VOID:
            return
        self._open.append(tag)
        if self._silent_depth == 0 and (tag in _SILENT_TAGS or classes & _SILENT_CLASSES):
            self._silent_depth = len(self._open)
        elif tag in _HEADINGS:
            self._heading = []
        elif tag == "dt" and "py" in classes and given.get("id"):
            self._title = given["id"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while self._open.pop() != tag:  # an end tag closes what was left open inside it, as browsers do
            pass
        if len(self._open) < self._silent_depth:
            self._silent_depth = 0
        if tag in _HEADINGS and self._heading is not None:
            self._title = " ".join("".join(self._heading).split())
            self._heading = None
        if tag in _BLOCKS:
            self._flush()

    def handle_data(self, data: str) -> None:
        if not self._open or self._silent_depth:
            return
        self._text.append(data)
        if self._heading is not None:
            self._heading.append(data)

    def _flush(self) -> None:
        self.words.extend(Word(text, self._title) for text in "".join(self._text).split())
        self._text.clear()
