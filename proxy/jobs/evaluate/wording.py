"""Whether the results on a page say, in their own words, all that a dropped result says.

It is written apart from selection and shares nothing with it: a check that has the errors of what it checks finds none of them.

1. A text is read as words: divided at blanks, without the marks of FORMATTING at their ends. All that is left counts: digits, signs, units,
   currencies, operators, emoji, the ticks of task boxes. Han, kana, Thai, Lao, Khmer: each character is a word.
2. These differences are none: case of plain words, articles, commas between thousands, hyphens between letters or at a line's end, soft
   hyphens, forms of quotes, tags of HTML, borders of tables, lines of one mark, the question mark of a text that begins with an asking word.
3. Each run of RUN words of the dropped text must stand in one of the page's texts, or where one of them ends and another begins. A shorter
   text must stand in one of them as a whole.
4. Of a text of LONG words or more, function words and English endings may differ.
5. What is missing may be a frame: a part of a first or last line, between bars or arrows, that stands, digits apart, beside FRAMED different lines in
   the set, or a page number. The text is then compared without lines that have one.

Typing errors, and words at the end of a text that the page lacks, are missing: what the check finds is to be read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from unicodedata import normalize

RUN = 5
FRAMED = 3
LONG = 60
STEM = 4  # letters that are left of a word without its ending
CAPITALS = 8  # letters of a line in capitals
FORMATTING = ".,;:!'\"()[]{}*_#`…–—-•·"  # quotes of other forms become these
ARTICLES = frozenset(("a", "an", "the"))
FUNCTION = frozenset((
    "and", "as", "at", "be", "been", "by", "for", "from", "had", "has", "have", "in", "into", "is", "it",
    "its", "of", "on", "that", "their", "these", "this", "those", "to", "was", "were", "which", "who", "with",
))  # fmt: skip

_CHARACTER = re.compile("([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
_BROKEN = re.compile(r"(?<=[^\W\d_])-\s*\n\s*(?=[^\W\d_A-Z])")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>")
_BOX = re.compile(r"\[( |x|X)\](?=\s)")
_BORDER = re.compile(r"^\s*\|.*$", re.MULTILINE)
_QUOTED = re.compile(r"^\s*>+(?=\s)", re.MULTILINE)
_LINE = re.compile(r"\s*(\W)\1+\s*")
_QUESTION = re.compile(
    r"\W*(?:who|what|when|where|which|why|how|is|are|do|does|did|can|could|will|would|should)\b", re.IGNORECASE
)
_ENDING = re.compile(rf"(?<=[a-z]{{{STEM}}})(?:ing|ies|ed|es|e|s|y)$")
_MARKS = re.escape(FORMATTING)
# A sign, a point or a bracket beside a figure stays.
_BARE = re.compile(rf"[{_MARKS}]*?((?:[-(\[.](?=\d))?[^{_MARKS}].*?(?:(?<=\d)[)\]])?)[{_MARKS}]*")
_ALIKE = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "\u00ad": None, "\u200b": None})  # fmt: skip

Words = tuple[str, ...]


def words(text: str) -> Words:
    """The words of a text, as they are compared."""
    plain = normalize("NFC", unescape(text)).translate(_ALIKE)
    if _QUESTION.match(plain):
        plain = plain.replace("?", " ")
    plain = _THOUSANDS.sub("", _HYPHEN.sub("", _BROKEN.sub("", _TAG.sub(" ", plain))))
    plain = _QUOTED.sub("", _BORDER.sub(lambda line: line[0].replace("|", " "), plain))
    plain = _CHARACTER.sub(r" \1 ", _BOX.sub(lambda box: " ☐ " if box[1] == " " else " ☑ ", plain))
    read = (word for line in plain.splitlines() if not _LINE.fullmatch(line) for word in _of_line(line))
    return tuple(word for word in read if word not in ARTICLES)


def _of_line(line: str) -> Iterator[str]:
    is_capitals = line.isupper() and sum(map(str.isalpha, line)) >= CAPITALS
    for part in line.split():
        bare = _BARE.fullmatch(part)
        if bare is not None:  # else only formatting
            whole = part if not any(map(str.isalnum, part)) else bare[1]  # an operator, an arrow, an emoji
            yield whole.casefold() if is_capitals or _is_plain(whole) else whole


def _is_plain(word: str) -> bool:
    """Whether case does not count: it does in units, codes and words of one letter or of a few capitals."""
    letters = word.replace("'", "")
    if not letters.isalpha():
        return False
    if len(letters) >= 4:
        return letters.istitle() or letters.isupper()
    return word == "A" or (letters.istitle() and len(letters) > 1)


def _loose(read: Words) -> Words:
    return tuple(_ENDING.sub("", word) for word in read if word not in FUNCTION)


@dataclass(frozen=True)
class Wording:
    """The words of one text."""

    words: Words

    @cached_property
    def runs(self) -> frozenset[Words]:
        """Every RUN words in order, or all words of a shorter text."""
        return frozenset(_runs(self.words))

    @cached_property
    def loose(self) -> Wording:
        """Without function words and endings."""
        return Wording(_loose(self.words))


def _runs(read: Words) -> Iterator[Words]:
    if read:
        size = min(RUN, len(read))
        yield from (read[at : at + size] for at in range(len(read) - size + 1))


class Page:
    """What the texts of one page say together."""

    __slots__ = ("_joins", "_loose", "_runs", "_texts")

    def __init__(self, texts: Sequence[Wording]) -> None:
        self._texts = texts
        self._runs: frozenset[Words] = frozenset().union(*(text.runs for text in texts))
        self._joins: frozenset[Words] | None = None
        self._loose: Page | None = None

    def missing(self, text: Wording) -> list[Words]:
        """The runs that the page does not say; [] if it says all of them."""
        lacking = self.lacking_runs(text)
        if lacking and len(text.words) >= LONG:
            if self._loose is None:
                self._loose = Page([text.loose for text in self._texts])
            return self._loose.lacking_runs(text.loose)
        return lacking

    def lacking_runs(self, text: Wording) -> list[Words]:
        """The runs that no text has, word by word."""
        if text.words and len(text.words) < RUN:
            return [] if any(_has(other.words, text.words) for other in self._texts) else [text.words]
        lacking = [run for run in _runs(text.words) if run not in self._runs]
        if lacking and self._joins is None:
            self._joins = frozenset(self._joined())
        return [run for run in lacking if run not in (self._joins or ())]

    def _joined(self) -> Iterator[Words]:
        for one in self._texts:
            for other in self._texts:
                if one is not other:
                    yield from _runs(one.words[1 - RUN :] + other.words[: RUN - 1])


def _has(text: Words, part: Words) -> bool:
    return any(text[at : at + len(part)] == part for at in range(len(text) - len(part) + 1))


class Wordings:
    """The texts of a set, read when first needed: as a whole, and without frames."""

    __slots__ = ("_frames", "_texts", "_unframed", "_whole")

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._frames = frames(texts)
        self._whole: dict[int, Wording] = {}
        self._unframed: dict[int, Wording] = {}

    def page(self, rows: Sequence[int]) -> Page:
        return Page([self._of(row) for row in rows])

    def missing(self, row: int, page: Page) -> list[Words]:
        """What a page does not say of this text; [] if only frames are missing."""
        lacking = page.missing(self._of(row))
        if not lacking:
            return []
        if row not in self._unframed:
            self._unframed[row] = Wording(words("\n".join(unframed(self._texts[row], self._frames))))
        inside = self._unframed[row]
        return page.missing(inside) if inside.words else lacking

    def _of(self, row: int) -> Wording:
        if row not in self._whole:
            self._whole[row] = Wording(words(self._texts[row]))
        return self._whole[row]


def frames(texts: Sequence[str]) -> frozenset[str]:
    """The parts of first and last lines, without digits, that stand beside at least FRAMED different lines."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        lines = _lines(text)
        if len(lines) > 1:
            for line, other in ((lines[0], lines[1]), (lines[-1], lines[-2])):
                for part in _parts(line):
                    neighbours[_form(part)].add(_form(other))
    return frozenset(part for part, others in neighbours.items() if len(others) >= FRAMED)


def unframed(text: str, known: frozenset[str]) -> list[str]:
    """The lines of a text without the first and the last one, if they have frames: what is left of such a line is a title."""
    lines = _lines(text)
    for place in (0, -1) if len(lines) > 1 else ():
        if any(_form(part) in known or _PAGE.fullmatch(part) for part in _parts(lines[place])):
            lines[place] = ""
    return list(filter(None, lines))


def _parts(line: str) -> list[str]:
    return re.split(r"\s[|>]\s|\s{2,}", line.strip())


_PAGE = re.compile(r"(?i)page \d+ of \d+")


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _form(line: str) -> str:
    return " ".join(re.sub(r"\d+", "0", line).split())
