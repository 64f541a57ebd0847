"""The feature memory gives back the rows that it returned when it learnt them, or says what it lacks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.proxy.search.memory.points import COLLECTIONS, QUIET_SECONDS, WINDOW, FeatureMemory, Key, Points
from vecsieve.proxy.search.memory.shelves import POINT_BYTES

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


class Collection:
    """Points with random vectors, searched by cosine."""

    def __init__(
        self,
        count: int = 60,
        *,
        dimension: int = DIMENSION,
        mean: float = 0.0,
        seed: int = 0,
        is_versioned: bool = True,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.vectors = (self.rng.standard_normal((count, dimension)) + mean).astype(np.float32)
        self.versions = [1] * count
        self.dimension = dimension
        self.is_versioned = is_versioned

    def requested(self, which: list[int], query: Matrix | None = None) -> tuple[Points, Matrix]:
        """The reply to a search that found these points."""
        query = self.rng.standard_normal(self.dimension).astype(np.float32) if query is None else query
        rows = self.vectors[which]
        scores = (rows @ query) / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))
        names = [b"%d@%d" % (point_id, self.versions[point_id]) for point_id in which]
        return Points(names, query, scores.astype(np.float64), self.is_versioned), rows

    def key(self) -> Key:
        return Key(b"", "", self.dimension)


def taught(memory: FeatureMemory, made: Collection, which: list[int], *, times: int = 1) -> Matrix:
    for _ in range(times):
        points, rows = made.requested(which)
        recalled = memory.learn("c", made.key(), points, rows).rows
    return recalled


@given(
    which=st.lists(st.integers(0, 59), min_size=1, max_size=50, unique=True),
    dimension=st.sampled_from([2, 64, 65, 96]),
    mean=st.sampled_from([0.0, 10.0, 1000.0]),
)
@settings(deadline=None)
def test_what_was_learnt_is_recalled_as_it_was_returned(which: list[int], dimension: int, mean: float) -> None:
    """Invariant: the rows of a recall are the rows that learning returned, bit for bit, in any order of the points."""
    memory = FeatureMemory(4 << 20, ttl_seconds=TTL_SECONDS, clock=ManualClock())
    made = Collection(dimension=dimension, mean=mean)
    returned = taught(memory, made, which)
    back = which[::-1]
    recalled = memory.recall("c", made.key(), made.requested(back)[0])
    assert recalled is not None
    assert recalled.rows.tobytes() == np.ascontiguousarray(returned[::-1]).tobytes()


@pytest.mark.parametrize("mean", [0.0, 10.0, 1000.0])
def test_rows_are_as_near_to_the_vectors_as_their_differences_need(memory: FeatureMemory, mean: float) -> None:
    made = Collection(mean=mean)
    rows = taught(memory, made, list(range(50))).astype(np.float64)
    vectors = made.vectors[:50].astype(np.float64)
    moved = np.square(rows - vectors).sum(axis=1).max()
    assert moved <= 1e-6 * np.square(vectors - vectors.mean(axis=0)).sum(axis=1).max()


def test_a_pool_with_an_unknown_point_is_unknown(memory: FeatureMemory) -> None:
    made = Collection()
    taught(memory, made, [0, 1, 2])
    assert memory.recall("c", KEY, made.requested([1, 7, 2])[0]) is None
    assert memory.recall("c", KEY, made.requested([1, 2])[0]) is not None


def test_a_new_version_is_a_new_point(memory: FeatureMemory) -> None:
    made = Collection()
    taught(memory, made, [0, 1])
    made.versions[1] = 2
    assert memory.recall("c", KEY, made.requested([0, 1])[0]) is None


@pytest.mark.parametrize(
    "key",
    [KEY._replace(partition=b"ns"), KEY._replace(vector="title")],
    ids=["partition", "vector"],
)
def test_points_of_another_table_are_not_these(memory: FeatureMemory, key: Key) -> None:
    made = Collection()
    taught(memory, made, [0, 1])
    assert memory.recall("c", key, made.requested([0, 1])[0]) is None


def test_a_score_that_does_not_fit_forgets_the_collection_for_a_while(
    memory: FeatureMemory, clock: ManualClock
) -> None:
    made = Collection()
    taught(memory, made, [0, 1, 2])
    made.vectors[1] = made.rng.standard_normal(DIMENSION)  # the same id and version: the collection was recreated
    assert memory.recall("c", KEY, made.requested([0, 1, 2])[0]) is None
    assert memory.score_failures == 1
    taught(memory, made, [0, 1, 2])
    assert memory.points == 0
    clock.advance(QUIET_SECONDS)
    taught(memory, made, [0, 1, 2])
    assert memory.recall("c", KEY, made.requested([0, 1, 2])[0]) is not None


@pytest.mark.parametrize("mean", [100.0, 1000.0])
def test_scores_that_are_all_but_equal_prove_nothing(memory: FeatureMemory, clock: ManualClock, mean: float) -> None:
    made = Collection(mean=mean, is_versioned=False)
    question = made.rng.standard_normal(DIMENSION).astype(np.float32) + np.float32(mean)
    points, rows = made.requested(list(range(50)), question)
    memory.learn("c", KEY, points, rows)
    made.vectors[1] = made.rng.standard_normal(DIMENSION) + mean  # the same id: it was written anew
    assert memory.recall("c", KEY, made.requested(list(range(50)), question)[0]) is None


def test_scores_prove_rows_from_the_first_pool_whose_scores_differ(memory: FeatureMemory) -> None:
    made = Collection(is_versioned=False)
    made.vectors[1:30] = made.vectors[0]
    copies, rows = made.requested(list(range(30)))
    memory.learn("c", KEY, copies, rows)
    assert memory.recall("c", KEY, copies) is None
    memory.learn("c", KEY, *made.requested(list(range(25, 60))))
    assert memory.recall("c", KEY, copies) is not None


def test_a_vector_that_comes_otherwise_than_it_is_known_forgets_the_collection(memory: FeatureMemory) -> None:
    made = Collection()
    taught(memory, made, [0, 1, 2])
    made.vectors[1] *= -1.0
    taught(memory, made, [1, 3])
    assert memory.recall("c", KEY, made.requested([0, 2])[0]) is None


def test_without_a_plain_score_versions_and_the_time_limit_hold(memory: FeatureMemory, clock: ManualClock) -> None:
    made = Collection()
    points, rows = made.requested([0, 1, 2])
    fused = points._replace(scores=np.array([0.5, 0.33, 0.25]))
    memory.learn("c", KEY, fused, rows)
    assert memory.recall("c", KEY, fused) is not None
    clock.advance(TTL_SECONDS + 1)
    assert memory.recall("c", KEY, fused) is None


def test_learning_says_until_when_its_points_can_be_recalled(memory: FeatureMemory, clock: ManualClock) -> None:
    made = Collection()
    points, rows = made.requested([0, 1])
    fused = points._replace(scores=points.scores * 2.0)
    assert memory.learn("c", KEY, points, rows).until == float("inf")
    assert memory.learn("d", KEY, fused, rows).until == clock.now + TTL_SECONDS
    assert memory.learn("d", KEY, fused._replace(is_versioned=False), rows).until is None
    memory.forget("c")
    assert memory.learn("c", KEY, points, rows).until is None


def test_a_point_that_a_pool_has_twice_is_kept_once(memory: FeatureMemory) -> None:
    made = Collection()
    points, rows = made.requested([0, 1, 0, 2])
    memory.learn("c", KEY, points, rows)
    assert memory.points == 3
    once = memory.stored_bytes
    memory.learn("c", KEY, points, rows)
    assert memory.stored_bytes == once
    assert memory.recall("c", KEY, points) is not None
    memory.forget("c")
    memory._sweep(10)
    assert memory.points == memory.stored_bytes == 0


def test_without_versions_and_a_plain_score_nothing_is_recalled(memory: FeatureMemory) -> None:
    made = Collection(is_versioned=False)
    points, rows = made.requested([0, 1, 2])
    fused = points._replace(scores=np.array([0.5, 0.33, 0.25]))
    memory.learn("c", KEY, fused, rows)
    assert memory.recall("c", KEY, fused) is None
    plain = FeatureMemory(4 << 20, ttl_seconds=TTL_SECONDS, clock=ManualClock())
    plain.learn("c", KEY, points, rows)
    assert plain.recall("c", KEY, made.requested([2, 0])[0]) is not None


def test_equal_rows_have_one_identity_and_a_row_that_is_stored_anew_has_another(memory: FeatureMemory) -> None:
    """Pages are kept by it. A point without a version may leave, and come back with another vector."""
    made = Collection(is_versioned=False)

    def identity(which: list[int]) -> bytes:
        recalled = memory.recall("c", KEY, made.requested(which)[0])
        assert recalled is not None
        return recalled.identity

    taught(memory, made, [0, 1, 2])
    before = identity([0, 1, 2])
    assert identity([0, 1, 2]) == before != identity([1, 0, 2])
    for shelf in memory._shelves.values():
        while shelf.evict():
            pass
    made.vectors[1] = made.rng.standard_normal(DIMENSION)
    taught(memory, made, [0, 1, 2])
    assert identity([0, 1, 2]) != before


def test_a_point_without_a_usable_vector_is_never_known(memory: FeatureMemory) -> None:
    made = Collection()
    points, rows = made.requested([0, 1, 2, 3])
    rows = rows.copy()
    rows[1], rows[2] = np.nan, 0.0
    learned = memory.learn("c", KEY, points, rows)
    assert np.isnan(learned.rows[1]).all()
    assert not learned.rows[2].any()
    assert learned.until is None
    assert memory.recall("c", KEY, points) is None


def test_a_collection_is_promising_when_most_of_its_last_pools_were_known(memory: FeatureMemory) -> None:
    made = Collection()
    assert not memory.is_promising("c")
    taught(memory, made, list(range(10)), times=WINDOW + 1)
    assert memory.is_promising("c")
    for _ in range(3):
        memory.recall("c", KEY, made.requested([40, 41])[0])
    assert not memory.is_promising("c")


def test_points_that_are_too_old_count_as_unknown(memory: FeatureMemory, clock: ManualClock) -> None:
    """Otherwise each search of a collection would be sent twice once its points are too old."""
    made = Collection()
    points, rows = made.requested([0, 1, 2])
    fused = points._replace(scores=np.array([0.5, 0.33, 0.25]))
    for _ in range(WINDOW + 1):
        memory.learn("c", KEY, fused, rows)
    clock.advance(TTL_SECONDS + 1)
    for _ in range(3):
        assert memory.recall("c", KEY, fused) is None
    assert not memory.is_promising("c")
    memory.learn("c", KEY, fused, rows)
    assert memory._collections["c"].known[-1] is False, "they were brought, and could not have been recalled"
    memory.learn("c", KEY, fused, rows)
    assert memory._collections["c"].known[-1] is True


@pytest.mark.parametrize("collection", ["c", None])
def test_what_is_forgotten_is_not_recalled_and_its_room_is_free_again(
    memory: FeatureMemory, collection: str | None
) -> None:
    made = Collection()
    taught(memory, made, list(range(50)))
    memory.forget(collection)
    assert memory.recall("c", KEY, made.requested([0])[0]) is None
    memory.learn("d", KEY, *made.requested([0]))
    assert memory.points == (0 if collection is None else 1), (
        "after a change to any collection none is stored for a while"
    )


def test_a_part_of_a_collection_is_forgotten_with_it(memory: FeatureMemory) -> None:
    made = Collection()
    for name in ("c/tenant", "cd"):
        points, rows = made.requested([0])
        memory.learn(name, KEY, points, rows)
    memory.forget("c")
    assert memory.recall("c/tenant", KEY, made.requested([0])[0]) is None
    assert memory.recall("cd", KEY, made.requested([0])[0]) is not None


def test_memory_stays_below_its_bound_and_the_longest_unused_goes_first(clock: ManualClock) -> None:
    limit = 40 * (2 * DIMENSION + POINT_BYTES + len(b"100@1"))
    memory = FeatureMemory(limit, ttl_seconds=TTL_SECONDS, clock=clock)
    made = Collection(400)
    for start in range(0, 400, 10):
        taught(memory, made, list(range(start, start + 10)))
        assert memory.stored_bytes <= limit
        assert memory.points <= 60
    assert memory.evicted > 300
    assert memory.recall("c", KEY, made.requested([399, 398])[0]) is not None
    assert memory.recall("c", KEY, made.requested([0, 1])[0]) is None


def test_a_pool_larger_than_the_memory_leaves_every_name_with_its_own_row(clock: ManualClock) -> None:
    """The last points of a pool may take the room of its first ones."""
    memory = FeatureMemory(30 * (2 * DIMENSION + POINT_BYTES + 400), ttl_seconds=TTL_SECONDS, clock=clock)
    made = Collection(400)
    for start in range(0, 300, 25):
        returned = taught(memory, made, list(range(start, start + 100)))
        for place, number in enumerate(range(start, start + 100)):
            recalled = memory.recall("c", KEY, made.requested([number])[0])
            if recalled is not None:
                assert recalled.rows.tobytes() == returned[place].tobytes()
        assert memory.score_failures == 0


def test_points_of_one_dimension_do_not_keep_those_of_another_out(clock: ManualClock) -> None:
    memory = FeatureMemory(60 * (2 * DIMENSION + POINT_BYTES + 400), ttl_seconds=TTL_SECONDS, clock=clock)
    many, few = Collection(400), Collection(10, dimension=DIMENSION + 1)
    for start in range(0, 400, 10):
        taught(memory, many, list(range(start, start + 10)))
    taught(memory, few, list(range(10)))
    assert memory.recall("c", few.key(), few.requested(list(range(10)))[0]) is not None


def test_a_bound_below_one_point_remembers_nothing(clock: ManualClock) -> None:
    memory = FeatureMemory(10, ttl_seconds=TTL_SECONDS, clock=clock)
    made = Collection()
    assert taught(memory, made, [0, 1]).tobytes() == made.vectors[:2].tobytes()
    assert memory.points == 0


def test_only_so_many_collections_are_known(memory: FeatureMemory) -> None:
    made = Collection()
    for number in range(COLLECTIONS + 1):
        points, rows = made.requested([0])
        memory.learn(f"c{number}", KEY, points, rows)
    assert memory.recall("c0", KEY, made.requested([0])[0]) is None
    assert memory.recall(f"c{COLLECTIONS}", KEY, made.requested([0])[0]) is not None


# Which scores prove the rows that memory has, where vectors were written anew under the same ids and no versions tell.


def steps(count: int, rng: np.random.Generator) -> Matrix:
    """Vectors of zeros and ones: their inner products are few different numbers."""
    return (rng.random((count, DIMENSION)) < 0.1).astype(np.float32)


def reply_by_products(rows: Matrix, query: Matrix) -> Points:
    return Points(
        [b"%d" % row for row in range(len(rows))], query, (rows @ query).astype(np.float64), is_versioned=False
    )


def test_scores_that_come_in_steps_prove_nothing(memory: FeatureMemory, clock: ManualClock) -> None:
    """Without versions, a point that was written anew often has the score that it had."""
    rng = np.random.default_rng(0)
    rows, query = steps(40, rng), steps(1, rng)[0]
    reply = reply_by_products(rows, query)
    assert memory.learn("c", KEY, reply, rows).until is None
    assert memory.recall("c", KEY, reply) is None
    for _ in range(WINDOW):
        memory.learn("c", KEY, reply, rows)
    assert not memory.is_promising("c"), "a search without vectors would be sent twice each time"
    versioned = reply._replace(is_versioned=True)
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

    def reply(which: list[int]) -> Points:
        apart = np.linalg.norm(rows[which].astype(np.float64) - query, axis=1)
        return Points([b"%d" % number for number in which], query, apart, is_versioned=False)

    near, mixed = list(range(50)), [*range(20), 59]
    memory.learn("c", KEY, reply(near), rows[near])
    memory.learn("c", KEY, reply(mixed), rows[mixed])
    rows[place] = np.random.default_rng(place).standard_normal(DIMENSION)
    assert memory.recall("c", KEY, reply(mixed)) is None
