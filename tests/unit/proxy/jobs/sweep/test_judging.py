"""What counts as a copy, and who leads a family."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.jobs.sweep.judging import Evidence, Terms, heads_of, judged
from vecsieve.proxy.search.policy import guards_of

GUARDS = guards_of(PolicySettings().guards)
LONG = " ".join(f"word{number}" for number in range(60))
WORDS = [
    f"{one}{two}"
    for one in "bcdfghjklmnp"
    for two in ("ale", "ore", "ine", "ast", "umb", "eck", "oat", "irl", "ush", "end", "ark", "olt", "ibe")
]
PAGE = " ".join(WORDS)


def verdict(
    texts: tuple[str | None, str | None],
    *,
    similarity: float | None = 1.0,
    lengths: tuple[float, float] = (1.0, 1.0),
    magnitude: bool = False,
    of_text: bool = True,
) -> Evidence:
    angle = 0.0 if similarity is None else float(np.arccos(similarity))
    vectors = np.array([[lengths[0], 0.0], [lengths[1] * np.cos(angle), lengths[1] * np.sin(angle)]], np.float32)
    has_vector = np.array([True, similarity is not None])
    terms = Terms(similarity=0.98, shared=0.92, magnitude=magnitude, guards=GUARDS)
    found = judged(np.array([[0, 1]]), vectors, has_vector, texts, terms, np.array([of_text]))
    return Evidence(int(found.evidence[0]))


@pytest.mark.parametrize(
    ("texts", "similarity", "wanted"),
    [
        (("One text.", "one  TEXT."), 0.1, Evidence.SAME_TEXT),
        (("One text.", "one text."), None, Evidence.SAME_TEXT),
        ((LONG, LONG.replace("word59", "last")), 0.5, Evidence.NEAR_TEXT),
        ((LONG, LONG.replace("word59", "last")), None, Evidence.NEAR_TEXT),
        ((LONG, LONG.replace("word30", "other").replace("word10", "one")), 0.99, Evidence.NEAR_VECTOR),
        ((LONG, LONG.replace("word30", "other").replace("word10", "one")), 0.97, Evidence.NONE),
        ((None, None), 0.99, Evidence.NEAR_VECTOR),
        ((None, "a text"), 0.99, Evidence.NEAR_VECTOR),
        ((None, None), 0.97, Evidence.NONE),
        ((None, None), None, Evidence.NONE),
        (("", ""), 0.5, Evidence.NONE),
        (("", ""), None, Evidence.NONE),
        ((PAGE, PAGE.replace(WORDS[70], "other")), 0.99, Evidence.NEAR_TEXT),
        ((PAGE, PAGE.replace(WORDS[70], "other")), 0.97, Evidence.NONE),
        ((PAGE, PAGE.replace(WORDS[70], "other")), None, Evidence.NONE),
        ((PAGE, PAGE.replace(f"{WORDS[70]} ", "")), 0.97, Evidence.NEAR_TEXT),
        ((PAGE.replace(WORDS[70], "this"), PAGE.replace(WORDS[70], "the")), 0.97, Evidence.NEAR_TEXT),
        ((f"{LONG} from Oslo to Rome today", f"{LONG} from Rome to Oslo today"), 1.0, Evidence.NONE),
        (("the cat sat on the mat", "a dog lay in the garden today"), 0.999, Evidence.NONE),
        (("Rename 3 files of the report", "Rename 4 files of the report"), 1.0, Evidence.NONE),
        (("It is allowed to park here", "It is not allowed to park here"), 1.0, Evidence.NONE),
    ],
)
def test_a_pair_is_a_copy_by_its_texts_or_by_its_vectors_unless_texts_speak_against_it(
    texts: tuple[str | None, str | None], similarity: float | None, wanted: Evidence
) -> None:
    assert verdict(texts, similarity=similarity) is wanted


def test_texts_of_far_vectors_are_read_only_where_they_may_be_nearly_equal() -> None:
    assert verdict((LONG, LONG), similarity=0.97, of_text=False) is Evidence.NONE
    assert verdict((LONG, LONG), similarity=None, of_text=False) is Evidence.NONE
    assert verdict((LONG, LONG), similarity=0.98, of_text=False) is Evidence.SAME_TEXT
    assert verdict((LONG, LONG), similarity=0.97, of_text=True) is Evidence.SAME_TEXT


@pytest.mark.parametrize("dear", ["a" + "\u0301" * 1000, "word " * 30_000])
def test_a_text_that_costs_too_much_to_read_may_say_anything(dear: str) -> None:
    assert verdict((dear, dear), similarity=1.0) is Evidence.NONE
    assert verdict((dear, None), similarity=1.0) is Evidence.NONE


@pytest.mark.parametrize(("magnitude", "wanted"), [(False, Evidence.NEAR_VECTOR), (True, Evidence.NONE)])
def test_length_counts_where_the_metric_says_so(magnitude: bool, wanted: Evidence) -> None:
    assert verdict((None, None), lengths=(1.0, 3.0), magnitude=magnitude) is wanted


def test_what_a_guard_keeps_apart_is_counted() -> None:
    terms = Terms(similarity=0.98, shared=0.92, magnitude=False, guards=GUARDS)
    texts = tuple(
        f"{head} the parcel left our house at noon by train with number {number}"
        for head, number in (("Today", 17), ("Today", 18), ("today", 17))
    )
    vectors = np.ones((3, 4), np.float32)
    found = judged(
        np.array([[0, 1], [0, 2], [1, 2]]), vectors, np.ones(3, np.bool_), texts, terms, np.ones(3, np.bool_)
    )
    assert found.forbidden == 2
    assert found.evidence.tolist() == [Evidence.NONE, Evidence.SAME_TEXT, Evidence.NONE]


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, 0.0])
def test_a_vector_without_a_direction_is_no_copy_of_any(spoilt: float) -> None:
    vectors = np.array([[spoilt, spoilt], [1.0, 0.0]], np.float32)
    terms = Terms(similarity=0.98, shared=0.92, magnitude=False, guards=GUARDS)
    found = judged(np.array([[0, 1]]), vectors, np.ones(2, np.bool_), (None, None), terms, np.ones(1, np.bool_))
    assert found.evidence.tolist() == [Evidence.NONE]
    assert np.isnan(found.similarities[0])


def test_a_copy_of_a_copy_is_no_member_of_the_family() -> None:
    chain = np.array([[0, 1], [1, 2], [2, 3]])
    heads = heads_of(chain, np.ones(3, np.float32), np.array([4.0, 3.0, 2.0, 1.0]))
    assert heads.tolist() == [0, 0, 2, 2]


def test_of_two_leaders_the_more_alike_takes_a_point() -> None:
    pairs = np.array([[0, 2], [1, 2]])
    heads = heads_of(pairs, np.array([0.98, 0.99], np.float32), np.array([1.0, 1.0, 0.0]))
    assert heads.tolist() == [0, 1, 1]


def test_of_equal_ranks_the_one_with_the_most_copies_leads() -> None:
    star = np.array([[0, 2], [1, 2], [2, 3], [1, 2]])
    assert heads_of(star, np.ones(4, np.float32), np.zeros(4)).tolist() == [2, 2, 2, 2]
    assert heads_of(star, np.ones(4, np.float32), np.array([1.0, 0, 0, 0])).tolist() == [0, 1, 0, 3]


@given(data=st.data())
def test_every_member_is_a_copy_of_its_leader_and_no_leader_of_another(data: st.DataObject) -> None:
    """Invariant: families are stars of pairs, the leader has the largest rank, then the most copies; no two leaders are a pair."""
    n = data.draw(st.integers(1, 12))
    every = [(one, other) for one in range(n) for other in range(one + 1, n)]
    chosen = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    pairs = np.array(chosen, np.intp).reshape(-1, 2)
    rank = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), np.float64)
    strength = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(chosen), max_size=len(chosen))), np.float32)
    heads = heads_of(pairs, strength, rank).tolist()
    known = {frozenset(pair) for pair in chosen}
    copied = np.bincount(pairs.ravel(), minlength=n)
    for point, head in enumerate(heads):
        assert heads[head] == head
        if point != head:
            assert frozenset((point, head)) in known
            assert (-rank[head], -copied[head], head) < (-rank[point], -copied[point], point)
    leaders = [point for point, head in enumerate(heads) if point == head]
    assert not [pair for pair in known if pair <= set(leaders)]
