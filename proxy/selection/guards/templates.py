"""Finds texts made from one template: all words are the same except those that fill its gaps.

"Junior Python developer in Paris" and "Senior Python developer in Paris" have nearly the same vector and words, and so have the pages of
twelve hotels of one chain. The words in the gap are what such a text is about.

A pair alone is not enough: an edited copy also differs in a word. The pool shows the difference. If a third text fills the same gap with
yet other words, it is a gap of a template. Copies of one text are edited in different places, or all in the same way.

Two kinds of pairs need no third text:

- short texts with the same words of which two are exchanged, as "flights from Lisbon to Oslo" and "flights from Oslo to Lisbon";
- texts of up to SUBSTITUTED words that have other words in a gap, and whose vectors are farther apart than those of edited copies: "the capital of
  Norway", "the capital of Finland"; and short texts of which one has words inside that the other lacks: "all users", "all active users".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress, filterfalse, islice
from operator import not_
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..text.bounds import LONGEST_WORD
from ..text.pairs import most_shared
from ..text.reading import Texts
from ..values import Indices, Steps

# The share of the smaller text's words that both must have, in the same order.
FRAME = 0.6
# The most words in a gap: for texts with up to SHORT words, and for longer ones.
SHORT, IN_SHORT, IN_LONG = 30, 3, 8
# The share of the smaller text's 3-grams: long texts with one frame share more than this, whatever their gaps are.
SHARED_GRAMS = 0.3
# Words per text, and the distance from which other words in a gap mean something else, as a share of the typical distance. Measured with MiniLM: of
# 20 pairs whose words were replaced without a change of meaning (damage by damages, required by mandatory) 19 are at 0.09 or less, of 40 pairs with
# another meaning 36 are above. On the labelled sets the rule keeps 0.8 % of the redundancy that was removed, for tickets and opinions; at 0.15 it keeps 0.7 %, at
# 0.25 0.4 %; words that one side lacks are another 0.1 %. With texts of any length it keeps 1.2 %: releases of a manual are edited in such places.
SUBSTITUTED, FAR = 64, 0.1
# Limits for a pair: words per text, gaps, and words up to the next two common words.
MOST_WORDS, MOST_GAPS = 400, 8
_AGAIN = 2
_END = ""
_RUN = 16  # words that are compared at once
# The most third texts that are read for long texts.
MOST_THIRDS = 16
# The most partners a candidate is compared with to find one with its frame. Among similar texts, few are of its template.
MOST_PARTNERS = 16
# The cost of one step: some milliseconds. A pair whose words are compared costs READ, and 1 for each CHARACTERS of its texts; a pair that is
# known costs LOOK. Then the most pairs per call, and the most pairs compared by themselves: pairs beyond are treated as if there were no
# template. Without a cost for characters, steps of texts with words of 300 letters took 68 ms, and those of 400 words 34 ms.
STEP_WORK, READ, CHARACTERS, LOOK, MOST_PAIRS, MOST_DIRECT = 512, 8, 128, 1, 1 << 14, 1 << 12
MEASURED = 512  # pairs whose vectors are compared in one step: 5 ms with 1,536 numbers of 64 bits

_DASHES, _CLOSING = frozenset({"-", "–", "—", "|"}), frozenset(":)]")
_PUNCTUATION = ".,;:!?()[]{}<>\"'"
# In a script without blanks each character is a word, as in tokens.
_SPACELESS = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
# Conjunctions whose two sides can be exchanged without a change of meaning.
_JOINERS = frozenset("and or & / + vs und oder et ou y o e".split())  # noqa: SIM905 - a table
# The most words on each side of an exchange: names of cities have two.
MOST_EXCHANGED = 4
# English function words. Replacing one of them does not change the meaning.
_FUNCTION_WORDS = frozenset(
    "a about again all also am an and any are as at be been but by can could did do does done down for from had has have he her here his "  # noqa: SIM905 - a table
    "how i i'm if in is it it's its just may me might must my no nor not of off on or our out over please shall she should so some than that "
    "the their them then there these they this those to too under up us very was we were what when where which who whom whose why will with "
    "would you your".split()
)


class Gap(NamedTuple):
    """The words that differ between two texts at one place: in the second text from ``start`` to ``end``. ``mine``, ``theirs``: the first's
    and the second's words that count, because they differ or are in another order.
    """

    start: int
    end: int
    mine: frozenset[str]
    theirs: frozenset[str]


Gaps = tuple[Gap, ...]
# By the numbers of both texts; at most this many: 8 MB. Emptying a dictionary takes a fifth of the time of an LRU cache.
MOST_KEPT = 1 << 16
_kept: dict[tuple[int, int], Gaps] = {}


Apart = Callable[[Indices, Indices], npt.NDArray[np.floating[Any]]]
"""The distances of p pairs (p,), as shares of the typical distance."""


def from_one_template(texts: Texts, first: Indices, second: Indices, apart: Apart | None = None) -> Steps[list[int]]:
    """Which of p pairs of candidates, first < second, are made from a template that a third text shows, exchange two words, or have other
    words in a gap although their vectors are ``apart``.

    Each candidate is compared with its best-ranked partner, and with its best-ranked partner of the same frame. Two candidates with a
    common partner are judged by these comparisons, others are compared directly. Third texts are among the first candidates, so that a list
    read page by page stays the same.
    """
    reader = _Reader(texts)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    found = yield from _exchanged(reader, pairs)
    found += yield from _substituted(reader, pairs, apart)
    if len(texts.first_different) < 3:
        return sorted({*found})
    known = frozenset(found)
    partners, heads = yield from _heads(reader, pairs)
    is_read = [one in (partners[other], heads.get(other)) for one, other in pairs]
    for pair in compress(range(len(pairs)), is_read):
        one, other = pairs[pair]
        if pair not in known and reader.is_shown(other, one):
            found.append(pair)
        if reader.is_step():
            yield
    rest = compress(range(len(pairs)), map(not_, is_read)) if found else ()
    for count, pair in enumerate(islice(rest, MOST_PAIRS)):
        one, other = pairs[pair]
        if pair in known:
            continue
        shared = {of[other] for of in (partners, heads) if other in of and of.get(one) == of[other]}
        if any(reader.is_apart(one, other, head) for head in sorted(shared)) or (
            count < MOST_DIRECT and reader.is_shown(other, one)
        ):
            found.append(pair)
        if reader.is_step():
            yield
    return sorted({*found})


def _exchanged(reader: _Reader, pairs: Sequence[tuple[int, int]]) -> Steps[list[int]]:
    """Which pairs exchange two words."""
    found: list[int] = []
    for pair, (one, other) in enumerate(pairs):
        if reader.is_exchange(one, other):
            found.append(pair)
        if reader.is_step():
            yield
    return found


def _substituted(reader: _Reader, pairs: Sequence[tuple[int, int]], apart: Apart | None) -> Steps[list[int]]:
    """Which pairs have other words in a gap, and vectors that are far apart; none where these are unknown."""
    found: list[int] = []
    if apart is None:
        return found
    for pair, (one, other) in enumerate(islice(pairs, MOST_DIRECT)):
        if reader.is_substitution(one, other):
            found.append(pair)
        if reader.is_step():
            yield
    far: list[int] = []
    for start in range(0, len(found), MEASURED):
        if start:
            yield
        some = found[start : start + MEASURED]
        first, second = np.array([pairs[pair] for pair in some], np.intp).T
        far += compress(some, (apart(first, second) > FAR).tolist())
    return far


def _heads(reader: _Reader, pairs: Sequence[tuple[int, int]]) -> Steps[tuple[dict[int, int], dict[int, int]]]:
    """The best-ranked partner of each candidate, and its best-ranked partner with the same frame."""
    partners, heads, tried = dict[int, int](), dict[int, int](), Counter[int]()
    for one, other in pairs:
        partners.setdefault(other, one)
        if other in heads or tried[other] == MOST_PARTNERS:
            continue
        tried[other] += 1
        if reader.between(other, one):
            heads[other] = one
        if reader.is_step():
            yield
    return partners, heads


class _Reader:
    """Finds the gaps of candidates; each two texts are compared once."""

    __slots__ = (
        "_bags",
        "_compared",
        "_counts",
        "_different",
        "_lengths",
        "_numbers",
        "_shown",
        "_texts",
        "_thirds",
        "_words",
        "_work",
    )

    def __init__(self, texts: Texts) -> None:
        self._numbers: list[int] = texts.numbers.tolist()
        self._counts = texts.word_counts
        self._texts = texts
        self._different = np.array(texts.first_different, np.intp)
        self._words: dict[int, list[str]] = {}
        self._lengths: dict[int, int] = {}  # characters of these words
        self._thirds: dict[int, list[int]] = {}
        self._shown: dict[tuple[int, int], Gaps] = {}
        self._bags: dict[int, int] = {}
        self._work = self._compared = 0

    def is_step(self) -> bool:
        """Whether enough was read since the last True to let other tasks run."""
        self._work += LOOK
        if self._work < STEP_WORK:
            return False
        self._work = 0
        return True

    def between(self, one: int, other: int) -> Gaps:
        """The places where candidate ``one`` differs from ``other``; () for equal texts and for a missing one."""
        key = self._numbers[one], self._numbers[other]
        found = _kept.get(key)
        if found is None:
            found = () if key[0] == key[1] or 0 in key else gaps(self._words_of(one), self._words_of(other))
            self._work += READ + (self._lengths.get(one, 0) + self._lengths.get(other, 0)) // CHARACTERS
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[key] = found
        return found

    def is_shown(self, one: int, other: int) -> bool:
        """Whether a third text shows that the two are of one template."""
        return bool(self._shown_of(one, other))

    def is_apart(self, one: int, other: int, head: int) -> bool:
        """Whether two texts fill a gap differently that a third text shows. Both are compared with ``head``."""
        return _is_apart(self._shown_of(one, head), self.between(other, head)) or _is_apart(
            self._shown_of(other, head), self.between(one, head)
        )

    def is_exchange(self, one: int, other: int) -> bool:
        """Whether two short texts have the same words, of which two are exchanged. False after the first MOST_DIRECT pairs whose words may
        be the same: 200 texts of one set of words took 0.3 s in one step.
        """
        may_be = self._numbers[one] != self._numbers[other] and self._bag_of(one) == self._bag_of(other) != 0
        if not may_be or self._compared == MOST_DIRECT:
            return False
        self._compared += 1
        self._work += READ
        return are_exchanged(self._words_of(one), self._words_of(other))

    def is_substitution(self, one: int, other: int) -> bool:
        """Whether two texts of up to SUBSTITUTED words each have words in a gap that the other has not there; in short texts, whether one has,
        but not at an end, where sources are named.
        """
        fewest, most = sorted((self._counts.item(one), self._counts.item(other)))
        if not 0 < fewest <= most <= SUBSTITUTED or not (found := self.between(other, one)):
            return False
        end = len(self._words_of(one)) - _AGAIN if most <= SHORT else 0
        return any((gap.mine - gap.theirs and gap.theirs - gap.mine) or 0 < gap.start <= gap.end < end for gap in found)

    def _bag_of(self, place: int) -> int:
        """A number that is equal for short texts that may have the same words; 0 for other texts. Only letters are counted."""
        found = self._bags.get(place)
        if found is None:
            is_short = 0 < self._counts[place] <= SHORT
            letters = "".join(self._words_of(place)) if is_short else ""
            found = self._bags[place] = sum(map(ord, filter(str.isalnum, letters)))
        return found

    def _shown_of(self, one: int, other: int) -> Gaps:
        """The gaps that a third text fills with yet other words."""
        found = self._shown.get((one, other))
        if found is None:
            found = self._shown[one, other] = self._filled_otherwise(self.between(one, other), one, other)
        return found

    def _filled_otherwise(self, between: Gaps, one: int, other: int) -> Gaps:
        if not between:
            return ()
        known = {self._numbers[one], self._numbers[other]}
        thirds = [third for third in self._like(other) if self._numbers[third] not in known]
        self._work += LOOK * len(thirds)
        # Third texts are read until one fills the gap: in a pool of one template this needs few.
        return tuple(
            [gap for gap in between if any(_is_filled_otherwise(gap, self.between(third, other)) for third in thirds)]
        )

    def _words_of(self, place: int) -> list[str]:
        found = self._words.get(place)
        if found is None:
            count = self._counts.item(place)
            form = self._texts.form(place) if count <= MOST_WORDS else None
            body = "" if form is None or len(form.body) > LONGEST_WORD * count else form.body
            found, self._lengths[place] = words_of(body), len(body)
            self._words[place] = found
            self._work += len(body) // CHARACTERS
        return found

    def _like(self, one: int) -> list[int]:
        """Candidates that may have the frame of ``one``, by rank: two long texts with one frame share 3-grams."""
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


def is_substituted(gap: Gap) -> bool:
    """Whether each of two texts has words in a gap that the other has not there."""
    return bool(gap.mine - gap.theirs and gap.theirs - gap.mine)


def words_of(body: str) -> list[str]:
    """The words of a text in lower case, with their punctuation, and two end marks."""
    body = body.lower() if body.isascii() else _SPACELESS.sub(r" \1 ", body.lower())
    return [*body.split(), _END, _END]


def are_exchanged(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two texts, from ``words_of``, are equal except for two exchanged words or runs of words. False for members of a list, whose
    order has no meaning.
    """
    if len(one) != len(other):
        return False
    apart = [place for place, (mine, theirs) in enumerate(zip(one, other, strict=True)) if mine != theirs]
    mine, theirs = ([side[place].strip(_PUNCTUATION) for place in apart] for side in (one, other))
    told = [
        number
        for number in range(len(apart))
        if mine[number] != theirs[number] and not {mine[number], theirs[number]} <= _FUNCTION_WORDS
    ]
    half = len(told) // 2
    if not told or len(told) % 2 or len(told) > MOST_EXCHANGED:
        return False
    left, right = ([side[number] for number in told] for side in (mine, theirs))
    start, end = apart[told[half - 1]] + 1, apart[told[half]]
    between = one[start:end]
    return (
        left[:half] == right[half:]
        and left[half:] == right[:half]
        and bool(between)
        and _JOINERS.isdisjoint(between)
        and not any(word[-1:] == "," for word in one[start - 1 : end])
    )


def gaps(one: Sequence[str], other: Sequence[str]) -> Gaps:
    """The gaps of two texts with the same words otherwise, in order; () if they differ in another way, or in function words only. Both
    texts: from ``words_of``.
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
        # The last line and the byline of a long text name its source. The last line of a short text may be its subject.
        is_byline = j == 0 and (_is_byline(one, met[0]) or _is_byline(other, met[1]))
        if longest == IN_SHORT or not (is_byline or other[met[1]] == _END):
            found.append(_gap(one[i : met[0]], other[j : met[1]], j, is_long=longest == IN_LONG))
        i, j = met
    return tuple([gap for gap in found if gap is not None]) if same and same >= FRAME * fewest else ()


def _is_byline(words: Sequence[str], end: int) -> bool:
    """Whether the words before ``end`` are separated from the text, as in "(Reuters) - "."""
    return words[end] in _DASHES or words[end - 1][-1:] in _CLOSING


def _alike(one: Sequence[str], other: Sequence[str], i: int, j: int) -> int:
    """The number of equal words from ``i`` and ``j`` on."""
    count, most = 0, min(len(one) - i, len(other) - j) - _AGAIN
    while count < most and one[i + count : i + count + _RUN] == other[j + count : j + count + _RUN]:
        count += _RUN
    while count < most and one[i + count] == other[j + count]:
        count += 1
    return min(count, most)


def _gap(mine: Sequence[str], theirs: Sequence[str], start: int, *, is_long: bool) -> Gap | None:
    """None if the differences do not count."""
    bare = ([word.strip(_PUNCTUATION) for word in side] for side in (mine, theirs))
    sides = [[word for word in side if word and word not in _FUNCTION_WORDS] for side in bare]
    if is_long:  # releases of a text differ in their numbers
        sides = [list(filterfalse(_has_digit, side)) for side in sides]
    return None if sides[0] == sides[1] else Gap(start, start + len(theirs), *map(frozenset, sides))


def _has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))  # a character of a long word costs 25 ns


def _meeting(one: Sequence[str], other: Sequence[str], i: int, j: int, longest: int) -> tuple[int, int] | None:
    """The nearest places after ``i`` and ``j`` from which both continue with two equal words, or end; None within ``longest`` words."""
    for x, y in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):  # most gaps have one word
        if one[x : x + _AGAIN] == other[y : y + _AGAIN]:
            return x, y
    for size in (_AGAIN, 1) if longest == IN_SHORT else (_AGAIN,):
        found = _nearest(one, other, i, j, longest, size)
        if found is not None:
            return found
    return None


def _nearest(
    one: Sequence[str], other: Sequence[str], i: int, j: int, longest: int, size: int
) -> tuple[int, int] | None:
    """The nearest places from which both continue with ``size`` equal words. A single word must not be a function word: in "size S, red"
    and "size M, blue" nothing else is between two gaps.
    """
    mine: dict[tuple[str, ...], int] = {}
    for x in range(i, min(i + longest + 1, len(one) - 1)):
        if size == _AGAIN or (one[x] != _END and one[x].strip(_PUNCTUATION) not in _FUNCTION_WORDS):
            mine.setdefault(tuple(one[x : x + size]), x)
    best = None
    for y in range(j, min(j + longest + 1, len(other) - 1)):
        x = mine.get(tuple(other[y : y + size]), -1)
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
    """Whether another text fills one of the shown gaps differently: with other words, or with those of the text to which all gaps belong."""
    return any(all(not _is_same(gap, other) or gap.mine != other.mine for other in others) for gap in shown)


def _is_same(one: Gap, other: Gap) -> bool:
    """Whether two gaps of one text are at the same place."""
    return (one.start, one.end) == (other.start, other.end) or (one.start < other.end and other.start < one.end)
