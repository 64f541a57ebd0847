"""How pairs differ: the same in steps as at once, no step is long, and how far two texts begin alike."""

from __future__ import annotations

import random
from itertools import takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import forget, texts
from vecsieve.proxy.selection.text import pairs
from vecsieve.proxy.selection.text.bounds import STEP_COST, STEP_PAIRS
from vecsieve.proxy.selection.text.features import Tokens
from vecsieve.proxy.selection.text.pairs import DIFFERENCES, PAIR_COST, SHARED, differences, keys_of, shared
from vecsieve.proxy.selection.text.reading import Texts
from vecsieve.proxy.selection.values import finished

COUNT = 24


def long_texts(digits: str, *, length: int = 8000) -> Texts:
    """Texts of figures alone that differ in one of them."""
    draw = random.Random(1)
    words = ["".join(draw.choice(digits) for _ in range(3)) for _ in range(length // 4)]
    each = []
    for _ in range(COUNT):
        other = list(words)
        other[draw.randrange(len(words))] = "".join(draw.choice(digits) for _ in range(9))
        each.append(" ".join(other))
    known = texts(*each)
    finished(known.reading(range(COUNT)))
    return known


@pytest.mark.parametrize("digits", ["0123456789", "٠١٢٣٤٥٦٧٨٩"], ids=["ASCII", "Arabic"])
def test_long_texts_are_compared_in_steps_of_few_texts_and_few_pairs(
    digits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    DIFFERENCES.forget()
    known = long_texts(digits)
    first, second = np.triu_indices(COUNT, 1)
    steps, compared, read = 0, [0], [0]
    begins_alike, marks = pairs._begins_alike, Texts.marks

    def counted_pairs(one: str, other: str) -> float:
        compared[-1] += 1
        return begins_alike(one, other)

    def counted_marks(self: Texts, i: int) -> tuple[Tokens, Tokens]:
        form = self.form(i)
        read[-1] += form is not None and form._marks is None
        return marks(self, i)

    monkeypatch.setattr(pairs, "_begins_alike", counted_pairs)
    monkeypatch.setattr(Texts, "marks", counted_marks)
    working = differences(known, keys_of(known, first, second), first, second)
    while True:
        try:
            next(working)
        except StopIteration as end:
            found = end.value
            break
        steps += 1
        compared.append(0)
        read.append(0)
    assert steps > 3
    tokens = min(len(known.marks(place)[0]) for place in range(COUNT))
    assert max(compared) <= STEP_COST // (PAIR_COST + 2 * tokens)
    assert sum(compared) == len(first)
    assert sum(read) == COUNT
    assert max(read) < COUNT
    DIFFERENCES.forget()
    for row, one, other in zip(found, first, second, strict=True):
        DIFFERENCES.forget()
        some = np.array([one]), np.array([other])
        assert np.array_equal(finished(differences(known, keys_of(known, *some), *some)), row[None])
    assert (found[:, 0] > 0.0).all()


def test_texts_of_few_words_and_many_characters_are_read_in_steps() -> None:
    """Their words alone would be one step's."""
    known = texts(*(f"{number} " + "letters" * 2000 for number in range(COUNT)))
    finished(known.reading(range(COUNT)))
    first, second = np.triu_indices(COUNT, 1)
    assert sum(1 for _ in differences(known, keys_of(known, first, second), first, second)) > 2


def test_the_pairs_of_many_candidates_are_compared_in_steps_and_as_alone() -> None:
    """200 candidates have 20,000 pairs: their stages together held the loop for 60 ms, those of 500 for 120 ms."""
    forget()
    SHARED.forget()
    each = [f"the {number % 7} of {number} words that are said here {number % 3}" for number in range(200)]
    known = texts(*each)
    finished(known.reading(range(200)))
    first, second = np.triu_indices(200, 1)
    keys = keys_of(known, first, second)
    found = finished(shared(known, keys, first, second))
    SHARED.forget()
    assert len(first) > STEP_PAIRS
    assert len(list(shared(known, keys, first, second))) == 3
    assert len(list(differences(known, keys, first, second))) > 2
    SHARED.forget()
    some = np.array([3, 190]), np.array([10, 197])
    alone = finished(shared(known, keys_of(known, *some), *some))
    places = [np.flatnonzero((first == one) & (second == other)).item() for one, other in zip(*some, strict=True)]
    assert alone.tolist() == found[places].tolist()
    assert alone.min() > 0


def test_short_texts_are_compared_at_once() -> None:
    known = texts("version 1.2", "version 1.3")
    finished(known.reading(range(2)))
    first, second = np.array([0]), np.array([1])
    with pytest.raises(StopIteration) as ended:
        next(differences(known, keys_of(known, first, second), first, second))
    assert ended.value.value[0, :4].tolist() == [1.0, 1.0, 1.0, 1.0]


@given(st.lists(st.text("abü漢", max_size=9), min_size=3, max_size=3))
def test_the_shared_beginning_is_a_share_of_the_shorter_text(parts: list[str]) -> None:
    """Invariant: it is what both begin with, whoever comes first; nothing of a text without words."""
    beginning, one, other = parts
    known = texts("a" + beginning + one, "a" + beginning + other, "b")
    mine, theirs = known.canonical(0), known.canonical(1)
    assert mine is not None
    assert theirs is not None
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=False)))
    wanted = alike / min(len(mine), len(theirs))
    first, second = np.array([0, 1, 0]), np.array([1, 0, 2])
    found = finished(differences(known, keys_of(known, first, second), first, second))
    assert found[:, 4].tolist() == pytest.approx([wanted, wanted, 0.0])
