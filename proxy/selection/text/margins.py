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


@dataclass(frozen=True, slots=True)
class Edges:
    """``lines``: a text's lines without the blank ones. ``head``, ``tail``: the first and the last of them, masked. ``key``: equal
    for equal lines, in this process. ``length``: of all lines, in characters.
    """

    lines: tuple[str, ...]
    head: str
    tail: str
    key: int
    length: int


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
    if len(lines) < 2:
        return None
    return Edges(lines, _masked(lines[0]), _masked(lines[-1]), hash(lines), sum(map(len, lines)))


NO_MARGINS = Margins(frozenset(), frozenset())


def learn(known: Sequence[Edges]) -> Margins:
    """The margins of these texts. The order of the texts does not matter."""
    distinct = list({each.key: each for each in known}.values())
    headers = _repeated(distinct, [each.head for each in distinct], 1)
    footers = _repeated(distinct, [each.tail for each in distinct], -1)
    return Margins(headers, footers) if headers or footers else NO_MARGINS


def remaining(known: Edges, margins: Margins) -> tuple[int, int]:
    """The first line that is no margin, and behind the last one; all lines where too little would remain."""
    count = len(known.lines)
    if known.head not in margins.headers and known.tail not in margins.footers:
        return 0, count
    first = _depth(known.lines[:DEEPEST], known.head, margins.headers)
    last = count - _depth(known.lines[: -DEEPEST - 1 : -1], known.tail, margins.footers)
    remains = known.length - sum(map(len, known.lines[:first])) - sum(map(len, known.lines[last:]))
    if remains < max(REMAINING_AT_LEAST, REMAINING_SHARE * known.length):
        return 0, count
    return first, last


def _repeated(known: list[Edges], outermost: list[str], inwards: int) -> frozenset[str]:
    """The masked lines that repeat at one end. ``outermost``: of each text, masked. ``inwards``: 1 from the head, -1 from the foot.

    A line further in counts only where all lines outside it are margins already.
    """
    found: set[str] = set()
    reached, lines = known, outermost
    for depth in range(DEEPEST):
        # The empty line is none, and stands for what is no header.
        found.update([line for line, count in Counter(lines).items() if count >= SEEN_AT_LEAST and line])
        reached = [each for each, line in zip(reached, lines, strict=True) if line in found]
        if not reached:
            break
        inner = depth + 1
        reached = [each for each in reached if len(each.lines) > inner]
        lines = [_masked(each.lines[inner if inwards > 0 else -1 - inner]) for each in reached]
    return frozenset(found)


def _depth(lines: Sequence[str], outermost: str, margins: frozenset[str]) -> int:
    """How many of the ``lines``, from one end inwards, are margins; ``outermost``: the first one, masked."""
    if outermost not in margins:
        return 0
    inner = (depth for depth in range(1, len(lines)) if _masked(lines[depth]) not in margins)
    return next(inner, len(lines))


def _masked(line: str) -> str:
    """What two headers share: numbers are masked, case and blanks do not count. Empty for what is no header."""
    return "" if len(line) > LONGEST else _mask(line)


@lru_cache(maxsize=4096)  # of lines of at most LONGEST characters: some megabytes
def _mask(line: str) -> str:
    return " ".join(_DIGITS.sub("#", line.casefold()).split())
