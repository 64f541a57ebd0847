from __future__ import annotations

import numpy as np
import pytest

from vecsieve.adapters.contract import Needs, RequestHead
from vecsieve.adapters.pinecone.rest import PineconeRest

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
        operation = ADAPTER.classify(RequestHead(method="POST", path=path % namespace, version="2026-07"))
        assert operation is not None
        return ADAPTER.parse_request(operation, body, TEXT).searches[0].partition

    assert partition("a") != partition("b")


def trimmed(request: bytes, reply: bytes, kept: list[int], *, path: str = "/query", needs: Needs = TEXT) -> bytes:
    operation = ADAPTER.classify(RequestHead(method="POST", path=path))
    assert operation is not None
    call = ADAPTER.parse_request(operation, request, needs)
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
        wanted = b'{%s,"include_fields":%s}' % (clause, selection)
        assert trimmed(wanted, reply, [0], path=path) == reply
