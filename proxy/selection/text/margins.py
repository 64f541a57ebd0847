"""Header and footer lines: lines at the head or foot of at least three texts of a pool, numbers ignored.

No state is needed: lines seen three times within the query's own pool work nearly as well as lines learned from a whole corpus (redundancy
with equal texts alone: .62 without, .43 with the pool's, .41 with the corpus's lines).

Where this could do harm, and how it is avoided:
- Lines inside a text repeat in code, tables and lists. Only lines at its edges are margins, from outside inwards.
- A record of two lines ("Printer on fire / Status: open") may differ from the next by the lines that repeat. So only
  a text whose greater part remains, and enough of it to be more than a record, loses its margins; otherwise all stay.
- Three exact copies of a text would make margins of its own first lines. So equal texts count once.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# The most lines removed at either end, for headers of two or three lines. One, three and five give the same result on the measured sets,
# whose headers have one line, and do no harm in documentation without headers.
DEEPEST = 3
SEEN_AT_LEAST = 3
# The characters, and the share of all characters, that must remain. A page's margins are far below half of it; a hundred characters are
# some twenty words.
REMAINING_AT_LEAST = 100
REMAINING_SHARE = 0.5
# A longer line is a paragraph.
LONGEST = 200

_DIGITS = re.compile(r"\d+")


class Edges:
    """``lines``: a text's lines without the blank ones. ``head``, ``tail``: the first and the last of them, masked. ``key``: equal
    for equal lines, in this process. ``length``: of all lines, in characters.
    """

    __slots__ = ("_masked", "head", "key", "length", "lines", "tail")

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines
        self.head, self.tail = _masked(lines[0]), _masked(lines[-1])
        self.key, self.length = hash(lines), sum(map(len, lines))
        self._masked: tuple[list[str], list[str]] | None = None

    @property
    def masked(self) -> tuple[list[str], list[str]]:
        """The outermost DEEPEST lines from the head and from the foot, masked."""
        if self._masked is None:
            heads, tails = self.lines[1:DEEPEST], self.lines[-2 : -DEEPEST - 1 : -1]
            self._masked = [self.head, *map(_masked, heads)], [self.tail, *map(_masked, tails)]
        return self._masked

    def depths(self, margins: Margins) -> tuple[int, int]:
        """How many of its outermost lines, from the head and from the foot, are margins."""
        heads, tails = self._masked or self.masked
        headers = _depth(heads, margins.headers) if self.head in margins.headers else 0
        return headers, _depth(tails, margins.footers) if self.tail in margins.footers else 0

    def without(self, headers: int, footers: int) -> tuple[str, ...]:
        """Its lines without this many at both ends; all lines if too little would remain."""
        inner = self.lines[headers : len(self.lines) - footers]
        is_much = sum(map(len, inner)) >= max(REMAINING_AT_LEAST, REMAINING_SHARE * self.length)
        return inner if is_much else self.lines

    @property
    def nbytes(self) -> int:
        """Approximate memory use."""
        heads, tails = self._masked or ([self.head], [self.tail])
        return 400 + sum(map(sys.getsizeof, (*self.lines, *heads, *tails)))


@dataclass(frozen=True, slots=True)
class Margins:
    """Masked lines that are a header, and those that are a footer."""

    headers: frozenset[str]
    footers: frozenset[str]


def edges(text: str) -> Edges | None:
    """The edges of a text with at least two lines; None for any other: a single line is the text itself."""
    if "\n" not in text:
        return None
    lines = tuple(filter(str.strip, text.split("\n")))  # takes a quarter of the time of a loop
    return None if len(lines) < 2 else Edges(lines)


NO_MARGINS = Margins(frozenset(), frozenset())


def learn(known: Sequence[Edges]) -> Margins:
    """The margins of these texts. The order of the texts does not matter."""
    if len(known) < SEEN_AT_LEAST:
        return NO_MARGINS
    distinct = list({each.key: each for each in known}.values())
    headers = _repeated(distinct, [each.head for each in distinct], 0)
    footers = _repeated(distinct, [each.tail for each in distinct], 1)
    return Margins(headers, footers) if headers or footers else NO_MARGINS


def _repeated(known: list[Edges], outermost: list[str], end: int) -> frozenset[str]:
    """The masked lines that repeat at one end. ``outermost``: of each text, masked. ``end``: 0 for the head, 1 for the foot.

    An inner line counts only if all lines outside it are margins already.
    """
    found: set[str] = set()
    reached, lines = known, outermost
    for inner in range(1, DEEPEST + 1):
        if len(set(lines)) > len(lines) - SEEN_AT_LEAST + 1 and found.isdisjoint(lines):
            break  # no line occurs so often
        # The empty string stands for lines that are no header.
        found.update([line for line, count in Counter(lines).items() if count >= SEEN_AT_LEAST and line])
        reached = [each for each, line in zip(reached, lines, strict=True) if line in found and len(each.lines) > inner]
        if not reached or inner == DEEPEST:
            break
        lines = [each.masked[end][inner] for each in reached]
    return frozenset(found)


def _depth(lines: Sequence[str], margins: frozenset[str]) -> int:
    """How many of the masked ``lines``, from one end inwards, are margins."""
    for depth, line in enumerate(lines):
        if line not in margins:
            return depth
    return len(lines)


def _masked(line: str) -> str:
    """The part of a line that headers share: numbers are masked, case and blanks ignored. Empty for lines that are no header."""
    return "" if len(line) > LONGEST else _mask(line)


@lru_cache(maxsize=4096)  # of lines of at most LONGEST characters: some megabytes
def _mask(line: str) -> str:
    return " ".join(_DIGITS.sub("#", line.casefold()).split())
