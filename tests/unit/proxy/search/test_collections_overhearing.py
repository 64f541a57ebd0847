"""Writes that pass are heard before they go out and when they are done; reads are not."""

from __future__ import annotations

import numpy as np
import pytest

from support.clocks import ManualClock
from vecsieve.adapters.contract import Operation, RequestHead, Touched
from vecsieve.proxy.search.collections import Invalidation, Learned, WriteInvalidation
from vecsieve.proxy.search.lookups import QUIET_SECONDS, VectorMemory

ROW = np.ones((1, 2), np.float32)
QUERY = Operation(backend="qdrant", name="query", collection="c")


def touched(head: RequestHead) -> Touched | None:
    return Touched(collection="c") if head.path == "/write" else None


def remade(head: RequestHead) -> Touched | None:
    return Touched(collection=None) if head.path == "/anew" else None


def head(path: str) -> RequestHead:
    return RequestHead(method="POST", path=path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> VectorMemory:
    made = VectorMemory(10_000, clock=clock)
    made.remember("c", b"", (b"1",), ROW)
    return made


def test_a_read_forgets_nothing(memory: VectorMemory) -> None:
    with WriteInvalidation(Invalidation(touched, (memory,))).passing(head("/read")):
        pass
    assert memory.recall("c", b"", (b"1",)) is not None


def test_a_write_is_forgotten_before_it_goes_out(memory: VectorMemory) -> None:
    with WriteInvalidation(Invalidation(touched, (memory,))).passing(head("/write")):
        assert memory.recall("c", b"", (b"1",)) is None


def test_a_long_write_keeps_its_collection_quiet_from_its_end(memory: VectorMemory, clock: ManualClock) -> None:
    def lasts() -> None:
        clock.advance(QUIET_SECONDS * 2)
        memory.remember("c", b"", (b"1",), ROW)
        raise TimeoutError

    with pytest.raises(TimeoutError), WriteInvalidation(Invalidation(touched, (memory,))).passing(head("/write")):
        lasts()
    assert memory.recall("c", b"", (b"1",)) is None
    memory.remember("c", b"", (b"1",), ROW)
    assert memory.recall("c", b"", (b"1",)) is None
    clock.advance(QUIET_SECONDS)
    memory.remember("c", b"", (b"1",), ROW)
    assert memory.recall("c", b"", (b"1",)) is not None


def test_without_a_way_to_tell_nothing_happens(memory: VectorMemory) -> None:
    with WriteInvalidation().passing(head("/write")):
        pass
    assert memory.recall("c", b"", (b"1",)) is not None


def test_each_kind_of_change_is_heard_by_those_whom_it_concerns(memory: VectorMemory, clock: ManualClock) -> None:
    learned = Learned(clock)
    learned.compared(QUERY, "text")
    both = WriteInvalidation(Invalidation(touched, (memory,)), Invalidation(remade, (learned, memory)))
    with both.passing(head("/write")):
        pass
    assert learned.hint(QUERY) == "text"
    with both.passing(head("/anew")):
        pass
    assert learned.hint(QUERY) is None
