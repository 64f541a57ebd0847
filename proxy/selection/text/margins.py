"""Header and footer lines: what stands at the head or foot of at least three texts of a pool, whatever its numbers.

No state is needed: lines seen three times within the query's own pool do nearly as well as lines learnt from a whole
corpus (redundancy with equal texts alone: .62 without, .43 with the pool's, .41 with the corpus's lines).

Where this could do harm, and what keeps it from it:
- Lines inside a text repeat in code, tables and lists. Only lines at its very edge are margins, from outside inwards.
- A record of two lines ("Printer on fire / Status: open") is told from the next by the very lines that repeat. So only
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

# Lines taken from either end at most, for headers of two or three lines. One, three and five find the same in the measured
# sets, whose headers have one line, and do no harm in the documentation without any.
DEEPEST = 3
SEEN_AT_LEAST = 3
# What must remain: characters, and share of all characters. A page's margins are far below half of it; a hundred
# characters are some twenty words.
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
        """Its lines when so many are taken off; all lines where too little would remain."""
        inner = self.lines[headers : len(self.lines) - footers]
        is_much = sum(map(len, inner)) >= max(REMAINING_AT_LEAST, REMAINING_SHARE * self.length)
        return inner if is_much else self.lines

    @property
    def nbytes(self) -> int:
        """About what it holds."""
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
    lines = tuple(filter(str.strip, text.split("\n")))  # a fourth of the time that a loop of Python's own takes
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

    A line further in counts only where all lines outside it are margins already.
    """
    found: set[str] = set()
    reached, lines = known, outermost
    for inner in range(1, DEEPEST + 1):
        if len(set(lines)) > len(lines) - SEEN_AT_LEAST + 1 and found.isdisjoint(lines):
            break  # none of them is seen so often
        # The empty line is none, and stands for what is no header.
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
    """What two headers share: numbers are masked, case and blanks do not count. Empty for what is no header."""
    return "" if len(line) > LONGEST else _mask(line)


@lru_cache(maxsize=4096)  # of lines of at most LONGEST characters: some megabytes
def _mask(line: str) -> str:
    return " ".join(_DIGITS.sub("#", line.casefold()).split())
