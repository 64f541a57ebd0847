"""The points of a reply: ids, scores and payload keys, against messages of the official client, and against what no server writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc
from qdrant_client.conversions.conversion import payload_to_grpc

from support.qdrant.grpc_model import TIME, field
from vecsieve.adapters.contract import MalformedReplyError, Needs, Operation, Pool
from vecsieve.adapters.qdrant.grpc import QdrantGrpc

UUID = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"
ADAPTER = QdrantGrpc()
QUERY = Operation(backend="qdrant", name="query", collection="c")
DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
ALL = grpc.WithPayloadSelector(enable=True)


def point(**members: Any) -> Any:
    return grpc.ScoredPoint(**{"id": grpc.PointId(num=7), "score": 0.5, "version": 3, **members})


def listed(*messages: Any) -> bytes:
    inside = [message if isinstance(message, bytes) else message.SerializeToString() for message in messages]
    return b"".join(field(1, each) for each in inside)


def parsed(data: bytes, needs: Needs) -> Pool:
    request = grpc.QueryPoints(query=DENSE, with_payload=ALL).SerializeToString()
    (pool,) = ADAPTER.parse_reply(ADAPTER.parse_request(QUERY, request, needs), data).pools
    return pool


def read(*messages: Any, **needs: Any) -> Pool:
    return parsed(listed(*messages), Needs(**needs))


def test_a_version_is_that_of_a_shard() -> None:
    pool = read(point(shard_key=grpc.ShardKey(keyword="eu")), point(version=0))
    assert pool.versions == (b"3 " + grpc.ShardKey(keyword="eu").SerializeToString(), b"0")


@pytest.mark.parametrize(
    ("identity", "raw"),
    [
        (grpc.PointId(num=0), b"0"),
        (grpc.PointId(num=2**64 - 1), b"18446744073709551615"),
        (grpc.PointId(uuid=UUID), f'"{UUID}"'.encode()),
        (grpc.PointId(uuid='a"b'), b'"a\\"b"'),
        (grpc.PointId(uuid=""), b'""'),
    ],
)
def test_identifiers_are_spelled_as_in_rest(identity: Any, raw: bytes) -> None:
    assert read(point(id=identity)).ids == (raw,)


@pytest.mark.parametrize("identity", [b"", b"\x1a\x01a", b"\x12\x01\xff", b"\x08", b"\x0a\x01a"])
def test_an_identifier_that_cannot_be_told_is_refused(identity: bytes) -> None:
    with pytest.raises(MalformedReplyError, match=r"an id is neither|utf-8|Error parsing"):
        read(field(1, identity))


@pytest.mark.parametrize(
    "inside",
    [
        b"",
        field(1, b"\x08\x01") + b"\x1d123",
        field(1, b"\x08\x01") + b"\x12\x05a",
        field(1, b"\x08\x01") + b"\x28",
        field(1, b"\x08\x01") + b"\x0b",
        b"\x08\x01",
        b"\xff",
        b"\x0b" * 200 + b"\x0c" * 200,
        b"\x0a\xff\xff\xff\xff\x07",
        b"\x28" + b"\xff" * 20,
    ],
)
def test_what_is_no_point_is_refused(inside: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        read(inside)


def test_what_is_set_twice_is_read_as_by_any_reader() -> None:
    pool = read(field(1, b"\x08\x01") + field(1, b"\x08\x02") + b"\x1d\x00\x00\x80\x3f" * 2 + b"\x28\x01\x28\x02")
    assert (pool.ids, pool.scores.tolist(), pool.versions) == ((b"2",), [1.0], (b"2",))


def test_payload_keys_are_read_and_what_is_absent_is_none() -> None:
    payload = payload_to_grpc({"text": "größe", "n": 3, "d": 3.0, "deep": {"a": [1, None]}, "": "", "none": None})
    keys = ("text", "gone", "deep", "d", "", "none", "\ud800")
    pool = read(point(payload=payload), point(), payload_fields=("n",), optional_fields=keys)
    expected = (b"3", '"größe"'.encode(), None, b'{"a":[1,null]}', b"3.0", b'""', b"null", None)
    assert pool.fields == (expected, (None,) * 8)
    assert read(point(payload=payload), point()).fields == ((), ())


def test_of_a_key_that_is_set_twice_the_last_value_counts() -> None:
    entries = [field(2, field(1, b"text") + field(2, field(4, text))) for text in (b"a", b"b")]
    turned = field(2, field(2, field(4, b"c")) + field(1, b"n"))
    pool = read(field(1, b"\x08\x01") + b"".join(entries) + turned, optional_fields=("text", "n"))
    assert pool.fields == ((b'"b"', b'"c"'),)


def test_whole_payloads_keep_the_order_of_their_keys() -> None:
    entries = [field(2, field(1, key) + field(2, field(4, key))) for key in (b"z", b"a", b"m")]
    pool = read(field(1, b"\x08\x01") + b"".join(entries), point(), point(payload={"x": grpc.Value(integer_value=1)}))
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == (b'{"z":"z","a":"a","m":"m"}', b"{}")


@pytest.mark.parametrize("value", [field(99, b""), field(4, b"\xff"), b"\x18\x05\x28\x01"])
def test_a_value_that_cannot_be_spelled_is_absent_where_it_is_optional_and_never_decides_about_tenants(
    value: bytes,
) -> None:
    odd = field(1, b"text") + field(2, value)
    tenant = field(1, b"who") + field(2, b"\x18\x05")
    data = field(1, b"\x08\x01") + field(2, odd) + field(2, tenant)
    assert read(data, payload_fields=("who",), optional_fields=("text", "other")).fields == ((b"5", None, None),)
    with pytest.raises(MalformedReplyError):
        read(data, payload_fields=("text",))


def test_a_key_that_is_no_text_hides_no_other() -> None:
    odd = field(2, field(1, b"\xff") + field(2, field(4, b"x")))
    pool = read(point().SerializeToString() + odd, point(payload=payload_to_grpc({"a": "b"})), optional_fields=("a",))
    assert pool.fields == ((None,), (b'"b"',))
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == ('{"\ufffd":"x"}'.encode(), b'{"a":"b"}')


identities = st.one_of(
    st.builds(grpc.PointId, num=st.integers(0, 2**64 - 1)), st.builds(grpc.PointId, uuid=st.uuids().map(str))
)
written = st.builds(
    grpc.ScoredPoint,
    id=identities,
    payload=st.dictionaries(st.text(max_size=3), st.builds(grpc.Value, string_value=st.text(max_size=300)), max_size=3),
    score=st.floats(width=32),
    version=st.integers(0, 2**64 - 1),
    shard_key=st.none() | st.builds(grpc.ShardKey, keyword=st.text(max_size=3)),
    order_value=st.none() | st.builds(grpc.OrderValue, int=st.integers(0, 9)),
)


@given(points=st.lists(written, max_size=4), at=st.integers(0, 400), cut=st.integers(0, 40), more=st.binary(max_size=6))
def test_a_damaged_list_is_read_or_malformed(points: list[Any], at: int, cut: int, more: bytes) -> None:
    data = listed(*points) + TIME
    needs = Needs(optional_fields=("", "a"))
    assert parsed(data, needs).size == len(points)
    try:
        pool = parsed(data[:at] + more + data[at + cut :], needs)
    except MalformedReplyError:
        return
    assert pool.payloads is not None
    assert len(pool.payloads(range(pool.size))) == pool.size


BARE = field(1, field(1, b"\x08\x01"))
ENTRY = field(2, field(1, b"k") + field(2, b""))


@pytest.mark.parametrize(
    "data", [field(1, b"") * 2**19, BARE * 2**18, field(1, field(1, b"\x08\x01") + ENTRY * 2**18), BARE * 2**16]
)
def test_a_reply_of_very_many_parts_is_refused_before_it_is_parsed(data: bytes) -> None:
    with pytest.raises(MalformedReplyError, match=r"too_many_parts|points"):
        parsed(data + bytes((0x52,)) + b"\x00", Needs())
