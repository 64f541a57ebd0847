"""What counts as a copy, and who leads a family."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.sweep.judging import (
    Evidence,
    Order,
    are_contained,
    are_equal,
    distances,
    heads_of,
    judged,
    similarities,
)
from vecsieve.proxy.selection.geometry import measure

CLAUSE = "The supplier pays for the loss of data up to EUR 250,000 in each year of the contract. It does not pay for the loss of profit."
LONG = " ".join(
    f"In the {word} the river rises and the road is closed." for word in ("spring", "summer", "autumn", "winter")
)
LONGER = f"{LONG} {CLAUSE} {LONG.replace('river', 'water')}"


def verdict(
    texts: tuple[str | None, str | None],
    vectors: tuple[list[float], list[float]] = ([1.0, 0.0], [1.0, 0.0]),
    *,
    has_vector: bool = True,
    magnitude: bool = False,
    of_text: bool = True,
) -> tuple[Evidence, tuple[bool, bool]]:
    """Why, and whether the first holds the second, and the second the first."""
    judgement = judged(
        np.array([[0, 1]]),
        np.array(vectors, np.float32),
        np.array([has_vector, True]),
        texts,
        np.array([of_text]),
        magnitude=magnitude,
    )
    one, other = judgement.holds[0].tolist()
    return Evidence(int(judgement.evidence[0])), (one, other)


@pytest.mark.parametrize(
    ("texts", "why", "holds"),
    [
        ((CLAUSE, f"  {CLAUSE.replace(' ', '  ')}"), Evidence.EQUAL, (True, True)),
        ((CLAUSE, "The supplier pays nothing."), Evidence.NONE, (False, False)),
        ((LONGER, CLAUSE), Evidence.CONTAINED, (True, False)),
        ((CLAUSE, LONGER), Evidence.CONTAINED, (False, True)),
        ((CLAUSE, CLAUSE.replace("250,000", "2,000,000")), Evidence.NONE, (False, False)),
        ((CLAUSE, CLAUSE.replace("EUR", "USD")), Evidence.NONE, (False, False)),
        ((LONGER, LONGER.replace("250,000", "2,000,000")), Evidence.NONE, (False, False)),
        (
            (f"{LONGER} The end.", LONGER.replace("In the winter the", "In winter the", 1)),
            Evidence.SEARCHED,
            (True, False),
        ),
        (("It runs at 5 mW", "It runs at 5 MW"), Evidence.NONE, (False, False)),
        (("🟢 payment service", "🔴 payment service"), Evidence.NONE, (False, False)),
        (("word " * 30_000, "word " * 30_001), Evidence.NONE, (False, False)),
        ((CLAUSE, None), Evidence.NONE, (False, False)),
        ((None, None), Evidence.EQUAL_VECTOR, (True, True)),
    ],
)
def test_a_text_goes_where_one_other_holds_it_whatever_vectors_say(
    texts: tuple[str | None, str | None], why: Evidence, holds: tuple[bool, bool]
) -> None:
    assert verdict(texts) == (why, holds)


@pytest.mark.parametrize(
    ("vectors", "magnitude", "why"),
    [
        (([1.0, 0.0], [1.0, 1e-4]), False, Evidence.NONE),
        (([1.0, 0.5], [2.0, 1.0]), False, Evidence.EQUAL_VECTOR),
        (([1.0, 0.5], [2.0, 1.0]), True, Evidence.NONE),
        (([48.1, 11.5], [48.1, 11.5]), True, Evidence.EQUAL_VECTOR),
        (([48.1, 11.5], [48.2, 11.5]), True, Evidence.NONE),
    ],
)
def test_without_texts_only_equal_vectors_are_copies(
    vectors: tuple[list[float], list[float]], magnitude: bool, why: Evidence
) -> None:
    assert verdict((None, None), vectors, magnitude=magnitude)[0] is why
    assert verdict((None, None), vectors, magnitude=magnitude, has_vector=False)[0] is Evidence.NONE


def test_texts_that_share_no_fingerprint_are_not_read() -> None:
    assert verdict((CLAUSE, CLAUSE), of_text=False)[0] is Evidence.NONE


def test_what_goes_is_compared_once_more() -> None:
    assert are_contained([CLAUSE, f"{CLAUSE} More.", None, LONGER], LONGER) == [True, False, False, True]
    assert are_contained([None, CLAUSE], None) == [True, False]


def heads(
    coverings: list[tuple[int, int]],
    rank: list[float],
    sizes: list[int] | None = None,
    strength: list[float] | None = None,
) -> list[int]:
    order = Order(sizes=np.array(sizes or [0] * len(rank), np.intp), rank=np.array(rank))
    strong = np.array(strength or [1.0] * len(coverings), np.float32)
    leaders: list[int] = heads_of(np.array(coverings, np.intp).reshape(-1, 2), strong, order).tolist()
    return leaders


def both(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    return [*pairs, *((other, one) for one, other in pairs)]


def test_a_copy_of_a_copy_is_no_member_of_the_family() -> None:
    assert heads(both((0, 1), (1, 2), (2, 3)), [4.0, 3.0, 2.0, 1.0]) == [0, 0, 2, 2]


def test_of_two_leaders_the_stronger_takes_a_point() -> None:
    assert heads(both((0, 2), (1, 2)), [1.0, 1.0, 0.0], strength=[-2.0, -1.0, -2.0, -1.0]) == [0, 1, 1]


def test_of_equal_ranks_the_one_that_holds_the_most_leads() -> None:
    star = both((0, 2), (1, 2), (2, 3))
    assert heads(star, [0.0] * 4) == [2, 2, 2, 2]
    assert heads(star, [1.0, 0, 0, 0]) == [0, 1, 0, 3]


def test_a_longer_text_leads_whatever_the_rank() -> None:
    assert heads([(0, 1), (1, 2), (0, 2)], [9.0, 5.0, 1.0], [1, 2, 3]) == [2, 2, 2]


@given(data=st.data())
def test_every_member_is_held_by_its_leader_which_stays_and_holds_no_leader_that_it_should_follow(
    data: st.DataObject,
) -> None:
    """Invariant: each member has a leader that holds it and stays; a leader that another leader holds is not shorter, nor of lower rank."""
    n = data.draw(st.integers(1, 12))
    every = [(one, other) for one in range(n) for other in range(n) if one != other]
    coverings = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    rank = data.draw(st.lists(st.integers(0, 3).map(float), min_size=n, max_size=n))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    leaders = heads(coverings, rank, sizes)
    for point, head in enumerate(leaders):
        assert leaders[head] == head
        assert point == head or (point, head) in coverings
    for member, holder in coverings:
        if leaders[member] == member and leaders[holder] == holder:
            assert (sizes[member], rank[member]) >= (sizes[holder], rank[holder])


# Pairs compared one by one are as far apart as the whole matrix says.


def all_pairs(count: int) -> np.ndarray:
    return np.stack(np.triu_indices(count, 1), axis=1)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-18, 1.0, 1e18]))
def test_pairs_are_as_far_apart_as_in_the_matrix(seed: int, magnitude: bool, scale: float) -> None:
    """Invariant: the distance of each pair is the matrix's, at every length of the vectors."""
    vectors = (np.random.default_rng(seed).normal(size=(9, 5)) * scale).astype(np.float32)
    rows = all_pairs(9)
    far = distances(similarities(vectors, rows, np.ones(9, np.bool_), magnitude=magnitude))
    expected = measure(vectors, magnitude=magnitude).distance[rows[:, 0], rows[:, 1]]
    assert far == pytest.approx(expected, abs=5e-5)


def test_without_a_vector_or_a_direction_points_are_infinitely_far_apart() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [np.nan, 1.0]], np.float32)
    has_vector = np.array([True, False, True, True])
    apart = similarities(vectors, all_pairs(4), has_vector, magnitude=False)
    assert np.isnan(apart).all()
    assert np.isinf(distances(apart)).all()


@pytest.mark.parametrize(
    ("other", "magnitude", "is_equal"),
    [
        ([3.0, 4.0], True, True),
        ([6.0, 8.0], True, False),
        ([6.0, 8.0], False, True),
        ([3.0, 4.001], False, False),
        ([0.0, 0.0], False, False),
        ([np.nan, 4.0], True, False),
    ],
)
def test_vectors_are_equal_but_for_rounding_and_length_where_it_does_not_matter(
    other: list[float], magnitude: bool, is_equal: bool
) -> None:
    vectors, rows = np.array([[3.0, 4.0], other], np.float32), np.array([[0, 1]])
    assert are_equal(vectors, rows, np.ones(2, np.bool_), magnitude=magnitude).tolist() == [is_equal]
    assert not are_equal(vectors, rows, np.array([True, False]), magnitude=magnitude).any()
