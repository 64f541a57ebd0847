"""Whether the results on a page say, in their own words, all that a dropped result says.

It is written apart from selection and shares nothing with it: a check that has the errors of what it checks finds none of them.

1. A text is read as words: divided at blanks, without the punctuation at their ends (FORMATTING). All that is left counts: digits, signs,
   units, currencies, operators, emoji, the ticks of task boxes. Han, kana, Thai, Lao, Khmer: each character is a word.
2. These differences are none: case of plain words, commas between thousands, soft hyphens, a hyphen at a line's end, hyphens between
   letters, forms of quotes, tags of HTML, lines of one repeated mark, articles. In texts of LONG words or more: FUNCTION words.
3. Each run of RUN words of the dropped text must stand in one of the page's texts, or where one of them ends and another begins. A shorter
   text must stand there as a whole.
4. What is missing may be a frame: a first or last line that stands, digits apart, in texts of the set beside FRAMED different lines. The
   text is then compared without such lines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from unicodedata import normalize

RUN = 5
FRAMED = 3
LONG = 60
FORMATTING = ".,;:!?'\"()[]{}*_#`…–—-•·"  # quotes of other forms become these
ARTICLES = frozenset(("a", "an", "the"))
FUNCTION = ARTICLES | frozenset(
    "and as at be been by for from had has have in into is it its of on that their these this those to was were which who with".split()
)

_CHARACTER = re.compile("([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
_JOINED = re.compile(r"(?<=[^\W\d_])-\s*\n\s*(?=[^\W\d_A-Z])")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>")
_BOX = re.compile(r"\[( |x|X)\](?=\s)")
_BORDER = re.compile(r"^\s*\|.*$", re.MULTILINE)
_QUOTED = re.compile(r"^\s*>+(?=\s)", re.MULTILINE)
_RULE = re.compile(r"(\W)\1{2,}")
_LETTERS = re.compile(r"[^\W\d_]+")
_ALIKE = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "\u00ad": None, "\u200b": None})  # fmt: skip

Words = tuple[str, ...]
Runs = frozenset[Words]


def words(text: str) -> Words:
    """The words of a text, as they are compared."""
    plain = normalize("NFC", unescape(text)).translate(_ALIKE)
    plain = _THOUSANDS.sub("", _HYPHEN.sub("", _JOINED.sub("", _TAG.sub(" ", plain))))
    plain = _QUOTED.sub("", _BORDER.sub(lambda line: line[0].replace("|", " "), plain))
    plain = _CHARACTER.sub(r" \1 ", _BOX.sub(lambda box: " ☐ " if box[1] == " " else " ☑ ", plain))
    found = [word for line in plain.splitlines() for word in _of_line(line)]
    ignored = FUNCTION if len(found) >= LONG else ARTICLES
    return tuple(word for word in found if word not in ignored)


def _of_line(line: str) -> Iterator[str]:
    is_capitals = line.isupper() and sum(map(str.isalpha, line)) >= 8
    for part in line.split():
        if any(map(str.isalnum, part)):
            yield _folded(_stripped(part), is_capitals=is_capitals)
        elif part.strip(FORMATTING) and not _RULE.fullmatch(part):
            yield part  # an operator, an arrow, an emoji


def _stripped(part: str) -> str:
    """Without punctuation; the sign or bracket before a figure stays."""
    rest = part.rstrip(FORMATTING.replace(")", "").replace("]", "")) if part[:1] in "([" else part.rstrip(FORMATTING)
    bare = rest.lstrip(FORMATTING)
    cut = len(rest) - len(bare)
    if cut and bare[:1].isdigit() and rest[cut - 1] in "-([.":
        return rest[cut - 1 :]
    return bare.rstrip(FORMATTING)


def _folded(word: str, *, is_capitals: bool) -> str:
    """Case counts in units, codes and capitals of fewer than four letters."""
    if not _LETTERS.fullmatch(word.replace("'", "")):
        return word
    if is_capitals or len(word) >= 4 or word.istitle() and (len(word) > 1 or word == "A"):
        return word.casefold() if is_capitals or word.istitle() or word.isupper() or word.islower() else word
    return word


@dataclass(frozen=True, slots=True)
class Wording:
    """One text. ``runs``: every RUN words in order, or all words of a shorter text. ``first``, ``last``: where another text may join."""

    words: Words
    runs: Runs

    @classmethod
    def of(cls, text: str) -> Wording:
        read = words(text)
        return cls(read, frozenset(_runs(read)))


def _runs(read: Words) -> Iterator[Words]:
    if read:
        size = min(RUN, len(read))
        yield from (read[at : at + size] for at in range(len(read) - size + 1))


class Page:
    """What the texts of one page say together."""

    __slots__ = ("_joins", "_runs", "_texts")

    def __init__(self, texts: Sequence[Wording]) -> None:
        self._texts = texts
        self._runs: frozenset[Words] = frozenset().union(*(text.runs for text in texts))
        self._joins: frozenset[Words] | None = None

    def missing(self, text: Wording) -> list[Words]:
        """The runs that no text has; [] if the page says all of it."""
        if text.words and len(text.words) < RUN:
            return [] if any(_has(each.words, text.words) for each in self._texts) else [text.words]
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

    __slots__ = ("_frames", "_texts", "_whole", "_within")

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._frames = frames(texts)
        self._whole: dict[int, Wording] = {}
        self._within: dict[int, Wording] = {}

    def page(self, rows: Sequence[int]) -> Page:
        return Page([self.whole(row) for row in rows])

    def whole(self, row: int) -> Wording:
        if row not in self._whole:
            self._whole[row] = Wording.of(self._texts[row])
        return self._whole[row]

    def missing(self, row: int, page: Page) -> list[Words]:
        """What a page does not say of this text; [] if only frames are missing."""
        lacking = page.missing(self.whole(row))
        if not lacking:
            return []
        if row not in self._within:
            self._within[row] = Wording.of("\n".join(unframed(self._texts[row], self._frames)))
        inside = self._within[row]
        return page.missing(inside) if inside.words else lacking


def frames(texts: Sequence[str]) -> frozenset[str]:
    """The first and last lines, without digits, that stand beside at least FRAMED different lines."""
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        lines = _lines(text)
        if len(lines) > 1:
            beside[_form(lines[0])].add(_form(lines[1]))
            beside[_form(lines[-1])].add(_form(lines[-2]))
    return frozenset(line for line, others in beside.items() if len(others) >= FRAMED)


def unframed(text: str, known: frozenset[str]) -> list[str]:
    """The lines of a text without frames at its begin and end."""
    lines = _lines(text)
    start = 1 if lines and _form(lines[0]) in known else 0
    end = len(lines) - 1 if len(lines) > start and _form(lines[-1]) in known else len(lines)
    return lines[start:end]


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _form(line: str) -> str:
    return " ".join(re.sub(r"\d+", "0", line).split())
