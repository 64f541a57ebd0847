from __future__ import annotations

import math
from typing import Any

import pytest
from qdrant_client import grpc
from qdrant_client.conversions.conversion import payload_to_grpc

from support.qdrant_grpc_model import field
from vecsieve.adapters.contract import Needs
from vecsieve.adapters.qdrant.grpc_reply import Point, fields_of, id_of, read_points, results, score_of

UUID = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"


def point(**members: Any) -> Any:
    return grpc.ScoredPoint(**{"id": grpc.PointId(num=7), "score": 0.5, "version": 3, **members})


def read(*messages: Any) -> tuple[bytes, tuple[Point, ...]]:
    inside = [message if isinstance(message, bytes) else message.SerializeToString() for message in messages]
    data = b"".join(field(1, each) for each in inside)
    return data, read_points(data, (0, len(data)))


def test_points_stand_in_the_order_of_the_reply() -> None:
    data, points = read(point(), point(id=grpc.PointId(num=8)), point(score=-1.0))
    assert [id_of(data, each) for each in points] == [b"7", b"8", b"7"]
    assert [score_of(data, each) for each in points] == [0.5, 0.5, -1.0]
    assert b"".join(data[each.field.start : each.field.end] for each in points) == data


def test_a_score_that_is_left_out_is_zero_and_one_that_is_no_number_stays_so() -> None:
    data, points = read(point(score=0.0), point(score=math.nan))
    assert points[0].score is None
    assert score_of(data, points[0]) == 0.0
    assert math.isnan(score_of(data, points[1]))


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
    data, points = read(point(id=identity))
    assert id_of(data, points[0]) == raw


@pytest.mark.parametrize("identity", [b"", b"\x08\x01\x08\x02", b"\x1a\x01a", b"\x12\x01\xff", b"\x08"])
def test_an_identifier_that_cannot_be_told_is_refused(identity: bytes) -> None:
    data, points = read(field(1, identity))
    with pytest.raises(ValueError, match=r"id at|one field|utf-8|no end"):
        id_of(data, points[0])


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
    assert [len(each.entries) for each in points] == [4, 0]
    assert fields_of(data, points, Needs()) == (((), ()), False)


def test_a_value_that_cannot_be_spelled_costs_optional_keys_and_never_decides_about_tenants() -> None:
    odd = field(1, b"text") + field(2, field(99, b""))
    tenant = field(1, b"who") + field(2, b"\x18\x05")
    data, points = read(field(1, b"\x08\x01") + field(2, odd) + field(2, tenant))
    needs = Needs(payload_fields=("who",), optional_fields=("text", "other"))
    assert fields_of(data, points, needs)[0] == ((b"5", None, None),)
    with pytest.raises(ValueError, match="one field"):
        fields_of(data, points, Needs(payload_fields=("text",)))
