"""Bounds on reading texts. A text that is too long, or too expensive for its length, counts as unknown.

Anyone who may write a payload may write a text, and a text that is cheap to store may be expensive to read. Python orders a run of
combining marks in quadratic time and holds the interpreter lock meanwhile (99,000 marks: 43 s). One character may become 18 (U+FDFA). 50
texts of 99,000 Chinese characters take seconds. So every text has a cost, which is computed before anything else is done with it, and a
pool has a budget that is spent in rank order. The result depends only on the texts and their order; no clock is read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
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

# Characters of one text. No embedding model reads so many, so no chunk is that long. Longer texts are not truncated, because two texts that
# only agree up to here are no copies.
LONGEST = 100_000
# Combining marks in a row: the limit of the Stream-Safe Text Format (Unicode Standard Annex 15), "significantly beyond
# what is required for any linguistic or technical usage".
MOST_MARKS = 30
# The budget for the texts of one pool. A unit takes 20 to 50 ns from the raw text to the comparison, for any text: 50 ms in all. It is
# enough for 50 chunks of 20,000 Latin characters, or 7,000 Chinese ones.
POOL_COST = 1 << 20
# The value of a cost that is not computed yet.
UNPRICED = -2
# The largest cost of one text: the largest number of characters, in scripts that take three bytes per character.
TEXT_COST = 3 * LONGEST
# Words of one pool that are compared by n-grams: 90 ns each, in one step. 50 chunks of 20,000 Latin characters have 170,000.
POOL_WORDS = 3 << 16
# Words that are fingerprinted by MinHash or SimHash: 500 to 800 ns each, in one step.
FINGERPRINTED_WORDS = 1 << 15
# The budget for comparing texts by their longest common subsequence, in steps (one word with another) of 0.08 ns.
POOL_STEPS = 3 << 27

# The work of one step, between which other tasks run (``Steps``): 3 to 7 ms of reading, 3 ms of comparing.
STEP_COST, STEP_WORDS = POOL_COST // 8, POOL_WORDS // 8
# With more pairs, as 130 candidates have, each stage of comparing them is a step of its own: 0.1 to 0.4 µs a pair.
STEP_PAIRS = 1 << 13
# A text with more characters per word is no sentence, whatever the number of its words.
LONGEST_WORD = 64

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
# Characters without marks, compatibility forms and case: Chinese, Korean, surrogates, private use, Tangut.
_PLAIN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xD800, 0xF8FF), (0x17000, 0x18AFF))


def readable(texts: Sequence[P | None]) -> tuple[Sequence[P | None], Sequence[int]]:
    """The texts that are read, None for the others, and the cost of each, 0 for the others. ``texts``: in rank order.

    Reading ends at the first text that the budget does not cover, so that it does not depend on lower ranks.
    """
    prices = [0 if text is None else text.known_cost for text in texts]
    if min(prices, default=0) >= 0 and sum(prices) <= POOL_COST:
        return texts, prices
    left = POOL_COST
    found: list[P | None] = [None] * len(texts)
    costs = [0] * len(texts)
    for place, text in enumerate(texts):
        if text is None or len(text.raw) > LONGEST:
            continue
        price = text.cost()
        left -= len(text.raw) if price < 0 else price
        if left < 0:
            break
        if price >= 0:
            found[place], costs[place] = text, price
    return tuple(found), tuple(costs)


def cost(text: str) -> int | None:
    """The cost of reading a text, in units of about one character of English; None for a text that is not read."""
    if len(text) > LONGEST:
        return None
    lines = _LINE_COST * (text.count("\n") + text.count("\r"))
    if text.isascii():
        return len(text) + lines
    others = beyond_ascii(text)
    dear, has_marks = (_known_price if len(others) <= FEW_OTHERS else _price)(others)
    price = len(text) - len(others) + dear + lines
    if price > TEXT_COST:
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
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _traits_of(text: str) -> Traits:
    return _TRAITS.take(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4")), mode="clip")


def portions(costs: Sequence[int], which: Sequence[int]) -> Iterator[list[int]]:
    """The places ``which`` of texts in portions that cost at most STEP_COST, unless a portion is a single text."""
    portion: list[int] = []
    spent = 0
    for place in which:
        price = costs[place]
        if portion and spent + price > STEP_COST:
            yield portion
            portion, spent = [], 0
        portion.append(place)
        spent += price
    if portion:
        yield portion


def short(lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], most_words: int) -> npt.NDArray[np.bool_]:
    """Which texts (n,) have at most this many words. ``lengths``: (n,) in characters, 0 without a text. ``counts``: (n,) words, -1 if not
    counted: such a text is short if it has no more characters than short texts have.
    """
    return (lengths > 0) & (lengths <= LONGEST_WORD * most_words) & (counts <= most_words)


def lengths_of(texts: Sequence[Priced | None]) -> npt.NDArray[np.int64]:
    """The number of characters of each text (n,), 0 without a text."""
    return np.array([0 if text is None else len(text.raw) for text in texts], np.int64)


def _longest_run(traits: Traits) -> int:
    """The length of the longest run of marks. Invisible characters do not interrupt a run, because they are removed."""
    marks = (traits & _IS_MARK) != 0
    if not marks.any():
        return 0
    marks = marks[traits < _IS_INVISIBLE]
    others = np.flatnonzero(~marks)
    return int(np.diff(others, prepend=-1, append=len(marks)).max()) - 1


def _traits() -> Traits:
    """For each of the first 131,072 characters its cost, whether it is a mark and whether it is invisible; then the same for all others."""
    codes = np.arange(_TABLE_END + 1)
    found = (1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)).astype(np.uint8)  # bytes in UTF-8
    found[_TABLE_END] = 8
    is_plain = np.zeros(_TABLE_END, np.bool_)
    is_plain[:0x80] = True
    for first, last in _PLAIN:
        is_plain[first : last + 1] = True
    for code in np.flatnonzero(~is_plain).tolist():
        found[code] = _trait(chr(code), int(found[code]))
    for first, last in INVISIBLE:
        found[first : last + 1] |= _IS_INVISIBLE
    return found


def _trait(character: str, price: int) -> int:
    if not unicodedata.is_normalized("NFKC", character):
        # Decomposed, composed, compared: about 80 ns per resulting character.
        price = max(price, 2 * len(unicodedata.normalize("NFKD", character)))
    if not unicodedata.is_normalized("NFKC", folded := character.casefold()):
        price = max(price, 4 * len(folded))  # composed again until nothing changes
    if unicodedata.combining(character):
        return price | _IS_MARK
    apart = unicodedata.decomposition(character)
    if apart and unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
        return price | _IS_MARK  # U+0F73 is no mark itself, but becomes two
    return price


_TRAITS = _traits()
