from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc
from qdrant_client.conversions.conversion import payload_to_grpc

from support.qdrant_grpc_model import TIME, field
from vecsieve.adapters.contract import Needs
from vecsieve.adapters.qdrant.grpc_reply import Points, fields_of, in_order, read_points, results, walked
from vecsieve.adapters.wire.protobuf import REPLY_FIELDS

UUID = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"


def point(**members: Any) -> Any:
    return grpc.ScoredPoint(**{"id": grpc.PointId(num=7), "score": 0.5, "version": 3, **members})


def read(*messages: Any) -> tuple[bytes, Points]:
    inside = [message if isinstance(message, bytes) else message.SerializeToString() for message in messages]
    data = b"".join(field(1, each) for each in inside)
    return data, read_points(data, (0, len(data)))


def test_points_stand_in_the_order_of_the_reply() -> None:
    data, points = read(point(), point(id=grpc.PointId(num=8)), point(score=-1.0))
    assert points.ids == (b"7", b"8", b"7")
    assert points.scores.tolist() == [0.5, 0.5, -1.0]
    assert b"".join(data[each.place[0] : each.place[2]] for each in points.each) == data


def test_a_score_that_is_left_out_is_zero_and_one_that_is_no_number_stays_so() -> None:
    _, points = read(point(score=0.0), point(score=math.nan))
    assert points.scores[0] == 0.0
    assert math.isnan(points.scores[1])


@pytest.mark.parametrize(
    ("identity", "raw"),
    [
        (grpc.PointId(num=0), b"0"),
        (grpc.PointId(num=2**64 - 1), b"18446744073709551615"),
        (grpc.PointId(uuid=UUID), f'"{UUID}"'.encode()),
        (grpc.PointId(uuid='a"b'), b'"a\\"b"'),
    ],
)
def test_identifiers_are_spelled_as_in_rest(identity: Any, raw: bytes) -> None:
    _, points = read(point(id=identity))
    assert points.ids == (raw,)


@pytest.mark.parametrize("identity", [b"", b"\x08\x01\x08\x02", b"\x1a\x01a", b"\x12\x01\xff", b"\x08"])
def test_an_identifier_that_cannot_be_told_is_refused(identity: bytes) -> None:
    with pytest.raises(ValueError, match=r"id at|one field|utf-8|no end"):
        read(field(1, identity))


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (b"", "has no id"),
        (field(1, b"\x08\x01") + b"\x1d123", "ends at"),
        (field(1, b"\x08\x01") + b"\x12\x05a", "ends at"),
        (field(1, b"\x08\x01") + b"\x28", "no end"),
        (b"\x8a\x00\x02\x08\x01", "of a longer tag"),
        (b"\x08\x01", "field 1 of the point"),
        (field(1, b"\x08\x01") * 2, "field 1 of the point"),
        (field(1, b"\x08\x01") + b"\x1d1234" * 2, "field 3 of the point"),
        (field(1, b"\x08\x01") + b"\x18\x01", "field 3 of the point"),
        (field(1, b"\x08\x01") + field(6, b"") * 2, "field 6 of the point"),
        (field(1, b"\x08\x01") + b"\x10\x01", "field 2 of the point"),
        (b"\xff", "no end"),
    ],
)
def test_what_is_no_point_is_refused(inside: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(inside)


def test_results_that_are_no_messages_are_refused() -> None:
    assert results(b"\x11" + b"12345678", (0, 9)) == []
    with pytest.raises(ValueError, match="results at byte 0"):
        results(b"\x08\x01", (0, 2))


def test_payload_keys_are_read_and_what_is_absent_is_none() -> None:
    payload = payload_to_grpc({"text": "größe", "n": 3, "d": 3.0, "deep": {"a": [1, None]}})
    data, points = read(point(payload=payload), point())
    needs = Needs(payload_fields=("n",), optional_fields=("text", "gone", "deep", "d"))
    assert fields_of(data, points, needs)[0] == (
        (b"3", '"größe"'.encode(), None, b'{"a":[1,null]}', b"3.0"),
        (None,) * 5,
    )
    assert [len(each.entries) for each in points.each] == [4, 0]
    assert fields_of(data, points, Needs()) == (((), ()), False)


def test_a_value_that_cannot_be_spelled_costs_optional_keys_and_never_decides_about_tenants() -> None:
    odd = field(1, b"text") + field(2, field(99, b""))
    tenant = field(1, b"who") + field(2, b"\x18\x05")
    data, points = read(field(1, b"\x08\x01") + field(2, odd) + field(2, tenant))
    needs = Needs(payload_fields=("who",), optional_fields=("text", "other"))
    assert fields_of(data, points, needs)[0] == ((b"5", None, None),)
    with pytest.raises(ValueError, match="one field"):
        fields_of(data, points, Needs(payload_fields=("text",)))


def same(one: Points, other: Points) -> bool:
    alike = [(each.place, each.vectors, list(each.entries)) for each in one.each]
    return (
        alike == [(each.place, each.vectors, list(each.entries)) for each in other.each]
        and (one.ids, one.versions) == (other.ids, other.versions)
        and np.array_equal(one.scores, other.scores, equal_nan=True)
    )


identities = st.one_of(
    st.builds(grpc.PointId, num=st.integers(0, 2**64 - 1)), st.builds(grpc.PointId, uuid=st.uuids().map(str))
)
dense = st.lists(st.floats(width=32), max_size=70).map(
    lambda values: grpc.VectorsOutput(vector=grpc.VectorOutput(dense=grpc.DenseVector(data=values)))
)
written = st.builds(
    grpc.ScoredPoint,
    id=identities,
    payload=st.dictionaries(st.text(max_size=3), st.builds(grpc.Value, string_value=st.text(max_size=300)), max_size=3),
    score=st.floats(width=32),
    version=st.integers(0, 2**64 - 1),
    vectors=st.none() | dense,
    shard_key=st.none() | st.builds(grpc.ShardKey, keyword=st.text(max_size=3)),
    order_value=st.none() | st.builds(grpc.OrderValue, int=st.integers(0, 9)),
).map(lambda message: message.SerializeToString())
parts = st.one_of(
    identities.map(lambda identity: field(1, identity.SerializeToString())),
    st.integers(120, 132).map(lambda size: field(1, field(2, b"a" * size))),
    st.binary(max_size=4).map(lambda value: field(2, value)),
    st.binary(min_size=4, max_size=4).map(lambda value: b"\x1d" + value),
    st.integers(0, 127).map(lambda value: bytes((0x28, value))),
    st.sampled_from(
        [field(6, b""), field(7, b"k"), field(8, b""), b"\x28\x80\x00", b"\x8a\x00\x02\x08\x01", field(9, b"")]
    ),
)
points_of_any_order = st.lists(parts, max_size=6).map(b"".join)
lists = st.lists(st.one_of(written, points_of_any_order).map(lambda inside: field(1, inside)), max_size=4).map(b"".join)


@given(found=st.lists(written, max_size=5), rest=st.sampled_from([TIME, TIME + field(3, b"\x08\x01")]))
def test_what_servers_write_is_read_in_one_pass(found: list[bytes], rest: bytes) -> None:
    """Invariant: a list with its fields in order is never left to the walk, and reads as the walk reads it."""
    data = b"".join(field(1, each) for each in found) + rest
    quick = in_order(data, (0, len(data)))
    assert same(quick, walked(data, (0, len(data))))
    assert b"".join(data[each.place[0] : each.place[2]] for each in quick.each) + rest == data
    assert not any(each.entries for each in in_order(data, (0, len(data)), has_keys=False).each)


@given(data=lists, cut=st.integers(0, 40), more=st.binary(max_size=6), at=st.integers(0, 400))
def test_whatever_is_read_in_one_pass_is_what_the_walk_reads(data: bytes, cut: int, more: bytes, at: int) -> None:
    """Invariant: of valid and damaged lists, the one pass says what the walk says or raises ValueError or IndexError."""
    for given_bytes in (data, data[:at] + more + data[at + cut :]):
        for span in ((0, len(given_bytes)), (0, len(given_bytes) // 2)):
            try:
                quick = in_order(given_bytes, span)
            except (ValueError, IndexError):
                continue
            assert same(quick, walked(given_bytes, span))


class Counted(bytes):
    """Bytes that count how many of them are read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.reads += 1 if isinstance(found, int) else len(found)
        return found


@given(data=st.one_of(lists, st.binary(max_size=300)), times=st.integers(1, 20))
def test_the_one_pass_is_linear(data: bytes, times: int) -> None:
    """Invariant: whatever it is given, each byte is read a few times."""
    read = Counted(data * times)
    with contextlib.suppress(ValueError, IndexError):
        in_order(read, (0, len(read)))
    assert read.reads <= 4 * len(read) + 300


def test_a_list_with_too_many_keys_is_refused_by_both_readers() -> None:
    data = field(1, field(1, b"\x08\x01") + field(2, b"") * (REPLY_FIELDS + 1))
    for reader in (in_order, walked):
        with pytest.raises(ValueError, match=r"message ends at|was read to"):
            reader(data, (0, len(data)))


@pytest.mark.parametrize("between", [field(3, b""), b"\x11" + bytes(8)])
def test_a_list_with_something_between_its_points_is_walked(between: bytes) -> None:
    one = field(1, field(1, b"\x08\x01"))
    data = one + between + one
    with pytest.raises(ValueError, match="stands before a point"):
        in_order(data, (0, len(data)))
    assert not read_points(data, (0, len(data))).is_together
