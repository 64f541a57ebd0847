from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pinecone.bodies import conversations
from vecsieve.adapters.contract import Needs, Pool, RequestHead
from vecsieve.adapters.pinecone.rest import PineconeRest, ReplyDocument, parse_reply
from vecsieve.adapters.pinecone.rest_request import Document

ADAPTER = PineconeRest()
BY_VECTOR = b'{"topK":5,"vector":[1,0],"includeMetadata":true}'


def request(body: bytes = BY_VECTOR, path: str = "/query", needs: Needs | None = None) -> Document:
    operation = ADAPTER.classify(RequestHead(method="POST", path=path))
    assert operation is not None
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
    operation = ADAPTER.classify(RequestHead(method="POST", path=talk.path))
    assert operation is not None
    call = ADAPTER.parse_request(operation, talk.body, Needs())
    answer = talk.answer(ADAPTER.widen(call, [50]))
    pool = ADAPTER.parse_reply(call, answer).pools[0]
    matches = json.loads(answer)["matches"]
    assert pool.scores.tolist() == [match["score"] for match in matches]
    if pool.vectors.shape[1] == 3 and any(match["values"] for match in matches):
        assert pool.vectors.tolist() == np.array([match["values"] for match in matches], np.float32).tolist()
