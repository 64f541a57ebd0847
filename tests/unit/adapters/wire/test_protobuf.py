from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import GRPC
from support.exchanges.hostile_bodies import messages
from support.grpc.wire_fields import number_field
from vecsieve.adapters.contract import Bounds, MalformedReplyError, Needs, Operation, Reason, Reply, UnsupportedError
from vecsieve.adapters.milvus.grpc_schema import COUNTED as MILVUS
from vecsieve.adapters.pinecone.grpc import MESSAGES as PINECONE
from vecsieve.adapters.qdrant.grpc_schema import COUNTED as QDRANT
from vecsieve.adapters.weaviate.grpc_schema import COUNTED as WEAVIATE
from vecsieve.adapters.wire.protobuf import (
    FIXED32,
    FIXED64,
    HEAD_FIELDS,
    LENGTH,
    VARINT,
    Messages,
    TooManyFieldsError,
    check_size,
    encoded,
    fields,
    length_field,
    text_at,
    varint,
)

BOUNDS = Bounds(searches=128, parts=4_096, nesting=4)
KNOWN: Messages = {"outer": {2: "inner"}, "inner": {2: "inner"}}


def small(parts: int) -> Bounds:
    return Bounds(searches=1, parts=parts, nesting=1)


def refusal(data: bytes, bounds: Bounds) -> Reason | None:
    try:
        check_size(data, "outer", KNOWN, bounds)
    except UnsupportedError as refused:
        return refused.reason
    return None


def test_fields_are_counted_in_the_messages_that_are_entered_and_in_no_others() -> None:
    three = number_field(1, 5) * 3
    data = length_field(1, three * 50) + length_field(2, three + length_field(2, three)) + length_field(2, three)
    assert refusal(data, small(13)) is None
    assert refusal(data, small(12)) is Reason.TOO_MANY_PARTS


def test_a_number_where_a_message_belongs_is_not_entered() -> None:
    assert refusal(number_field(2, 1 << 40) * 3, small(3)) is None


def test_what_is_no_message_is_no_search() -> None:
    assert refusal(b"\x0b" * 100, small(3)) is Reason.UNSUPPORTED_FIELD


def test_a_message_too_short_to_hold_too_much_is_not_walked() -> None:
    assert refusal(b"\x0b" * 6, small(3)) is None


def test_a_walk_ends_one_field_behind_its_bound() -> None:
    data = number_field(1, 5) * 4
    assert len(fields(data, most=4)) == 4
    with pytest.raises(TooManyFieldsError, match="more than 3 fields before byte 8 of 8"):
        fields(data, most=3)


def test_of_a_message_with_very_many_fields_no_name_is_read() -> None:
    assert text_at(length_field(1, b"a") + number_field(2, 5) * (HEAD_FIELDS - 1), 1) == "a"
    assert text_at(length_field(1, b"a") + number_field(2, 5) * HEAD_FIELDS, 1) == ""


@pytest.mark.parametrize("known", [QDRANT, MILVUS, PINECONE, WEAVIATE])
def test_every_message_that_is_entered_is_known(known: Messages) -> None:
    assert {name for inside in known.values() for name in inside.values()} <= known.keys()


FIELDS = st.recursive(
    st.just(b""),
    lambda inner: st.lists(st.tuples(st.sampled_from([1, 2]), inner), max_size=5).map(
        lambda made: b"".join(length_field(number, inside) for number, inside in made)
    ),
    max_leaves=30,
)


@given(data=FIELDS, bound=st.integers(0, 40))
def test_what_is_let_through_has_no_more_fields_than_allowed(data: bytes, bound: int) -> None:
    """Of a message the fields are counted that the table leads to, each once."""

    def count(inside: bytes) -> int:
        spans = fields(inside)
        return len(spans) + sum(count(inside[span.value : span.end]) for span in spans if span.number == 2)

    assert (refusal(data, small(bound)) is None) == (count(data) <= bound)


@given(data=st.binary(max_size=300), bound=st.integers(0, 100))
def test_the_count_is_total(data: bytes, bound: int) -> None:
    """Whatever the bytes, they are let through or refused."""
    assert refusal(data, small(bound)) in {None, Reason.TOO_MANY_PARTS, Reason.UNSUPPORTED_FIELD}


@pytest.mark.parametrize(
    ("backend", "name", "known"),
    [
        ("qdrant", "query", {1: length_field(1, b"c"), 2: b"", 3: b"", 10: b"", 11: b""}),
        ("qdrant", "query_batch", {1: length_field(1, b"c"), 2: b""}),
        ("qdrant", "search", {1: length_field(1, b"c"), 2: b"", 4: number_field(4, 10), 6: b"", 11: b""}),
        ("milvus", "search", {3: length_field(3, b"c"), 6: b"", 8: b"", 9: b""}),
        ("milvus", "hybrid_search", {3: length_field(3, b"c"), 5: b"", 6: b""}),
        ("pinecone", "query", {2: number_field(2, 10), 7: b"", 3: b"", 9: b""}),
        ("weaviate", "search", {1: length_field(1, b"c"), 20: b"", 21: b"", 41: b"", 43: b"", 44: b""}),
    ],
)
def test_a_message_of_very_many_small_fields_is_refused_or_let_through_and_never_fails(
    backend: str, name: str, known: dict[int, bytes]
) -> None:
    adapter = GRPC[backend].adapter()
    operation = Operation(backend=backend, name=name, collection="c")
    refused_for = set()
    for what, message in messages(known, most=1 << 15):
        reason: Reason | None = None
        try:
            adapter.check_size(operation, message, BOUNDS)
        except UnsupportedError as refused:
            reason = refused.reason
        assert reason in {None, Reason.TOO_MANY_PARTS, Reason.UNSUPPORTED_FIELD}, what
        refused_for.add(reason)
    assert {None, Reason.TOO_MANY_PARTS} <= refused_for, "as large as the bound matters, and some are let through"


def entries_of(count: int, number: int) -> bytes:
    """So many entries of a map, as field ``number``."""
    return length_field(number, length_field(1, b"k") + length_field(2, b"")) * count


def replied(backend: str, name: str, request: bytes, reply: bytes) -> Reply:
    adapter = GRPC[backend].adapter()
    operation = Operation(backend=backend, name=name, collection="c")
    return adapter.parse_reply(adapter.parse_request(operation, request, NEEDS), reply)


NEEDS = Needs(optional_fields=("text",))
FLOATS = bytes(8)
REQUESTS = {
    "qdrant": ("query", length_field(3, length_field(1, length_field(2, length_field(1, FLOATS))))),
    "pinecone": ("query", number_field(2, 10) + length_field(7, b"\0\0\x80?" * 2)),
    "weaviate": ("search", number_field(30, 10) + length_field(43, length_field(4, FLOATS))),
}


def result(backend: str, count: int) -> bytes:
    """A result with so many keys in its payload."""
    if backend == "qdrant":
        return length_field(1, length_field(1, number_field(1, 7)) + entries_of(count, 2))
    if backend == "pinecone":
        return length_field(2, length_field(1, b"a") + length_field(4, entries_of(count, 1)))
    payload = length_field(11, entries_of(count, 1))
    return length_field(2, length_field(2, length_field(1, b"a")) + length_field(1, payload))


# Entries of 7 bytes. A reply that protobuf's own parser reads is counted from a megabyte on.
MOST_ENTRIES = 2**20 // 7


@pytest.mark.parametrize("backend", REQUESTS)
@pytest.mark.parametrize(("results", "more"), [(1, 1), (2, 100)])
def test_the_payloads_of_a_reply_are_read_up_to_a_bound(backend: str, results: int, more: int) -> None:
    share = MOST_ENTRIES // results - 10
    whole = result(backend, share) * results
    assert replied(backend, *REQUESTS[backend], whole).pools[0].size == results
    with pytest.raises(MalformedReplyError):
        replied(backend, *REQUESTS[backend], whole + result(backend, 10 * results + more))
    with pytest.raises(MalformedReplyError):
        replied(backend, *REQUESTS[backend], result(backend, MOST_ENTRIES + 1))


# Fields are found where they stand; damaged bytes are refused and never misread.

NUMBERS = st.integers(1, 2**29 - 1)
UNSIGNED = st.integers(0, 2**64 - 1)
PIECES = st.one_of(
    st.tuples(NUMBERS, st.just(VARINT), UNSIGNED.map(encoded)),
    st.tuples(NUMBERS, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
    st.tuples(NUMBERS, st.just(LENGTH), st.binary(max_size=300)),
    st.tuples(NUMBERS, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
)


def written(pieces: list[tuple[int, int, bytes]]) -> bytes:
    return b"".join(
        encoded(number << 3 | wire) + (encoded(len(value)) if wire == LENGTH else b"") + value
        for number, wire, value in pieces
    )


@given(st.lists(PIECES, max_size=20))
def test_every_field_that_was_written_is_found(pieces: list[tuple[int, int, bytes]]) -> None:
    """Walking a message gives back its fields, in order, and together they are all of its bytes."""
    data = written(pieces)
    spans = fields(data)
    assert [(span.number, span.wire, data[span.value : span.end]) for span in spans] == pieces
    assert b"".join(data[span.start : span.end] for span in spans) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_refused(data: bytes) -> None:
    """Whatever the bytes, the walk ends with fields that cover them all, or with ValueError."""
    try:
        spans = fields(data)
    except ValueError:
        return
    assert b"".join(data[span.start : span.end] for span in spans) == data


@given(st.lists(PIECES, min_size=1, max_size=5), st.data())
def test_a_message_cut_within_a_field_is_refused(pieces: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    """A message that ends inside one of its fields is ValueError, never a shorter message."""
    whole = written(pieces)
    ends = {0, *(field.end for field in fields(whole))}
    cut = data.draw(st.integers(0, len(whole)).filter(lambda place: place not in ends))
    with pytest.raises(ValueError, match="at byte"):
        fields(whole[:cut])


@given(UNSIGNED)
def test_a_number_survives_its_encoding(value: int) -> None:
    """Reading what was written gives the same number and stands right behind it."""
    assert varint(encoded(value), 0, len(encoded(value))) == (value, len(encoded(value)))


def test_a_field_is_read_inside_its_span_alone() -> None:
    inner = number_field(1, 300)
    outer = length_field(2, inner) + number_field(3, 7)
    (nested, last) = fields(outer)
    assert [field.number for field in fields(outer, nested.span)] == [1]
    assert (last.number, outer[last.value : last.end]) == (3, b"\x07")


def test_a_length_beyond_its_message_is_refused_although_the_data_goes_on() -> None:
    data = length_field(1, b"abcdef") + b"behind"
    with pytest.raises(ValueError, match="its message at 5"):
        fields(data, (0, 5))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0b\x0c", "wire type 3 at byte 0"),
        (b"\x00\x01", "field 0 at byte 0"),
        (b"\x08" + b"\xff" * 10, "no end of the number at byte 1"),
        (b"\xff" * 11, "no end of the number at byte 0"),
    ],
)
def test_what_is_no_message_says_where(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fields(data)


@given(st.binary(max_size=40), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_any_bytes_have_a_text_or_none(data: bytes, way: list[int]) -> None:
    """Nothing is raised, and a text that is found stands in the bytes."""
    assert text_at(data, *way).encode() in data


def test_a_text_is_that_of_the_only_field_in_the_first_messages_on_its_way() -> None:
    inner = length_field(2, b"x") + length_field(1, "ü".encode())
    data = number_field(3, 1) + length_field(4, inner) + length_field(4, length_field(1, b"second"))
    assert text_at(data, 4, 1) == "ü"
    assert text_at(data, 4, 3) == text_at(data, 3) == text_at(data, 7) == text_at(data[:-1], 4, 1) == ""
    assert text_at(length_field(1, b"a") * 2, 1) == text_at(length_field(1, b"\xff"), 1) == ""
