"""Requests that change a collection invalidate what is known of it, before they go out and when they are done."""

from __future__ import annotations

import pytest

from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Operation, RequestHead, Touched
from vecsieve.proxy.search.collections.learned import LONGEST_NAME, Learned, WriteInvalidation

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


class Forgetful:
    """Records what it is told to forget."""

    def __init__(self) -> None:
        self.forgotten: list[str | None] = []

    def forget(self, collection: str | None) -> None:
        self.forgotten.append(collection)


@pytest.fixture
def memory() -> Forgetful:
    return Forgetful()


def test_a_read_forgets_nothing(memory: Forgetful) -> None:
    with WriteInvalidation(touched, memory).passing(head("/read")):
        pass
    assert memory.forgotten == []


def test_a_write_is_forgotten_before_it_goes_out_and_when_it_ends(memory: Forgetful) -> None:
    with WriteInvalidation(touched, memory).passing(head("/write")):
        assert memory.forgotten == ["c"]
    assert memory.forgotten == ["c", "c"]


def test_a_collection_that_cannot_exist_is_not_remembered_as_forgotten(memory: Forgetful) -> None:
    """What forgets a collection remembers when: over gRPC a name may have megabytes."""

    def named(head: RequestHead) -> Touched:
        return Touched(collection=head.path)

    changes = WriteInvalidation(named, memory)
    with changes.passing(head("x" * (LONGEST_NAME + 1))):
        pass
    assert memory.forgotten == []
    with changes.passing(head("x" * LONGEST_NAME)):
        assert len(memory.forgotten) == 1


def test_a_write_that_fails_is_forgotten_too(memory: Forgetful) -> None:
    def fails() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError), WriteInvalidation(touched, memory).passing(head("/write")):
        fails()
    assert memory.forgotten == ["c", "c"]


def test_without_a_way_to_tell_nothing_happens(memory: Forgetful) -> None:
    with WriteInvalidation(None).passing(head("/write")):
        pass
    assert memory.forgotten == []


def test_a_change_invalidates_every_cache(memory: Forgetful, clock: ManualClock) -> None:
    learned = Learned(clock)
    learned.compared(QUERY, "text")
    changes = WriteInvalidation(remade, learned, memory)
    with changes.passing(head("/write")):
        pass
    assert learned.hint(QUERY) == "text"
    with changes.passing(head("/anew")):
        pass
    assert learned.hint(QUERY) is None
    assert memory.forgotten == [None, None]
