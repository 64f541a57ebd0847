from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of
from support.pinecone.bodies import conversations
from vecsieve.adapters.contract import Needs, Pool, RequestHead
from vecsieve.adapters.pinecone import rest_request as pinecone_rest_request
from vecsieve.adapters.pinecone.rest import (
    Match,
    PineconeRest,
    ReplyDocument,
    array_of,
    has_id,
    parse_reply,
    read_matches,
)
from vecsieve.adapters.pinecone.rest_request import Document, Layout

ADAPTER = PineconeRest()
TEXT = Needs(optional_fields=("text",))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/records/namespaces/%s/search", b'{"query":{"inputs":{"text":"a"},"top_k":5}}'),
        ("/namespaces/%s/documents/search", b'{"score_by":[{"type":"text","field":"t","query":"a"}],"top_k":5}'),
    ],
)
def test_points_of_two_namespaces_are_not_taken_for_each_other(path: str, body: bytes) -> None:
    """The path names the namespace, and ids of one may be those of another."""

    def partition(namespace: str) -> bytes:
        operation = operation_of(ADAPTER, RequestHead(method="POST", path=path % namespace, version="2026-07"))
        return ADAPTER.parse_request(operation, body, TEXT).searches[0].partition

    assert partition("a") != partition("b")


def trimmed(request: bytes, reply: bytes, kept: list[int], *, path: str = "/query") -> bytes:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=path))
    call = ADAPTER.parse_request(operation, request, TEXT)
    parsed = ADAPTER.parse_reply(call, reply)
    return ADAPTER.trim(call, parsed, [np.array(kept, dtype=np.intp)])


@pytest.mark.parametrize(
    ("upstream", "client"),
    [
        (b'{"id":"a","score":0.86176908,"values":[1,2]}', b'{"id":"a","score":0.86176908,"values":[]}'),
        (
            b'{"id":"a","score":1,"values":[1],"sparseValues":{"indices":[1],"values":[2]},"metadata":{"n":1E2}}',
            b'{"id":"a","score":1,"values":[],"metadata":{"n":1E2}}',
        ),
        (
            b'{"id":"a","score":1,"values":[],"sparseValues":{"indices":[1],"values":[2]}}',
            b'{"id":"a","score":1,"values":[]}',
        ),
        (
            b'{"sparseValues":{"indices":[1],"values":[2]}, "values" : [ 1 ] , "score":1,"id":"a"}',
            b'{"values" : [] , "score":1,"id":"a"}',
        ),
        (b'{"id":"a","score":1}', b'{"id":"a","score":1}'),
        (
            b'{"id":"a","score":1,"values":[1],"metadata":{"values":[1],"sparseValues":"\\ud800"},"new":null}',
            b'{"id":"a","score":1,"values":[],"metadata":{"values":[1],"sparseValues":"\\ud800"},"new":null}',
        ),
    ],
)
def test_values_that_nobody_asked_for_become_an_empty_list_and_sparse_ones_go(upstream: bytes, client: bytes) -> None:
    reply = b'{"results":[],"matches":[%s],"namespace":"n","usage":{"readUnits":6}}'
    assert trimmed(b'{"topK":2,"vector":[1]}', reply % upstream, [0]) == reply % client


def test_a_document_keeps_its_id_and_score_and_what_the_client_named() -> None:
    path = "/namespaces/ns/documents/search"
    clause = b'"score_by":[{"type":"dense_vector","field":"v","values":[1,0]}],"top_k":2'
    reply = b'{"matches":[{"_id":"a","_score":null,"title":"t","v":[1,0]}],"namespace":"ns","usage":{"read_units":1}}'
    named = b'{%s,"include_fields":["title"]}' % clause
    assert trimmed(named, reply, [0], path=path) == reply.replace(b',"v":[1,0]', b"")
    bare = reply.replace(b',"title":"t"', b"")
    assert trimmed(b"{%s}" % clause, bare, [0], path=path) == bare.replace(b',"v":[1,0]', b"")
    for selection in (b'["*"]', b'["v"]'):
        body = b'{%s,"include_fields":%s}' % (clause, selection)
        assert trimmed(body, reply, [0], path=path) == reply


QUERY = pinecone_rest_request.QUERY_LAYOUT


def matches(text: bytes, layout: Layout = QUERY) -> tuple[Match, ...]:
    return read_matches(text, (0, len(text)), layout)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"result":[]}', b'{"result":{}}', b'{"result":null}'])
def test_a_reply_without_its_list_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"no |object"):
        array_of(text, pinecone_rest_request.RECORDS_LAYOUT.path)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[1]",
        b"[null]",
        b'[{"id":"x"}]',
        b'[{"score":1}]',
        b'[{"id":1,"score":1}]',
        b'[{"id":null,"score":1}]',
        b'[{"id":"x","score":"NaN"}]',
        b'[{"id":"x","score":true}]',
        b'[{"id":"x","score":[1]}]',
        b'[{"id":"x","id":"x","score":1}]',
        b'[{"id":"x","score":1,"metadata":[]}]',
        b'[{"id":"x","score":1,"metadata":{"a":1,"a":1}}]',
    ],
)
def test_anything_but_matches_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        matches(text)


def test_ids_are_compared_as_texts() -> None:
    text = b'[{"id":"\\u00e9\\"","score":1},{"id":"\\ud800","score":1}]'
    first, second = matches(text.replace(b"\\ud800", b"\\u0041"))
    assert has_id(text, first, QUERY, 'é"')
    assert not has_id(text, first, QUERY, "é")
    assert not has_id(text, second, QUERY, "A")


@given(text=st.binary(max_size=60))
def test_arbitrary_bytes_are_matches_or_a_value_error(text: bytes) -> None:
    """Invariant: nothing but ValueError is raised."""
    for read in (lambda: matches(text), lambda: array_of(text, QUERY.path)):
        with pytest.raises(ValueError, match=r"."):
            read()


BY_VECTOR = b'{"topK":5,"vector":[1,0],"includeMetadata":true}'


def request(body: bytes = BY_VECTOR, path: str = "/query", needs: Needs | None = None) -> Document:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=path))
    document = ADAPTER.parse_request(operation, body, needs or Needs()).document
    assert isinstance(document, Document)
    return document


def read(matches: str, *, needs: Needs | None = None, document: Document | None = None) -> tuple[Pool, ReplyDocument]:
    body = f'{{"results":[],"matches":[{matches}],"namespace":"","usage":{{"readUnits":6}}}}'.encode()
    return parse_reply(document or request(), needs or Needs(), body)


def test_dense_values_become_vectors() -> None:
    pool, _ = read('{"id":"a","score":0.9,"values":[1,0.5]},{"id":"b","score":0.8,"values":[0,-2]}')
    assert pool.scores.tolist() == [0.9, 0.8]
    assert pool.vectors.dtype == np.float32
    assert pool.vectors.tolist() == [[1, 0.5], [0, -2]]
    assert pool.ids == (b'"a"', b'"b"')
    assert (pool.unusable, pool.compared_by, pool.vector_name, pool.alone) == (0, "", None, ())


def test_of_a_hybrid_record_the_dense_values_are_compared() -> None:
    hybrid = '{"id":"a","score":1,"values":[1,2],"sparseValues":{"indices":[7],"values":[0.5]}}'
    pool, document = read(hybrid)
    assert pool.vectors.tolist() == [[1, 2]]
    assert len(document.source.spans) == 1


def test_a_pool_without_vectors_has_no_columns() -> None:
    pool, _ = read('{"id":"a","score":1,"values":[]},{"id":"b","score":1}')
    assert pool.vectors.shape == (2, 0)
    assert (pool.unusable, pool.compared_by) == (2, None)
    assert read("")[0].size == 0


def test_a_vector_of_another_dimension_is_unusable() -> None:
    pool, _ = read(
        '{"id":"a","score":1,"values":[1,2]},{"id":"b","score":1,"values":[1]},{"id":"c","score":1,"values":[1e39,1]}'
    )
    assert pool.unusable == 2
    assert pool.compared_by == ""


def test_records_have_fields_and_no_vectors() -> None:
    needs = Needs(optional_fields=("text",))
    document = request(b'{"query":{"top_k":5,"id":"a"}}', "/records/namespaces/ns/search", needs)
    body = (
        b'{"result":{"hits":[{"_id":"a","_score":0.5,"fields":{"text":"x","values":[1,2]}}]},"usage":{"read_units":1}}'
    )
    pool, parsed = parse_reply(document, needs, body)
    assert pool.vectors.shape == (1, 0)
    assert (pool.unusable, pool.fields, pool.alone) == (1, ((b'"x"',),), (0,))
    assert parsed.source.spans == ()


def test_a_document_has_its_vector_among_its_fields_and_perhaps_no_score() -> None:
    body = b'{"top_k":5,"score_by":[{"type":"dense_vector","field":"v","values":[1,0]}]}'
    needs = Needs(optional_fields=("v", "text"))
    document = request(body, "/namespaces/ns/documents/search", needs)
    pool, _ = read('{"_id":"a","_score":null,"text":"x","v":[1,0]},{"_id":"b","_score":1,"v":null}', document=document)
    assert math.isnan(pool.scores[0])
    assert pool.vectors[0].tolist() == [1, 0]
    assert pool.unusable == 1


@pytest.mark.parametrize(
    "match",
    [
        '{"id":"a","score":1,"values":[1,,2]}',
        '{"id":"a","score":1,"values":[1,2,]}',
        '{"id":"a","score":1,"values":[1,2],"metadata":{"values":[1,,2]}}',
        '{"id":"a","score":1,"values":[1 2]}',
        '{"id":"a","score":1,"values":null}',
        '{"id":"a","score":1,"values":"AAAA"}',
        '{"id":"a","score":1,"values":{}}',
        '{"id":"a","score":1,"values":[1],"values":[1]}',
        '{"id":"a","score":1,"values":[],"sparseValues":{"indices":[1],"indices":[1]}}',
    ],
)
def test_a_match_that_cannot_be_read_with_certainty_makes_the_reply_malformed(match: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(match)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"matches":null}', b'{"matches":{}}', b'{"matches":[]'])
def test_a_reply_without_matches_is_malformed(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_reply(request(), Needs(), body)


@given(data=st.data())
def test_vectors_and_scores_are_the_numbers_of_the_reply(data: st.DataObject) -> None:
    """Invariant: each row is the float32 of what the reply says, each score its double, in the reply's order."""
    extra = {"topK": 5, "includeValues": False}
    talk = data.draw(conversations(operation="query", extra=extra))
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=talk.path))
    call = ADAPTER.parse_request(operation, talk.body, Needs())
    answer = talk.answer(ADAPTER.widen(call, [50]))
    pool = ADAPTER.parse_reply(call, answer).pools[0]
    matches = json.loads(answer)["matches"]
    assert pool.scores.tolist() == [match["score"] for match in matches]
    if pool.vectors.shape[1] == 3 and any(match["values"] for match in matches):
        assert pool.vectors.tolist() == np.array([match["values"] for match in matches], np.float32).tolist()
