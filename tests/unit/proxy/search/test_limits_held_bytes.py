from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.limits import (
    CANDIDATE_BYTES,
    LEARNED_SECONDS,
    PAYLOAD_BYTES,
    TEXT_NUMBER_BYTES,
    BytesInFlight,
    Hold,
)

ONE, OTHER = (Operation(backend="toy", name="query", collection=name) for name in ("one", "other"))


def held_bytes(limit: int, clock: ManualClock | None = None) -> BytesInFlight:
    return BytesInFlight(limit, reply_bytes=1 << 24, clock=ManualClock() if clock is None else clock)


def taken(held: BytesInFlight, operation: Operation, *sizes: int | None) -> Hold:
    hold = held.hold(sizes, held.candidate_bytes(operation, vector_bytes=None))
    assert hold is not None
    return hold


def test_of_an_unknown_collection_a_reply_is_expected_to_hold_the_text_of_large_vectors() -> None:
    held = held_bytes(1 << 30)
    taken(held, ONE, 24, None, 6)
    assert held.total == 30 * CANDIDATE_BYTES


def test_what_a_collections_last_reply_came_to_is_expected_of_the_next_until_it_is_forgotten() -> None:
    clock = ManualClock()
    held = held_bytes(1 << 30, clock)
    held.learn(ONE, (10, None, 10), 2001)
    hold = taken(held, ONE, 5)
    assert held.total == 5 * 101
    hold.release()
    taken(held, OTHER, 1).release()
    clock.advance(LEARNED_SECONDS)
    taken(held, ONE, 1)
    assert held.total == CANDIDATE_BYTES


def test_of_an_unknown_collection_the_searched_vector_tells_how_large_a_candidate_is() -> None:
    held = held_bytes(1 << 30)
    assert held.candidate_bytes(ONE, vector_bytes=768 * TEXT_NUMBER_BYTES) == 768 * TEXT_NUMBER_BYTES + PAYLOAD_BYTES
    held.learn(ONE, (10,), 1000)
    assert held.candidate_bytes(ONE, vector_bytes=768 * TEXT_NUMBER_BYTES) == 100


def test_a_reply_without_candidates_or_bytes_teaches_nothing() -> None:
    held = held_bytes(1 << 30)
    held.learn(ONE, (None,), 100)
    held.learn(ONE, (10,), 0)
    taken(held, ONE, 1)
    assert held.total == CANDIDATE_BYTES


def test_where_there_is_no_room_nothing_is_held() -> None:
    held = held_bytes(3 * CANDIDATE_BYTES)
    hold = taken(held, ONE, 2)
    assert held.hold((2,), CANDIDATE_BYTES) is None
    assert held.total == 2 * CANDIDATE_BYTES
    hold.release()
    assert taken(held, ONE, 2) is not None


def test_one_search_alone_is_never_without_room() -> None:
    held = held_bytes(10)
    hold = taken(held, ONE, 24)
    assert hold.arriving()(1 << 24)
    hold.came(1 << 24)
    assert held.total == 1 << 24
    assert held.hold((1,), CANDIDATE_BYTES) is None
    hold.release()
    assert held.total == 0


def test_a_reply_that_arrives_larger_than_expected_must_still_fit() -> None:
    held = held_bytes(4 * CANDIDATE_BYTES)
    beside, hold = taken(held, ONE, 2), taken(held, ONE, 1)
    fits = hold.arriving()
    assert fits(2 * CANDIDATE_BYTES)
    assert not fits(2 * CANDIDATE_BYTES + 1)
    beside.release()
    assert fits(2 * CANDIDATE_BYTES + 1)


def test_a_second_reply_is_held_beside_the_first_until_the_search_ends() -> None:
    held = held_bytes(1 << 30)
    hold = taken(held, ONE, 1)
    hold.came(100)
    assert held.total == 100
    assert hold.arriving()(50)
    hold.came(50)
    assert held.total == 150
    hold.release()
    hold.release()
    assert held.total == 0


def test_replies_that_arrive_at_once_are_held_beside_each_other() -> None:
    held = held_bytes(4 * CANDIDATE_BYTES)
    beside, hold = taken(held, ONE, 1), taken(held, ONE, 1)
    one, other = hold.arriving(), hold.arriving()
    assert one(CANDIDATE_BYTES)
    assert one(2 * CANDIDATE_BYTES)
    assert other(CANDIDATE_BYTES)
    assert held.total == 4 * CANDIDATE_BYTES
    assert not other(CANDIDATE_BYTES + 1)
    hold.came(2 * CANDIDATE_BYTES)
    hold.came(CANDIDATE_BYTES)
    assert held.total == 4 * CANDIDATE_BYTES, "none is counted twice"
    hold.release()
    beside.release()
    assert held.total == 0


STEPS = st.tuples(st.sampled_from(["hold", "arrive", "release"]), st.integers(0, 7), st.integers(0, 5000))


@pytest.mark.parametrize("limit", [1, 4000, 20_000])
@given(steps=st.lists(STEPS, max_size=40))
def test_never_more_than_the_limit_and_one_reply(limit: int, steps: list[tuple[str, int, int]]) -> None:
    """Held is at most the limit, or what one search alone holds; when all have ended it is 0."""
    held, holds, alone = held_bytes(limit), dict[int, Hold](), 0
    held.learn(ONE, (1,), 100)
    for step, who, size in steps:
        match step:
            case "hold" if who not in holds and (hold := held.hold((1 + size // 100,), 100)) is not None:
                holds[who] = hold
                alone = max(alone, held.total if len(holds) == 1 else 0)
            case "arrive" if who in holds and holds[who].arriving()(size):
                holds[who].came(size)
                alone = max(alone, held.total if len(holds) == 1 else 0)
            case "release" if who in holds:
                holds.pop(who).release()
        assert 0 <= held.total <= max(limit, alone)
    for hold in holds.values():
        hold.release()
    assert held.total == 0
