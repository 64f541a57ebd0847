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
from collections.abc import Iterable, Sequence
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
    """``lines``: a text's lines without the blank ones. ``head``, ``tail``: the first and the last of them, masked."""

    lines: tuple[str, ...]
    head: str
    tail: str


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
    return Edges(lines, _masked(lines[0]), _masked(lines[-1]))


def learn(known: Iterable[Edges]) -> Margins:
    """The margins of these texts. The order of the texts does not matter."""
    distinct = {each.lines: each for each in known}.values()
    headers = _repeated([(each.lines[:DEEPEST], each.head) for each in distinct])
    footers = _repeated([(each.lines[: -DEEPEST - 1 : -1], each.tail) for each in distinct])
    return Margins(headers, footers)


def body(text: str, known: Edges, margins: Margins) -> str:
    """``text`` without its margins, or ``text`` itself where it has none or where too little would remain."""
    first = _depth(known.lines[:DEEPEST], known.head, margins.headers)
    last = len(known.lines) - _depth(known.lines[: -DEEPEST - 1 : -1], known.tail, margins.footers)
    if first == 0 and last == len(known.lines):
        return text
    remaining = sum(map(len, known.lines[first:last]))
    if remaining < max(REMAINING_AT_LEAST, REMAINING_SHARE * sum(map(len, known.lines))):
        return text
    return "\n".join(known.lines[first:last])


def _repeated(reached: list[tuple[tuple[str, ...], str]]) -> frozenset[str]:
    """The masked lines that repeat. ``reached``: of each text the lines from one end inwards, and the outermost masked.

    A line further in counts only where all lines outside it are margins already.
    """
    found: set[str] = set()
    for depth in range(DEEPEST):
        counts = Counter(line for _, line in reached)
        found.update(line for line, count in counts.items() if line and count >= SEEN_AT_LEAST)
        inner = depth + 1
        reached = [(lines, _masked(lines[inner])) for lines, line in reached if line in found and len(lines) > inner]
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
