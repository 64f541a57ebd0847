from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import grpc

from support.qdrant.grpc_model import TIME, field
from vecsieve.adapters.contract import Needs, Operation
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.wire.protobuf import fields

DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
ADAPTER = QdrantGrpc()
NEEDS = Needs(vector_name="a")
ID, SCORE, VERSION, SHARD = field(1, b"\x08\x07"), b"\x1d\x00\x00\x80\x3f", b"\x28\x03", field(7, field(1, b"s"))
LATER = field(99, b"later")
OUTPUT = grpc.VectorOutput(dense=grpc.DenseVector(data=[1.0, 2.0])).SerializeToString()
UNNAMED = field(6, field(1, OUTPUT))
NOTHING = field(6, field(2, b""))


def entry(name: str, value: bytes = OUTPUT) -> bytes:
    return field(1, field(1, name.encode()) + field(2, value))


def named(*names: str) -> bytes:
    return field(6, field(2, b"".join(map(entry, names))))


def payload(*keys: str) -> bytes:
    return b"".join(field(2, field(1, key.encode()) + field(2, b"\x18\x05")) for key in keys)


def trimmed(body: bytes, *keep: int, needs: Needs = NEEDS, **members: Any) -> bytes:
    request = grpc.QueryPoints(**{"query": DENSE, **members}).SerializeToString()
    call = ADAPTER.parse_request(Operation(backend="qdrant", name="query", collection="c"), request, needs)
    return ADAPTER.trim(call, ADAPTER.parse_reply(call, body), [np.array(keep, dtype=np.intp)])


def shown(point: bytes, selector: Any, *, needs: Needs = NEEDS, **members: Any) -> bytes:
    """What is left of a reply's only point, without its frame."""
    answer = trimmed(field(1, point), 0, needs=needs, with_vectors=selector, **members)
    (found,) = fields(answer)
    return answer[found.value : found.end]


def selecting(*names: str) -> Any:
    return grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=names))


@pytest.mark.parametrize(
    ("vectors", "selector", "left"),
    [
        # Not wanted: gone.
        (UNNAMED, None, b""),
        (named("a", "b"), grpc.WithVectorsSelector(enable=False), b""),
        (b"", None, b""),
        # Everything wanted: as it came.
        (named("a", ""), grpc.WithVectorsSelector(enable=True), named("a", "")),
        (NOTHING, grpc.WithVectorsSelector(enable=True), NOTHING),
        # The client selected names, ours was added.
        (named("b", "a"), selecting("b"), named("b")),
        (named("a", "b"), selecting("b"), named("b")),
        (named("b"), selecting("b"), named("b")),
        (named("a"), selecting("b"), NOTHING),
        (named("a"), selecting(), NOTHING),
        (NOTHING, selecting("b"), NOTHING),
        (b"", selecting("b"), b""),
        (field(6, b""), selecting("b"), field(6, b"")),
        # The unnamed one alone is shown bare, beside others by an empty name.
        (UNNAMED, selecting(""), UNNAMED),
        (UNNAMED, selecting("b"), NOTHING),
        (named("", "a"), selecting(""), UNNAMED),
        (named("", "a", "b"), selecting("", "b"), named("", "b")),
        # Fields that nobody knows stay in their message, behind those that are known.
        (field(6, LATER + field(2, entry("a") + LATER + entry("b")) + LATER), selecting("b"),
         field(6, field(2, entry("b") + LATER) + LATER * 2)),
    ],
)  # fmt: skip
def test_vectors_are_shown_as_the_server_shows_them(vectors: bytes, selector: Any, left: bytes) -> None:
    before, after = ID + payload("x") + SCORE + VERSION, SHARD + LATER
    assert shown(before + vectors + after, selector) == before + left + after


@pytest.mark.parametrize(
    ("selector", "came", "left"),
    [
        (None, payload("text", "doc"), b""),
        (grpc.WithPayloadSelector(enable=False), payload("text"), b""),
        (grpc.WithPayloadSelector(enable=True), payload("text", "x"), payload("text", "x")),
        (
            grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["x"])),
            payload("text", "x", "doc"),
            payload("x"),
        ),
        (
            grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["text"])),
            payload("text", "doc"),
            payload("text"),
        ),
        (
            grpc.WithPayloadSelector(exclude=grpc.PayloadExcludeSelector(fields=["x"])),
            payload("text", "doc"),
            payload("text", "doc"),
        ),
    ],
)
def test_payload_that_came_for_us_is_gone(selector: Any, came: bytes, left: bytes) -> None:
    needs = Needs(vector_name="a", optional_fields=("text", "doc"))
    point = ID + came + SCORE + UNNAMED + LATER
    assert shown(point, None, needs=needs, with_payload=selector) == ID + left + SCORE + LATER


def points(*numbers: int, vectors: bytes = UNNAMED) -> list[bytes]:
    return [field(1, field(1, b"\x08" + bytes([number])) + SCORE + vectors) for number in numbers]


def test_a_point_that_had_nothing_of_ours_is_opaque() -> None:
    """Only what is taken out of is written again; a field that nobody knows may stand before the others."""
    odd = LATER + b"\x1d\x00\x00\x80\x3f" + ID + SCORE
    wanted = grpc.WithVectorsSelector(enable=True)
    assert trimmed(field(1, odd) + TIME, 0, with_vectors=wanted) == field(1, odd) + TIME
    assert trimmed(field(1, odd + NOTHING), 0) == field(1, ID + SCORE + LATER)


def test_what_is_set_twice_in_a_point_is_taken_out_twice_or_stays_twice() -> None:
    shards = field(7, field(1, b"s")) + field(7, b"\x10\x05")
    payloads = payload("x", "text", "x", "text")
    selector = grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["x"]))
    needs = Needs(vector_name="a", optional_fields=("text",))
    left = shown(ID + ID + payloads + UNNAMED * 2 + shards, None, needs=needs, with_payload=selector)
    assert left == ID + ID + payload("x", "x") + shards


def test_lists_of_a_batch_that_are_not_ours_stay_byte_for_byte() -> None:
    ours = grpc.QueryPoints(query=DENSE)
    sampled = grpc.QueryPoints(query=grpc.Query(sample=grpc.Sample.Random))
    request = grpc.QueryBatchPoints(query_points=[sampled, ours, sampled, ours]).SerializeToString()
    operation = Operation(backend="qdrant", name="query_batch", collection="c")
    call = ADAPTER.parse_request(operation, request, Needs())
    full, bare = points(1, 2), points(1, 2, vectors=b"")
    lists = [field(1, b"".join(each)) for each in ([LATER, *full], [*full, TIME], bare, bare)]
    body = b"".join(lists) + TIME
    reply = ADAPTER.parse_reply(call, body)
    answer = ADAPTER.trim(call, reply, [np.array([1]), np.array([0, 1])])
    assert answer == lists[0] + field(1, bare[1] + TIME) + lists[2] + lists[3] + TIME
