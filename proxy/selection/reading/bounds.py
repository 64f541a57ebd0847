"""Bounds on reading texts. A text that is too long, or too expensive for its length, counts as unknown.

Anyone who may write a payload may write a text, and a text that is cheap to store may be expensive to read. Python orders a run of
combining marks in quadratic time and holds the interpreter lock meanwhile (99,000 marks: 43 s). One character may become 18 (U+FDFA). 50
texts of 99,000 Chinese characters take seconds. So every text has a cost, which is computed before anything else is done with it, and a
pool has a budget that is spent in rank order. The result depends only on the texts and their order; no clock is read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Traits = npt.NDArray[np.uint8]


class Priced(Protocol):
    """A text. ``known_cost``: UNPRICED until ``cost`` was called, negative for a text that is not read."""

    raw: str
    known_cost: int

    def cost(self) -> int: ...


P = TypeVar("P", bound=Priced)

# The cost (about the bytes in UTF-8) and the lines of one text. Few embedding models read so many, so hardly any chunk is that long. Longer texts are not truncated, because two
# texts that only agree up to here are no copies. The dearest text of this size takes 30 ms in one step.
LONGEST = 32_768
MOST_LINES = 2_000
# Combining marks in a row: the limit of the Stream-Safe Text Format (Unicode Standard Annex 15), "significantly beyond
# what is required for any linguistic or technical usage".
MOST_MARKS = 30
# The budget for the texts of one pool, in units of about one character of English: 0.2 to 0.4 µs from the raw text to the verdict, in steps. It is
# enough for 50 chunks of 20,000 characters, or a list of a thousand chunks of a hundred words.
POOL_COST = 1 << 20
# The value of a cost that is not computed yet.
UNPRICED = -2
# The work of one step, between which other tasks run (``Steps``).
STEP_COST = 1 << 14

# Cost per line: it is split off, searched for blanks and measured.
_LINE_COST = 4

# Invisible characters that pipelines insert or remove: soft hyphen, zero-width space, joiners and non-joiners, word joiner, byte order
# mark, direction marks. All of them are outside ASCII. First and last code points.
INVISIBLE = (
    *((0xAD, 0xAD), (0x180E, 0x180E), (0x200B, 0x200F), (0x202A, 0x202E)),
    *((0x2060, 0x2064), (0x2066, 0x2069), (0xFEFF, 0xFEFF)),
)

_ASCII = bytes(range(0x80))
_IS_MARK, _IS_INVISIBLE, _COST = 64, 128, 63
_TABLE_END = 0x20000
# Characters whose cost is their bytes: without marks, compatibility forms and case. ASCII; Chinese and Yi; Korean and private use; cuneiform
# and hieroglyphs; Tangut and Khitan, with the unassigned block behind them; emoji. More than half of the table.
_PLAIN = ((0, 0x7F), (0x3400, 0xA4CF), (0xAC00, 0xF8FF), (0x12000, 0x1467F), (0x17000, 0x1AFEF), (0x1F300, 0x1FFFF))


def readable(texts: Sequence[P | None]) -> tuple[Sequence[P | None], Sequence[int]]:
    """The texts that are read, None for the others, and the cost of each, 0 for the others. ``texts``: in rank order.

    Reading ends at the first text that the budget does not cover, so that it does not depend on lower ranks.
    """
    prices = [0 if text is None else text.known_cost for text in texts]
    if min(prices, default=0) >= 0 and sum(prices) <= POOL_COST:
        return texts, prices
    left = POOL_COST
    texts_read: list[P | None] = [None] * len(texts)
    costs = [0] * len(texts)
    for place, text in enumerate(texts):
        if text is None or len(text.raw) > LONGEST:
            continue
        price = text.cost()
        left -= len(text.raw) if price < 0 else price
        if left < 0:
            break
        if price >= 0:
            texts_read[place], costs[place] = text, price
    return tuple(texts_read), tuple(costs)


def cost(text: str) -> int | None:
    """The cost of reading a text, in units of about one character of English; None for a text that is not read."""
    if len(text) > LONGEST:
        return None
    breaks = text.count("\n") + text.count("\r")
    if breaks > MOST_LINES:
        return None
    lines = _LINE_COST * breaks
    if text.isascii():
        return len(text) + lines
    try:
        others = beyond_ascii(text)
    except UnicodeEncodeError:
        return None  # a lone surrogate: no text that anybody wrote
    dear, has_marks = (_known_price if len(others) <= FEW_OTHERS else _price)(others)
    price = len(text) - len(others) + dear + lines
    if price > LONGEST:
        return None
    return None if has_marks and _longest_run(_traits_of(text)) > MOST_MARKS else price


# In a text with few characters beyond ASCII, they are the same as in many texts: quotes, dashes, an accent.
FEW_OTHERS = 16


def _price(others: str) -> tuple[int, bool]:
    """The cost of these characters, and whether there are marks among them."""
    traits = _traits_of(others)
    return int((traits & _COST).sum(dtype=np.int64)), bool((traits & _IS_MARK).any())


_known_price = lru_cache(maxsize=4096)(_price)


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in their order. Most texts have few, found in a microsecond."""
    return text.encode().translate(None, _ASCII).decode()


def _traits_of(text: str) -> Traits:
    codes = np.frombuffer(text.encode("utf-32-le"), np.dtype("<u4"))
    traits = _TRAITS.take(codes, mode="clip")
    if not traits.all():
        for code in np.unique(codes[traits == 0]).tolist():
            _TRAITS[code] = _trait(chr(code))
        traits = _TRAITS.take(codes, mode="clip")
    return traits


def _longest_run(traits: Traits) -> int:
    """The length of the longest run of marks. Invisible characters do not interrupt a run, because they are removed."""
    marks = (traits & _IS_MARK) != 0
    if not marks.any():
        return 0
    marks = marks[traits < _IS_INVISIBLE]
    others = np.flatnonzero(~marks)
    return int(np.diff(others, prepend=-1, append=len(marks)).max()) - 1


def _trait(character: str) -> int:
    price, apart = len(character.encode()), character
    if not unicodedata.is_normalized("NFKC", character):
        # Decomposed, composed, compared: about 80 ns per resulting character.
        apart = unicodedata.normalize("NFKD", character)
        price = max(price, 2 * len(apart))
    if not unicodedata.is_normalized("NFKC", folded := character.casefold()):
        price = max(price, 4 * len(folded))  # composed again until nothing changes
    # U+0F73 is no mark itself, but becomes two.
    return price | _IS_MARK if unicodedata.combining(apart[0]) else price


def _known_traits() -> Traits:
    """For each of the first 131,072 characters its cost, whether it is a mark and whether it is invisible; then the same for all others.

    0 until a text shows the character: to compute all would take a tenth of the time of a start. A pool that shows all that is not known
    takes 40 ms longer, once a process.
    """
    traits = np.zeros(_TABLE_END + 1, np.uint8)
    traits[_TABLE_END] = 8
    for flag, ranges in ((0, _PLAIN), (_IS_INVISIBLE, INVISIBLE)):
        for first, last in ranges:
            traits[first : last + 1] = flag | len(chr(first).encode())
    return traits


_TRAITS = _known_traits()
