"""Texts that are made from one template: all is the same but for the words that fill its gaps.

"Junior Python developer in Paris" and "Senior Python developer in Paris" have nearly the same vector and nearly the same words, and so
have the pages of twelve hotels of one chain. What fills the gap is what such a text is about.

A pair alone cannot tell: an edited copy has a word replaced, too. The pool can. Where a third text fills the same gap with yet other
words, it is a gap of a template. Copies of one text are edited in other places, or all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import filterfalse
from typing import NamedTuple

import numpy as np

from vecsieve.proxy.selection.text.pairs import most_shared
from vecsieve.proxy.selection.text.reading import Texts
from vecsieve.proxy.selection.values import Indices, Steps

# The share of the smaller text's words that both have, in the same order.
FRAME = 0.6
# Words in a gap: of texts with up to SHORT words, and of longer ones.
SHORT, IN_SHORT, IN_LONG = 30, 3, 8
# Of the smaller text's 3-grams: long texts with one frame share more than this, whatever their gaps are.
SHARED_GRAMS = 0.3
# Beyond these a pair is of no template: words of a text, gaps, words up to the next two that both have.
MOST_WORDS, MOST_GAPS = 400, 8
_AGAIN = 2
_END = ""
_RUN = 16  # words that are compared at once
# Third texts that are looked at where texts are long.
MOST_THIRDS = 16
# Texts that are read, and pairs that are compared, in one step: some milliseconds. And pairs in one call: those behind them are as if
# there were no template.
STEP_TEXTS, STEP_PAIRS, MOST_PAIRS = 32, 2048, 1 << 14

_DASHES, _CLOSING = frozenset({"-", "–", "—", "|"}), frozenset(":)]")
_PUNCTUATION = ".,;:!?()[]{}<>\"'"
# English words without a meaning of their own. Whoever replaces one of them says the same in other words.
_FUNCTION_WORDS = frozenset(
    "a about again all also am an and any are as at be been but by can could did do does done down for from had has have he her here his "  # noqa: SIM905 - a table
    "how i i'm if in is it it's its just may me might must my no nor not of off on or our out over please shall she should so some than that "
    "the their them then there these they this those to too under up us very was we were what when where which who whom whose why will with "
    "would you your".split()
)


class Gap(NamedTuple):
    """Words that two texts have at the same place: those of the second from ``start`` to ``end``. ``mine``, ``theirs``: the first's and the
    second's that count, which are others or in another order.
    """

    start: int
    end: int
    mine: frozenset[str]
    theirs: frozenset[str]


Gaps = tuple[Gap, ...]
# By the numbers of both texts, at most so many: 8 MB. A dictionary that is emptied takes a fifth of a cache's time.
MOST_KEPT = 1 << 16
_kept: dict[tuple[int, int], Gaps] = {}


def from_one_template(texts: Texts, first: Indices, second: Indices) -> Steps[list[int]]:
    """Which of p pairs of candidates, first < second, are made from a template that a third text shows.

    Each candidate is read against its best-ranked partner alone. Two candidates with the same partner are compared by what was read then.
    Third texts are among the first candidates, so that a list that is read page by page does not change its mind.
    """
    if len(texts.first_different) < 3:
        return []
    reader = _Reader(texts)
    heads, between, shown = dict[int, int](), dict[int, Gaps](), dict[int, Gaps]()
    found: list[int] = []
    rest: list[tuple[int, int, int]] = []
    for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if other in heads:
            rest.append((pair, one, other))
            continue
        heads[other] = one
        if len(heads) % STEP_TEXTS == 0:
            yield
        between[other] = reader.between(other, one)
        shown[other] = reader.shown(other, one, between[other])
        if shown[other]:
            found.append(pair)
    if found:
        for step, (pair, one, other) in enumerate(rest[:MOST_PAIRS]):
            if step and step % STEP_PAIRS == 0:
                yield
            if heads.get(one) == heads[other] and (
                _is_apart(shown[one], between[other]) or _is_apart(shown[other], between[one])
            ):
                found.append(pair)
    return found


class _Reader:
    """The gaps of candidates, read once for each two texts."""

    __slots__ = ("_counts", "_different", "_numbers", "_texts", "_thirds", "_words")

    def __init__(self, texts: Texts) -> None:
        self._numbers: list[int] = texts.numbers.tolist()
        self._counts = texts.word_counts
        self._texts = texts
        self._different = np.array(texts.first_different, np.intp)
        self._words: dict[int, list[str]] = {}
        self._thirds: dict[int, list[int]] = {}

    def between(self, one: int, other: int) -> Gaps:
        """Where candidate ``one`` differs from ``other``; () also for equal texts and where there is none."""
        key = self._numbers[one], self._numbers[other]
        found = _kept.get(key)
        if found is None:
            found = () if key[0] == key[1] or 0 in key else gaps(self._words_of(one), self._words_of(other))
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[key] = found
        return found

    def shown(self, one: int, other: int, between: Gaps) -> Gaps:
        """The gaps that a third text fills with yet other words."""
        if not between:
            return ()
        known = {self._numbers[one], self._numbers[other]}
        thirds = [third for third in self._like(other) if self._numbers[third] not in known]
        # Thirds are read until one fills the gap: in a pool of one template the first few do.
        return tuple(
            [gap for gap in between if any(_is_filled_otherwise(gap, self.between(third, other)) for third in thirds)]
        )

    def _words_of(self, place: int) -> list[str]:
        found = self._words.get(place)
        if found is None:
            form = self._texts.form(place) if self._counts[place] <= MOST_WORDS else None
            found = self._words[place] = words_of("" if form is None else form.body)
        return found

    def _like(self, one: int) -> list[int]:
        """Those that may have the frame of ``one``, by rank: two long texts that have it share 3-grams."""
        found = self._thirds.get(one)
        if found is None:
            texts, others = self._texts, self._different
            if texts.is_short[one]:
                is_like = texts.is_short[others]
            else:
                shared = most_shared(texts, np.full(len(others), one), others)
                is_like = shared >= SHARED_GRAMS * np.minimum(texts.grams[one], texts.grams[others])
                is_like &= is_like.cumsum() <= MOST_THIRDS
            found = self._thirds[one] = others[is_like].tolist()
        return found


def words_of(body: str) -> list[str]:
    """The words of a text in lower case, with their punctuation, and two marks of its end."""
    return [*body.lower().split(), _END, _END]


def gaps(one: Sequence[str], other: Sequence[str]) -> Gaps:
    """Where two texts with the same words but for a few gaps differ, in order; () where they differ in another way, or in function words
    alone. Both: as of ``words_of``.
    """
    most, fewest = max(len(one), len(other)) - _AGAIN, min(len(one), len(other)) - _AGAIN
    longest = IN_SHORT if most <= SHORT else IN_LONG
    if most > MOST_WORDS or most - fewest > MOST_GAPS * longest:
        return ()
    found: list[Gap | None] = []
    i = j = same = 0
    while True:
        alike = _alike(one, other, i, j)
        i, j, same = i + alike, j + alike, same + alike
        if one[i] == other[j]:
            break  # both end
        met = None if len(found) == MOST_GAPS else _meeting(one, other, i, j, longest)
        if met is None:
            return ()
        # The foot and the byline of a long text say where it comes from. The foot of a short one may be what it is about.
        is_byline = j == 0 and (_is_byline(one, met[0]) or _is_byline(other, met[1]))
        if longest == IN_SHORT or not (is_byline or other[met[1]] == _END):
            found.append(_gap(one[i : met[0]], other[j : met[1]], j, is_long=longest == IN_LONG))
        i, j = met
    return tuple([gap for gap in found if gap is not None]) if same and same >= FRAME * fewest else ()


def _is_byline(words: Sequence[str], end: int) -> bool:
    """Whether the words before ``end`` are set off from the text, as in "(Reuters) - "."""
    return words[end] in _DASHES or words[end - 1][-1:] in _CLOSING


def _alike(one: Sequence[str], other: Sequence[str], i: int, j: int) -> int:
    """How many words are the same from ``i`` and ``j`` on."""
    count, most = 0, min(len(one) - i, len(other) - j) - _AGAIN
    while count < most and one[i + count : i + count + _RUN] == other[j + count : j + count + _RUN]:
        count += _RUN
    while count < most and one[i + count] == other[j + count]:
        count += 1
    return min(count, most)


def _gap(mine: Sequence[str], theirs: Sequence[str], start: int, *, is_long: bool) -> Gap | None:
    """None where they differ in nothing that counts."""
    bare = ([word.strip(_PUNCTUATION) for word in side] for side in (mine, theirs))
    sides = [[word for word in side if word and word not in _FUNCTION_WORDS] for side in bare]
    if is_long:  # releases of a text differ in their numbers
        sides = [list(filterfalse(_has_digit, side)) for side in sides]
    return None if sides[0] == sides[1] else Gap(start, start + len(theirs), *map(frozenset, sides))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _meeting(one: Sequence[str], other: Sequence[str], i: int, j: int, longest: int) -> tuple[int, int] | None:
    """The nearest places behind ``i`` and ``j`` from which both go on with two words alike, or end; None within ``longest`` words."""
    for x, y in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):  # most gaps are of one word
        if one[x : x + _AGAIN] == other[y : y + _AGAIN]:
            return x, y
    mine: dict[tuple[str, str], int] = {}
    for x in range(i, min(i + longest + 1, len(one) - 1)):
        mine.setdefault((one[x], one[x + 1]), x)
    best = None
    for y in range(j, min(j + longest + 1, len(other) - 1)):
        x = mine.get((other[y], other[y + 1]), -1)
        if x >= 0 and (best is None or x + y < sum(best)):
            best = x, y
    return best


def _is_filled_otherwise(gap: Gap, thirds: Gaps) -> bool:
    """Whether a third text fills the gap with other words than both. All are gaps of the same text."""
    fillings = bool(gap.mine) + bool(gap.theirs)
    return any(
        _is_same(gap, third) and fillings + bool(third.mine) > 1 and gap.mine.isdisjoint(third.mine) for third in thirds
    )


def _is_apart(shown: Gaps, others: Gaps) -> bool:
    """Whether another text fills one of the gaps that were shown otherwise: with other words, or as the text whose gaps all are."""
    return any(all(not _is_same(gap, other) or gap.mine != other.mine for other in others) for gap in shown)


def _is_same(one: Gap, other: Gap) -> bool:
    """Whether two gaps of one text are at the same place."""
    return (one.start, one.end) == (other.start, other.end) or (one.start < other.end and other.start < one.end)
