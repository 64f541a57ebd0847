"""Which scores prove the rows that memory has, where vectors were written anew under the same ids and no versions tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from support.process.clocks import ManualClock
from vecsieve.proxy.search.memory.points import WINDOW, FeatureMemory, Key, Points

DIMENSION = 96
KEY = Key(b"", "", DIMENSION)
TTL_SECONDS = 600.0
Matrix = npt.NDArray[np.float32]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> FeatureMemory:
    return FeatureMemory(4 << 20, ttl_seconds=TTL_SECONDS, clock=clock)


def steps(count: int, rng: np.random.Generator) -> Matrix:
    """Vectors of zeros and ones: their inner products are few different numbers."""
    return (rng.random((count, DIMENSION)) < 0.1).astype(np.float32)


def asked_by_products(rows: Matrix, query: Matrix) -> Points:
    return Points(
        [b"%d" % row for row in range(len(rows))], query, (rows @ query).astype(np.float64), is_versioned=False
    )


def test_scores_that_come_in_steps_prove_nothing(memory: FeatureMemory, clock: ManualClock) -> None:
    """Without versions, a point that was written anew often has the score that it had."""
    rng = np.random.default_rng(0)
    rows, query = steps(40, rng), steps(1, rng)[0]
    asked = asked_by_products(rows, query)
    assert memory.learn("c", KEY, asked, rows).until is None
    assert memory.recall("c", KEY, asked) is None
    for _ in range(WINDOW):
        memory.learn("c", KEY, asked, rows)
    assert not memory.is_promising("c"), "a search without vectors would be sent twice each time"
    versioned = asked._replace(is_versioned=True)
    memory.learn("v", KEY, versioned, rows)
    assert memory.recall("v", KEY, versioned) is not None
    clock.advance(TTL_SECONDS + 1)
    assert memory.recall("v", KEY, versioned) is None


@pytest.mark.parametrize("far", [30.0, 1000.0])
@pytest.mark.parametrize("place", range(20))
def test_a_far_candidate_does_not_hide_a_vector_that_changed(memory: FeatureMemory, place: int, far: float) -> None:
    """What is tolerated of a distance is relative to the largest one of the pool."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((60, DIMENSION)).astype(np.float32)
    rows[-1] += np.float32(far)
    query = rng.standard_normal(DIMENSION).astype(np.float32)

    def asked(which: list[int]) -> Points:
        apart = np.linalg.norm(rows[which].astype(np.float64) - query, axis=1)
        return Points([b"%d" % each for each in which], query, apart, is_versioned=False)

    near, mixed = list(range(50)), [*range(20), 59]
    memory.learn("c", KEY, asked(near), rows[near])
    memory.learn("c", KEY, asked(mixed), rows[mixed])
    rows[place] = np.random.default_rng(place).standard_normal(DIMENSION)
    assert memory.recall("c", KEY, asked(mixed)) is None
