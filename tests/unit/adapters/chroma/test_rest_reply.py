from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.chroma import bodies as chroma_bodies
from support.exchanges.conversation import Conversation
from vecsieve.adapters.chroma.rest import ChromaRest
from vecsieve.adapters.contract import MalformedReplyError, Needs, Pool, Reply, RequestHead, SearchCall

ADAPTER = ChromaRest()
NEEDS = Needs(payload_fields=("tenant",), optional_fields=("#document", "n"))
INCLUDE = ["documents", "metadatas", "distances", "embeddings"]


def called(body: bytes, needs: Needs) -> SearchCall:
    operation = ADAPTER.classify(RequestHead(method="POST", path=chroma_bodies.PATHS[0]))
    assert operation is not None
    return ADAPTER.parse_request(operation, body, needs)


def asked(searches: int = 1, needs: Needs = NEEDS, query: tuple[float, ...] = (1.0, 0.0), **members: Any) -> SearchCall:
    request = {"query_embeddings": [list(query)] * searches, "n_results": 2, "include": INCLUDE, **members}
    return called(json.dumps(request).encode(), needs)


def told(**columns: Any) -> bytes:
    return json.dumps({"ids": [["a", "b"]], "include": INCLUDE, **columns}, separators=(",", ":")).encode()


def pool(body: bytes, needs: Needs = NEEDS, query: tuple[float, ...] = (1.0, 0.0)) -> Pool:
    (only,) = ADAPTER.parse_reply(asked(needs=needs, query=query), body).pools
    return only


def test_a_pool_has_what_the_columns_say() -> None:
    found = pool(
        told(
            embeddings=[[[1.0, 0.0], [0.6, 0.8]]],
            documents=[["x", None]],
            metadatas=[[{"n": 2**53 + 1, "tenant": "t"}, None]],
            distances=[[0.0, 0.4]],
        )
    )
    assert found.vectors.tolist() == [[1.0, 0.0], pytest.approx([0.6, 0.8])]
    assert found.scores.tolist() == [0.0, 0.4]
    assert found.fields == ((b'"t"', b'"x"', b"9007199254740993"), (None, None, None))
    assert found.ids == (b'"a"', b'"b"')
    assert (found.unusable, found.compared_by, found.vector_name) == (0, "", None)


def test_columns_that_are_null_leave_nothing_to_compare() -> None:
    found = pool(told(embeddings=None))
    assert (found.unusable, found.compared_by, found.size) == (2, None, 2)
    assert found.fields == ((None, None, None),) * 2


@pytest.mark.parametrize(
    "body",
    [
        told(ids=[["a", "b"], []]),
        told(ids=[]),
        told(include=INCLUDE[:3]),
        told(embeddings=[[[1.0, [2.0]], None]]),
        told(embeddings=[[["1.0"], None]]),
        told(metadatas=[[{"n": 1}, []]]),
        b'{"ids":[["a","b"]],"metadatas":[[{"n":1,"n":2},null]],"include":["documents","metadatas","distances","embeddings"]}',
        told()[:-1],
        told() + b" x",
        b"",
    ],
)
def test_what_is_not_understood_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        pool(body)


def test_metadata_that_looks_like_the_column_of_vectors_is_no_vector() -> None:
    body = (
        b'{"metadatas":[[{"embeddings":[[1,2],[3,4]],"tenant":"t"},null]],"ids":[["a","b"]],'
        b'"embeddings":[[[1.0,0.0],[0.0,1.0]]],"include":["documents","metadatas","distances","embeddings"]}'
    )
    found = pool(body)
    assert found.vectors.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    call = asked()
    assert ADAPTER.trim(call, ADAPTER.parse_reply(call, body), [np.arange(2)]) == body


def every(reply: Reply) -> list[Any]:
    return [np.arange(pool.size) for pool in reply.pools]


@given(
    data=st.data(),
    talk=chroma_bodies.conversations(),
    noise=st.one_of(
        st.binary(max_size=6), st.sampled_from([b'"', b"]", b"],[", b",", b"null", b'"embeddings":[', b"]]"])
    ),
)
def test_damage_to_a_reply_to_several_searches_never_yields_wrong_content(
    data: st.DataObject, talk: Conversation, noise: bytes
) -> None:
    """Invariant: a damaged reply is malformed, or the answer is that very document without what was added."""
    call = called(talk.body, NEEDS)
    body = talk.answer(ADAPTER.widen(call, [8] * len(call.searches)))
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 12)))
    broken = body[:start] + noise + body[end:]
    try:
        reply = ADAPTER.parse_reply(call, broken)
    except MalformedReplyError:
        return
    answer, expected = exact(ADAPTER.trim(call, reply, every(reply))), exact(broken)
    asked_for = json.loads(talk.body).get("include", ["documents", "metadatas", "distances"])
    for name in ("embeddings", "documents", "metadatas", "distances"):
        if name not in asked_for and name in expected:
            expected[name] = None
    for echo in {"include", "included"} & expected.keys():
        expected[echo] = [name for name in expected[echo] if name in asked_for]
    assert answer == expected
    assert [len(ids) for ids in expected["ids"]] == [pool.size for pool in reply.pools]


@given(data=st.data(), talk=chroma_bodies.conversations())
def test_each_search_keeps_its_own_rows(data: st.DataObject, talk: Conversation) -> None:
    """Invariant: row j of search i of the answer is the reply's row keep[i][j], in every column the client asked for."""
    call = called(talk.body, NEEDS)
    body = talk.answer(ADAPTER.widen(call, [8] * len(call.searches)))
    reply = ADAPTER.parse_reply(call, body)
    keep = [data.draw(st.permutations(range(pool.size))) for pool in reply.pools]
    answer = exact(ADAPTER.trim(call, reply, [np.array(kept, dtype=np.intp) for kept in keep]))
    upstream = exact(body)
    for name, column in answer.items():
        if name not in {"include", "included"} and column is not None:
            assert column == [[upstream[name][i][row] for row in kept] for i, kept in enumerate(keep)]


def exact(body: bytes) -> Any:
    """The document with its numbers as they are written."""
    text = body.decode(errors="surrogateescape")
    return json.loads(text, parse_float=lambda digits: ("number", digits), parse_int=lambda digits: ("number", digits))
