"""What is learned is bounded, expires, and belongs to one collection."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process.clocks import ManualClock
from vecsieve.adapters.chroma.request import ChromaNames
from vecsieve.adapters.contract import Operation, RequestHead, Touched
from vecsieve.proxy.search.collections.learned import (
    FRESH_SECONDS,
    HINT_SECONDS,
    LIMIT_SECONDS,
    LONGEST_NAME,
    REFUSED_SECONDS,
    Description,
    Expiring,
    Learned,
    Names,
    WriteInvalidation,
)
from vecsieve.proxy.telemetry.labels import Named


def on(collection: str, *, name: str = "query") -> Operation:
    return Operation(backend="qdrant", name=name, collection=collection)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def learned(clock: ManualClock) -> Learned:
    return Learned(clock, entries=3)


def test_nothing_is_known_at_first(learned: Learned) -> None:
    assert (learned.cap(on("a")), learned.hint(on("a")), learned.capped_collections) == (None, None, 0)


def test_a_named_limit_is_kept_for_ten_minutes(learned: Learned, clock: ManualClock) -> None:
    learned.refused(on("a"), 100)
    clock.advance(LIMIT_SECONDS - 1)
    assert learned.cap(on("a")) == 100
    clock.advance(1)
    assert learned.cap(on("a")) is None


def test_a_refusal_without_a_limit_stops_widening_for_a_minute(learned: Learned, clock: ManualClock) -> None:
    learned.refused(on("a"), None)
    clock.advance(REFUSED_SECONDS - 1)
    assert learned.cap(on("a")) == 0
    clock.advance(1)
    assert learned.cap(on("a")) is None


def test_a_later_refusal_replaces_an_earlier_one(learned: Learned) -> None:
    learned.refused(on("a"), None)
    learned.refused(on("a"), 50)
    assert (learned.cap(on("a")), learned.capped_collections) == (50, 1)


def test_a_limit_below_zero_is_none_at_all(learned: Learned) -> None:
    learned.refused(on("a"), -1)
    assert learned.cap(on("a")) == 0


def test_knowledge_belongs_to_a_collection_and_to_all_its_operations(learned: Learned) -> None:
    learned.refused(on("a"), 100)
    assert learned.cap(on("a", name="search_batch")) == 100
    assert learned.cap(on("b")) is None


def test_a_hint_is_kept_for_an_hour(learned: Learned, clock: ManualClock) -> None:
    learned.compared(on("a"), "text")
    clock.advance(HINT_SECONDS - 1)
    assert learned.hint(on("a")) == "text"
    clock.advance(1)
    assert learned.hint(on("a")) is None


def test_the_unnamed_vector_is_a_hint_too(learned: Learned) -> None:
    learned.compared(on("a"), "")
    assert learned.hint(on("a")) == ""


def test_forgetting_unlearns_both_kinds_for_one_collection(learned: Learned) -> None:
    for collection in ("a", "b"):
        learned.refused(on(collection), 100)
        learned.compared(on(collection), "text")
    learned.forget("a")
    learned.forget("never seen")
    assert (learned.cap(on("a")), learned.hint(on("a"))) == (None, None)
    assert (learned.cap(on("b")), learned.hint(on("b"))) == (100, "text")


def test_what_may_change_any_collection_unlearns_all(learned: Learned) -> None:
    learned.refused(on("a"), 100)
    learned.compared(on("b"), "text")
    learned.descriptions.put(("c", "question"), Description("schema"), seconds=60)
    learned.forget(None)
    assert (learned.cap(on("a")), learned.hint(on("b")), learned.descriptions.get(("c", "question"))) == (
        None,
        None,
        None,
    )


def test_the_parts_of_a_collection_are_forgotten_with_it(learned: Learned) -> None:
    for collection in ("Articles", "Articles/tenant", "Articles2"):
        learned.compared(on(collection), "text")
    learned.forget("Articles")
    assert [learned.hint(on(name)) for name in ("Articles", "Articles/tenant", "Articles2")] == [None, None, "text"]


def test_a_contradiction_unlearns_what_the_collection_is_like_and_keeps_its_limit(
    learned: Learned, clock: ManualClock
) -> None:
    learned.refused(on("a"), 100)
    learned.compared(on("a"), "text")
    learned.descriptions.put(("a", "question"), Description("schema"), seconds=60)
    clock.advance(FRESH_SECONDS)
    learned.contradicted(on("a"))
    assert (learned.cap(on("a")), learned.hint(on("a")), learned.descriptions.get(("a", "question"))) == (
        100,
        None,
        None,
    )


def test_what_was_just_told_is_not_asked_again_because_of_a_contradiction(learned: Learned, clock: ManualClock) -> None:
    """Else a database that refuses every widened search would be asked a question for each of them."""
    learned.descriptions.put(("a", "question"), Description("schema"), seconds=60)
    clock.advance(FRESH_SECONDS / 2)
    learned.contradicted(on("a"))
    assert learned.descriptions.get(("a", "question")) == Description("schema")


def test_the_least_recently_used_collection_leaves_first(learned: Learned) -> None:
    for collection in ("a", "b", "c"):
        learned.refused(on(collection), 10)
    assert learned.cap(on("a")) == 10
    learned.refused(on("d"), 10)
    assert [learned.cap(on(collection)) for collection in "abcd"] == [10, None, 10, 10]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9), st.integers(0, 5)), max_size=60))
def test_any_history_reads_as_a_plain_dictionary_with_expiry(history: list[tuple[str, int, int]]) -> None:
    """Invariant: never more than the bound, never an expired value, and what is held is what was last put."""
    clock = ManualClock()
    expiring = Expiring[str, int](entries=4, clock=clock)
    last: dict[str, tuple[int, float]] = {}
    for key, value, wait in history:
        clock.advance(wait)
        expiring.put(key, value, seconds=7)
        last[key] = (value, clock.now + 7)
        assert len(expiring) <= 4
        assert expiring.get(key) == value
        for name, (put, expires) in last.items():
            cached = expiring.get(name)
            assert cached is None or (cached == put and clock.now < expires)


DATABASE = "/api/v2/tenants/t/databases/d"
LIST = RequestHead(method="GET", path=f"{DATABASE}/collections")


def identifier(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def searched(number: int) -> Operation:
    return Operation(backend="chroma", name="query", collection=f"t/d/{identifier(number)}", id=identifier(number))


def documents(*named: tuple[int, str]) -> bytes:
    return json.dumps(
        [{"id": identifier(number), "name": name, "tenant": "t", "database": "d"} for number, name in named]
    ).encode()


class Counted:
    def __init__(self, entries: int = 10) -> None:
        self.heard: list[Named] = []
        self.names = Names(ChromaNames(), self.heard.append, entries=entries)

    def hear(self, body: bytes, head: RequestHead = LIST) -> None:
        with self.names.passing(head) as learn:
            assert learn is not None
            learn(body)

    def pass_by(self, method: str, path: str) -> None:
        with self.names.passing(RequestHead(method=method, path=path)) as learn:
            assert learn is None

    def ruled_by(self, number: int) -> str:
        return self.names.known(searched(number))[1]


def test_until_a_name_is_known_what_stands_before_it_rules_and_that_is_counted() -> None:
    counted = Counted()
    assert counted.names.known(searched(1)) == (searched(1), "t/d/")
    assert counted.heard == [Named.UNKNOWN]
    counted.hear(documents((1, "docs")))
    operation, ruled_by = counted.names.known(searched(1))
    assert (operation.collection, operation.id, ruled_by) == ("t/d/docs", identifier(1), "t/d/docs")
    assert counted.heard == [Named.UNKNOWN, Named.KNOWN]


def test_a_backend_whose_paths_say_names_has_nothing_to_learn() -> None:
    heard: list[Named] = []
    names = Names(None, heard.append)
    operation = Operation(backend="qdrant", name="query", collection="docs")
    assert names.known(operation) == (operation, "docs")
    with names.passing(LIST) as learn:
        assert learn is None
    assert not heard


def test_only_answers_that_describe_collections_are_heard() -> None:
    counted = Counted()
    counted.pass_by("POST", f"{DATABASE}/collections/{identifier(1)}/add")
    counted.pass_by("GET", "/api/v2/heartbeat")
    assert counted.heard == []


@pytest.mark.parametrize(
    ("method", "path", "left"),
    [
        ("DELETE", f"{DATABASE}/collections/docs", ["t/d/", "t/d/other"]),
        ("PUT", f"{DATABASE}/collections/{identifier(2)}", ["t/d/docs", "t/d/"]),
        ("DELETE", DATABASE, ["t/d/", "t/d/"]),
        ("DELETE", "/api/v2/tenants/t/databases/elsewhere", ["t/d/docs", "t/d/other"]),
        ("POST", "/api/v2/reset", ["t/d/", "t/d/"]),
        ("POST", f"{DATABASE}/collections/{identifier(1)}/delete", ["t/d/docs", "t/d/other"]),
    ],
)
def test_what_is_renamed_or_removed_is_forgotten_and_nothing_else(method: str, path: str, left: list[str]) -> None:
    counted = Counted()
    counted.hear(documents((1, "docs"), (2, "other")))
    counted.pass_by(method, path)
    assert [counted.ruled_by(number) for number in (1, 2)] == left


def test_a_description_that_overtook_a_renaming_is_forgotten_with_it() -> None:
    counted = Counted()
    with counted.names.passing(RequestHead(method="PUT", path=f"{DATABASE}/collections/{identifier(1)}")):
        counted.hear(documents((1, "old")))
    assert counted.ruled_by(1) == "t/d/"


def test_a_renaming_that_fails_on_the_way_is_forgotten_all_the_same() -> None:
    counted = Counted()
    counted.hear(documents((1, "docs")))
    with (
        pytest.raises(ConnectionError),
        counted.names.passing(RequestHead(method="PUT", path=f"{DATABASE}/collections/{identifier(1)}")),
    ):
        raise ConnectionError
    assert counted.ruled_by(1) == "t/d/"


def test_names_are_bounded_and_the_one_used_longest_ago_leaves() -> None:
    counted = Counted(entries=2)
    counted.hear(documents((1, "a"), (2, "b")))
    assert counted.ruled_by(1) == "t/d/a"
    counted.hear(documents((3, "c")))
    assert [counted.ruled_by(number) for number in (1, 2, 3)] == ["t/d/a", "t/d/", "t/d/c"]


def test_a_new_name_replaces_the_old_one() -> None:
    counted = Counted()
    counted.hear(documents((1, "a")))
    counted.hear(documents((1, "b")))
    assert counted.ruled_by(1) == "t/d/b"


# Requests that change a collection invalidate what is known of it, before they go out and when they are done.

QUERY = Operation(backend="qdrant", name="query", collection="c")


def touched(head: RequestHead) -> Touched | None:
    return Touched(collection="c") if head.path == "/write" else None


def remade(head: RequestHead) -> Touched | None:
    return Touched(collection=None) if head.path == "/anew" else None


def head(path: str) -> RequestHead:
    return RequestHead(method="POST", path=path)


@pytest.fixture
def manual_clock() -> ManualClock:
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


def test_a_change_invalidates_every_cache(memory: Forgetful, manual_clock: ManualClock) -> None:
    learned = Learned(manual_clock)
    learned.compared(QUERY, "text")
    changes = WriteInvalidation(remade, learned, memory)
    with changes.passing(head("/write")):
        pass
    assert learned.hint(QUERY) == "text"
    with changes.passing(head("/anew")):
        pass
    assert learned.hint(QUERY) is None
    assert memory.forgotten == [None, None]
