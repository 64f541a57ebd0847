"""Vectors of earlier replies: bounded, short-lived, forgotten with a write, and used only where nearly all are known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clocks import ManualClock
from vecsieve.proxy.search.lookups import ENTRY_SECONDS, PROMISING, QUIET_SECONDS, WINDOW, VectorMemory

IDS = (b'"a"', b'"b"')
ROWS: npt.NDArray[np.float32] = np.array([[1, 0], [0, 1]], np.float32)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def memory(clock: ManualClock) -> VectorMemory:
    return VectorMemory(100_000, clock=clock)


def known(memory: VectorMemory, collection: str = "c", partition: bytes = b"") -> bool:
    return memory.recall(collection, partition, IDS) is not None


def test_what_was_seen_is_recalled_in_the_order_asked_for(memory: VectorMemory) -> None:
    memory.remember("c", b"", IDS, ROWS)
    found = memory.recall("c", b"", (b'"b"', b'"a"'))
    assert found is not None
    assert found.dtype == np.float32
    assert found.tolist() == [[0, 1], [1, 0]]


def test_one_unknown_record_is_no_pool(memory: VectorMemory) -> None:
    memory.remember("c", b"", IDS, ROWS)
    assert memory.recall("c", b"", (*IDS, b'"z"')) is None


def test_no_record_is_no_pool(memory: VectorMemory) -> None:
    assert memory.recall("c", b"", ()) is None


def test_an_id_belongs_to_its_collection_and_partition(memory: VectorMemory) -> None:
    memory.remember("c", b'"x"', IDS, ROWS)
    assert [known(memory, *where) for where in (("c", b'"x"'), ("c", b'"y"'), ("d", b'"x"'))] == [True, False, False]


def test_the_replys_matrix_is_not_kept_alive_nor_shared(memory: VectorMemory) -> None:
    rows = ROWS.copy()
    memory.remember("c", b"", IDS, rows)
    rows[:] = 7
    found = memory.recall("c", b"", IDS)
    assert found is not None
    assert found.tolist() == ROWS.tolist()


def test_a_row_without_a_vector_is_not_remembered(memory: VectorMemory) -> None:
    memory.remember("c", b"", IDS, np.array([[1, 0], [np.nan, np.nan]], np.float32))
    assert memory.recall("c", b"", IDS[:1]) is not None
    assert memory.recall("c", b"", IDS[1:]) is None


def test_vectors_of_two_lengths_are_no_matrix(memory: VectorMemory) -> None:
    memory.remember("c", b"", IDS[:1], ROWS[:1])
    memory.remember("c", b"", IDS[1:], np.ones((1, 3), np.float32))
    assert not known(memory)


def test_an_entry_lives_ten_minutes_from_when_it_was_last_fetched(memory: VectorMemory, clock: ManualClock) -> None:
    memory.remember("c", b"", IDS, ROWS)
    clock.advance(ENTRY_SECONDS - 1)
    assert known(memory)
    clock.advance(1)
    assert not known(memory), "being recalled does not make it younger"
    memory.remember("c", b"", IDS, ROWS)
    assert known(memory)


def test_it_is_promising_once_seven_of_eight_pools_were_known_whole(memory: VectorMemory) -> None:
    assert not memory.is_promising("c")
    memory.remember("c", b"", IDS, ROWS)
    for _ in range(PROMISING - 1):
        memory.remember("c", b"", IDS, ROWS)
        assert not memory.is_promising("c")
    memory.remember("c", b"", IDS, ROWS)
    assert memory.is_promising("c")
    assert not memory.is_promising("d")


def test_two_misses_among_eight_pools_end_the_promise(memory: VectorMemory) -> None:
    for _ in range(WINDOW + 1):
        memory.remember("c", b"", IDS, ROWS)
    memory.recall("c", b"", (b'"z"',))
    assert memory.is_promising("c")
    memory.recall("c", b"", (b'"z"',))
    assert not memory.is_promising("c")
    for _ in range(PROMISING):
        memory.remember("c", b"", IDS, ROWS)
    assert memory.is_promising("c")


@pytest.mark.parametrize("collection", ["c", None])
def test_a_write_clears_its_collection_and_keeps_it_quiet(
    memory: VectorMemory, clock: ManualClock, collection: str | None
) -> None:
    for _ in range(WINDOW + 1):
        memory.remember("c", b"", IDS, ROWS)
        memory.remember("d", b"", IDS, ROWS)
    memory.forget(collection)
    assert (known(memory, "c"), memory.is_promising("c")) == (False, False)
    assert known(memory, "d") == memory.is_promising("d") == (collection is not None)
    memory.remember("c", b"", IDS, ROWS)
    clock.advance(QUIET_SECONDS - 1)
    assert not known(memory, "c"), "a reply that was under way may show what was before the write"
    clock.advance(1)
    assert not known(memory, "c")
    memory.remember("c", b"", IDS, ROWS)
    assert known(memory, "c")


def test_a_vector_that_differs_from_the_remembered_one_clears_the_collection(
    memory: VectorMemory, clock: ManualClock
) -> None:
    memory.remember("c", b"", IDS, ROWS)
    memory.remember("c", b"", (b'"b"', b'"n"'), np.array([[0.5, 0.5], [1, 1]], np.float32))
    clock.advance(QUIET_SECONDS)
    assert not known(memory)
    assert memory.recall("c", b"", (b'"n"',)) is None


def test_the_vector_used_longest_ago_makes_room(clock: ManualClock) -> None:
    memory = VectorMemory(1500, clock=clock)  # four short vectors, with what an entry takes beside them
    for name in (b"1", b"2", b"3", b"4"):
        memory.remember("c", b"", (name,), ROWS[:1])
    assert memory.recall("c", b"", (b"1",)) is not None
    memory.remember("c", b"", (b"5",), ROWS[:1])
    found = [memory.recall("c", b"", (name,)) is not None for name in (b"1", b"2", b"3", b"4", b"5")]
    assert found == [True, False, True, True, True]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["remember", "forget", "recall", "wait"]),
        st.sampled_from(["c", "d"]),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_what_is_recalled_was_the_last_vector_seen_since_the_last_write(steps: list[tuple[str, str, int, int]]) -> None:
    """Invariant: never a vector from before a write, never one older than its time, never another record's."""
    clock = ManualClock()
    memory = VectorMemory(10_000, clock=clock)
    last: dict[tuple[str, int], tuple[float, float]] = {}
    written = {"c": float("-inf"), "d": float("-inf")}
    for action, collection, record, number in steps:
        name = b"%d" % record
        if action == "remember":
            memory.remember(collection, b"", (name,), np.array([[number, record]], np.float32))
            last[collection, record] = (float(number), clock.now)
        elif action == "forget":
            memory.forget(collection)
            written[collection] = clock.now
        elif action == "wait":
            clock.advance(45.0 * (number + 1) * (record + 1))
        else:
            found = memory.recall(collection, b"", (name,))
            if found is not None:
                value, at = last[collection, record]
                assert found.tolist() == [[value, record]]
                assert at >= written[collection] + QUIET_SECONDS
                assert clock.now < at + ENTRY_SECONDS
