"""Differences between a long text and its edited copy that change nothing: function words, and what OCR read wrong.

Never a number, a unit, a date, a negation, a modal verb, a name, an identifier or a mark, and never one content word for another. Real words
differ by one letter (casual and causal) or by an ending (director and directors), so neither a typo nor an ending is such a difference. On the
labelled sets endings would remove no repeat more. Nor is a blank or a hyphen elsewhere: three-hundred-year-old trees, three hundred-year-old trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..reading.text import Passage
from ..reading.words import misread, word_set
from .covering import LONG, Run

# These may be there or not. None of them limits, denies, lists, or tells who, where, when or how much; nor is one a noun, as in well water.
_DROPPED = word_set("that which also thus therefore hence please")
# One for the other.
_EXCHANGED = tuple(
    map(
        word_set,
        (
            "that which who",
            "and &",
            "while whilst",
            "among amongst",
            "amid amidst",
            "toward towards",
            "afterward afterwards",
        ),
    )
)
# Gaps of more tokens are no edits.
MOST_TOKENS = 2
# Tokens that must be equal behind an edit, so that it is one.
_AFTER = 3
_MOST_EDITS = 40

Edit = tuple[tuple[int, int], tuple[int, int]]


# Of these an English text of sixty tokens has several, and a text in another language hardly one.
_FUNCTION = word_set(
    "of and to in is for with on by that be are was as from this or which have has were you your will can it"
)
_ENGLISH = 5


def is_english(passage: Passage) -> bool:
    """Whether function words show that a text is English."""
    return len(_FUNCTION.intersection(passage.tokens)) >= _ENGLISH


def extended(run: Run, passage: Passage, text: Passage, start: int, end: int) -> Run:
    """A run prolonged at both ends over edits, within the candidate's tokens from ``start`` to ``end``. ``text``: the kept one."""
    if end - start < LONG or len(text.tokens) < LONG - LONG // 10:
        return run
    english = is_english(passage) and is_english(text)
    edits, last, until = _forward(passage.tokens, run.end, end, text.tokens, run.until, english=english)
    reversed_edits, first, at = _forward(
        passage.tokens[start : run.start][::-1],
        0,
        run.start - start,
        text.tokens[: run.at][::-1],
        0,
        english=english,
        is_reversed=True,
    )
    after = [
        ((run.start - mine[1], run.start - mine[0]), (run.at - theirs[1], run.at - theirs[0]))
        for mine, theirs in reversed(reversed_edits)
    ]
    if not edits and not after:
        return run
    return replace(
        run, start=run.start - first, end=last, at=run.at - at, edits=(*after, *run.edits, *edits), last=until
    )


def _forward(
    tokens: Sequence[str],
    place: int,
    end: int,
    theirs: Sequence[str],
    at: int,
    *,
    english: bool,
    is_reversed: bool = False,
) -> tuple[list[Edit], int, int]:
    """The edits from here on, and how far both texts are equal with them."""
    edits: list[Edit] = []
    while place < end and at < len(theirs) and len(edits) < _MOST_EDITS:
        gap = _gap(tokens, place, end, theirs, at, english=english, is_reversed=is_reversed)
        if gap is None:
            break
        mine, other = gap
        edits.append(((place, place + mine), (at, at + other)))
        place, at = place + mine, at + other
        while place < end and at < len(theirs) and tokens[place] == theirs[at]:
            place, at = place + 1, at + 1
    return edits, place, at


def _gap(
    tokens: Sequence[str], place: int, end: int, theirs: Sequence[str], at: int, *, english: bool, is_reversed: bool
) -> tuple[int, int] | None:
    """The smallest edit here behind which both texts go on alike."""
    for size in range(1, 2 * MOST_TOKENS + 1):
        for mine in range(min(size, MOST_TOKENS), -1, -1):
            other = size - mine
            if other > MOST_TOKENS or place + mine > end or at + other > len(theirs):
                continue
            after = min(_AFTER, end - place - mine, len(theirs) - at - other)
            if tokens[place + mine : place + mine + after] != theirs[at + other : at + other + after]:
                continue
            gap = (tuple(tokens[place : place + mine]), tuple(theirs[at : at + other]))
            if is_reversed:
                gap = (gap[0][::-1], gap[1][::-1])
            if is_edit(*gap, english=english):
                return mine, other
    return None


def is_edit(mine: tuple[str, ...], theirs: tuple[str, ...], *, english: bool) -> bool:
    """Whether one text has ``mine`` where the other has ``theirs``, and both say the same."""
    if english and all(word in _DROPPED for word in (*mine, *theirs)):
        return True
    if len(mine) != 1 or len(theirs) != 1:
        return False
    one, other = mine[0], theirs[0]
    return misread(one) == misread(other) or any(one in words and other in words for words in _EXCHANGED)
