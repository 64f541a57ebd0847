"""Writes that pass are heard before they go out and when they are done; reads are not."""

from __future__ import annotations

import numpy as np
import pytest

from support.clocks import ManualClock
from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.proxy.overhearing import Overhearing
from vecsieve.proxy.vector_memory import QUIET_SECONDS, VectorMemory

ROW = np.ones((1, 2), np.float32)


def touched(head: RequestHead) -> Touched | None:
    return Touched(collection="c") if head.path == "/write" else None


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
    with Overhearing(memory, touched).passing(head("/read")):
        pass
    assert memory.recall("c", b"", (b"1",)) is not None


def test_a_write_is_forgotten_before_it_goes_out(memory: VectorMemory) -> None:
    with Overhearing(memory, touched).passing(head("/write")):
        assert memory.recall("c", b"", (b"1",)) is None


def test_a_long_write_keeps_its_collection_quiet_from_its_end(memory: VectorMemory, clock: ManualClock) -> None:
    def lasts() -> None:
        clock.advance(QUIET_SECONDS * 2)
        memory.remember("c", b"", (b"1",), ROW)
        raise TimeoutError

    with pytest.raises(TimeoutError), Overhearing(memory, touched).passing(head("/write")):
        lasts()
    assert memory.recall("c", b"", (b"1",)) is None
    memory.remember("c", b"", (b"1",), ROW)
    assert memory.recall("c", b"", (b"1",)) is None
    clock.advance(QUIET_SECONDS)
    memory.remember("c", b"", (b"1",), ROW)
    assert memory.recall("c", b"", (b"1",)) is not None


def test_without_a_memory_or_a_way_to_tell_writes_nothing_happens(memory: VectorMemory) -> None:
    for deaf in (Overhearing(None, touched), Overhearing(memory, None)):
        with deaf.passing(head("/write")):
            pass
    assert memory.recall("c", b"", (b"1",)) is not None
