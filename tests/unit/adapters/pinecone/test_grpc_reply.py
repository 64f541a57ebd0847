from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from servers.pinecone.grpc_messages import message_type

from support.pinecone.messages import query, read
from vecsieve.adapters.contract import Needs, Operation, Pool
from vecsieve.adapters.pinecone import grpc
from vecsieve.adapters.pinecone.grpc import Document, read_reply, trim

OPERATION = Operation(backend="pinecone", name="query", collection="c")
TEXT = Needs(optional_fields=("text", "größe"))


def scored(id: str, score: float = 0.5, **fields: Any) -> Any:  # noqa: A002 - the field's own name
    metadata = fields.pop("metadata", None)
    made = message_type("ScoredVector")(id=id, score=score, **fields)
    if metadata is not None:
        made.metadata.update(metadata)
    return made


def asked(needs: Needs | None = None, **fields: Any) -> Document:
    return grpc.read_request(OPERATION, query(**{"top_k": 3, "vector": [1.0, 0.0], **fields}), needs or Needs())[1]


def reply(*records: Any, tail: bytes = b"", **fields: Any) -> bytes:
    return bytes(message_type("QueryResponse")(matches=records, **fields).SerializeToString()) + tail


def pool_of(body: bytes, request: Document | None = None, needs: Needs | None = None) -> Pool:
    return read_reply(request or asked(), needs or Needs(), body)[0]


def cut(body: bytes, keep: list[int], request: Document) -> bytes:
    return trim(request, read_reply(request, Needs(), body)[1], [np.array(keep, dtype=np.intp)])


def test_scores_vectors_ids_and_fields_are_those_of_the_matches() -> None:
    body = reply(
        scored("a", 0.25, values=[1, 0], metadata={"text": "x", "größe": 3, "other": True}),
        scored("é<", 0, values=[0.5, -1], metadata={"größe": ["a", 'b"']}),
        scored("c", -1, values=[0, 1]),
    )
    pool = pool_of(body, needs=TEXT)
    assert pool.scores.tolist() == [0.25, 0, -1]
    assert pool.vectors.dtype == np.float32
    assert pool.vectors.tolist() == [[1, 0], [0.5, -1], [0, 1]]
    assert pool.fields == ((b'"x"', b"3"), (None, b'["a","b\\""]'), (None, None))
    assert pool.ids == (b'"a"', '"é<"'.encode(), b'"c"')
    assert (pool.unusable, pool.compared_by, pool.alone) == (0, "", ())


def test_required_fields_stand_before_optional_ones() -> None:
    needs = Needs(payload_fields=("b",), optional_fields=("a",))
    assert pool_of(reply(scored("x", values=[1], metadata={"a": 1, "b": 2.5})), needs=needs).fields == ((b"2.5", b"1"),)


def test_a_match_without_a_usable_vector_is_a_row_of_nan() -> None:
    body = reply(
        scored("a", values=[1, 0]), scored("b"), scored("c", values=[1]), scored("d", values=[float("inf"), 0])
    )
    pool = pool_of(body)
    assert np.isnan(pool.vectors).any(axis=1).tolist() == [False, True, True, True]
    assert pool.unusable == 3


def test_a_reply_without_vectors_has_none_to_compare() -> None:
    pool = pool_of(reply(scored("a"), scored("b")))
    assert (pool.vectors.shape, pool.unusable, pool.compared_by) == ((2, 0), 2, None)
    assert pool_of(b"").size == 0


def test_sparse_vectors_are_compared_where_there_are_no_dense_ones() -> None:
    body = reply(
        scored("a", sparse_values={"indices": [1, 9], "values": [1, 2]}),
        scored("b", sparse_values={"indices": [9, 4_000_000_000], "values": [3, 4]}),
        scored("c", sparse_values={"indices": [1], "values": [1, 2]}),
        scored("d"),
    )
    pool = pool_of(body)
    assert pool.vectors[:2].tolist() == [[1, 2, 0], [0, 3, 4]]
    assert pool.unusable == 2
    assert pool_of(reply(scored("a", values=[1], sparse_values={"indices": [1], "values": [1]}))).vectors.shape == (
        1,
        1,
    )


def test_the_record_that_was_searched_by_stands_alone() -> None:
    body = reply(scored("b", values=[1]), scored("a", values=[1]))
    assert pool_of(body, asked(vector=[], id="a")).alone == (1,)
    assert pool_of(body).alone == ()


def test_values_that_nobody_asked_for_are_taken_out() -> None:
    body = reply(
        scored("a", values=[1, 0], metadata={"t": 1}),
        scored("b", values=[1, 0], sparse_values={"indices": [1], "values": [1]}),
    )
    assert cut(body, [1, 0], asked()) == reply(scored("b"), scored("a", metadata={"t": 1}))
    wanted = asked(include_values=True)
    assert read("QueryResponse", cut(body, [1], wanted)).matches == read("QueryResponse", body).matches[1:]


def test_matches_that_do_not_stand_together_keep_their_places() -> None:
    one, two = reply(scored("a", values=[1])), reply(scored("b", values=[2]))
    body = one + reply(namespace="ns") + two
    wanted = asked(include_values=True)
    assert cut(body, [0, 1], wanted) == body
    assert cut(body, [1], wanted) == two + reply(namespace="ns")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x12", "Error parsing"),
        (b"\x10\x01", "another wire type"),
        (b"\x12\x00", "no id"),
        (b"\x12\x02\x0a\x00", "no id"),
        (b"\x12\x03\x0a\x01\xff", "utf-8"),
        (b"\x12\x06\x0a\x01a\x0a\x01b", "set twice"),
        (b"\x12\x0b\x0a\x01a\x1a\x00\x1a\x04abcd", "set twice"),
        (b"\x12\x05\x0a\x01a\x10\x01", "another wire type"),
        (b"\x12\x08\x0a\x01a\x1d\x00\x00\x80\x3f", "another wire type"),
        (b"\x12\x07\x0a\x01a\x1a\x02ab", "no whole floats"),
        (b"\x12\x07\x0a\x01a\x2a\x02\x08\xff", "Error parsing"),
    ],
)
def test_what_cannot_be_read_with_certainty_is_malformed(body: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pool_of(body)


def test_metadata_that_cannot_be_read_are_left_out_of_the_payloads() -> None:
    pool = pool_of(b"\x12\x06\x0a\x01a\x22\x01\xff" + reply(scored("b", metadata={"n": 1})))
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == (None, b'{"n":1}')
