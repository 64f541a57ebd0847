from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.rest_dialects import exact
from support.backends.transports import operation_of
from support.chroma import bodies as chroma_bodies
from support.exchanges.conversation import Conversation
from vecsieve.adapters.chroma.rest import ChromaDialect, ChromaRest, Column, read_columns, read_echo
from vecsieve.adapters.contract import MalformedReplyError, Needs, Pool, RequestHead, SearchCall
from vecsieve.adapters.wire.json import members_of, whole

ADAPTER = ChromaRest()


def trimmed(include: list[str] | None, reply: bytes, *keep: list[int]) -> bytes:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=chroma_bodies.PATHS[0]))
    request: dict[str, object] = {"query_embeddings": [[1.0, 0.0]] * len(keep), "n_results": 5}
    if include is not None:
        request["include"] = include
    call = ADAPTER.parse_request(operation, json.dumps(request).encode(), Needs())
    return ADAPTER.trim(call, ADAPTER.parse_reply(call, reply), [np.array(kept, dtype=np.intp) for kept in keep])


def test_kept_cells_are_the_servers_bytes_in_the_order_of_keep() -> None:
    reply = (
        b'{"ids":[["a","\\u00e9","c"]],"embeddings":[[[1.0,0.0],[5.9604645e-8,1],[-0.0,1]]],"documents":[["x",null,"\\ud83d"]],'
        b'"uris":null,"metadatas":null,"distances":[[0.10,1E5,null]],"include":["documents","embeddings","distances"]}'
    )
    assert trimmed(["documents"], reply, [2, 0]) == (
        b'{"ids":[["c","a"]],"embeddings":null,"documents":[["\\ud83d","x"]],"uris":null,"metadatas":null,"distances":null,'
        b'"include":["documents"]}'
    )


@pytest.mark.parametrize(
    ("include", "sent", "left"),
    [
        ([], b'["embeddings","distances"]', b"[]"),
        (["uris"], b'["uris","embeddings","distances"]', b'["uris"]'),
        (["uris", "uris"], b'["uris","uris","embeddings","distances"]', b'["uris","uris"]'),
        (["distances"], b'["distances","embeddings"]', b'["distances"]'),
        (["distances", "embeddings"], b'["distances","embeddings"]', b'["distances","embeddings"]'),
        (None, b'["documents","metadatas","distances","embeddings"]', b'["documents","metadatas","distances"]'),
    ],
)
def test_the_list_of_what_was_included_is_the_clients_again(
    include: list[str] | None, sent: bytes, left: bytes
) -> None:
    answer = trimmed(include, b'{"ids":[["a","b"]],"include":%s}' % sent, [0, 1])
    assert answer == b'{"ids":[["a","b"]],"include":%s}' % left


def columns(text: bytes) -> dict[str, Column]:
    return read_columns(text, members_of(text, whole(text)))


def echoed(text: bytes, *names: str) -> tuple[str, ...] | None:
    echo = read_echo(text, members_of(text, whole(text)), names)
    return None if echo is None else echo.columns


def test_a_reply_of_an_older_server_has_a_column_of_which_nothing_is_known_but_that_it_is_null() -> None:
    assert list(columns(b'{"ids":[["a"]],"data":null,"included":[]}')) == ["ids"]
    with pytest.raises(ValueError, match="data"):
        columns(b'{"ids":[["a"]],"data":[["x"]]}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{}", "no ids"),
        (b'{"ids":null}', "null"),
        (b'{"ids":[["a"]],"scores":[[1]]}', "unknown"),
        (b'{"ids":[["a"]],"documents":[["x","y"]]}', "other rows"),
        (b'{"ids":[["a"]],"documents":[["x"],["y"]]}', "other rows"),
        (b'{"ids":[["a"]],"documents":[]}', "other rows"),
        (b'{"ids":[[1]]}', "kind"),
        (b'{"ids":[[null]]}', "kind"),
        (b'{"ids":[["a"]],"documents":[[1]]}', "kind"),
        (b'{"ids":[["a"]],"metadatas":[["x"]]}', "kind"),
        (b'{"ids":[["a"]],"distances":[["1"]]}', "kind"),
        (b'{"ids":[["a"]],"embeddings":[["AACAPw=="]]}', "kind"),
        (b'{"ids":["a"]}', "JSON"),
        (b'{"ids":[["a"]],"ids":[["a"]]}', "repeated"),
    ],
)
def test_what_is_no_table_is_not_read(text: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        columns(text)


def test_what_was_included_is_repeated_in_order_and_by_older_servers_in_any() -> None:
    assert echoed(b'{"include":["uris","documents"]}', "uris", "documents") == ("uris", "documents")
    assert echoed(b'{"included":["uris","documents"]}', "documents", "uris", "uris") == ("uris", "documents")
    assert echoed(b"{}", "uris") is None
    for text in (b'{"include":["documents","uris"]}', b'{"included":["uris"]}', b'{"include":[],"included":[]}'):
        with pytest.raises(ValueError, match="list of included columns"):
            echoed(text, "uris", "documents")


@given(text=st.binary(max_size=60))
def test_arbitrary_bytes_are_no_table(text: bytes) -> None:
    """Invariant: whatever the bytes, the only exception is ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011 - the words depend on where the reader stopped
        columns(text)


DIALECT = ChromaDialect()
QUOTA = "Quota exceeded: '{}' exceeded quota limit for action '{}': current usage of 500 exceeds limit of 300{}"


def refusal(usage: str = "Number of results", action: str = "Query", suffix: str = "") -> bytes:
    return json.dumps({"error": "ChromaError", "message": QUOTA.format(usage, action, suffix)}).encode()


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "InvalidArgumentError"),
        (401, "AuthorizationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalError"),
        (502, "ChromaError"),
        (503, "ChromaError"),
    ],
)
def test_an_error_has_the_servers_shape_and_a_name_that_clients_know(status: int, name: str) -> None:
    answer = DIALECT.error(status, 'a "ß"\n')
    assert json.loads(answer.body) == {"error": name, "message": 'a "ß"\n'}
    assert (answer.status, answer.content_type) == (status, "application/json")


def test_the_quota_on_results_names_the_largest_limit() -> None:
    assert DIALECT.refused_limit(422, refusal()) == 300
    assert DIALECT.refused_limit(422, refusal(suffix=". Request an increase")) == 300


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, refusal()),
        (422, refusal(usage="Number of query embeddings")),
        (422, refusal(action="Get")),
        (422, b'{"error":"ChromaError"}'),
        (422, b'{"message":5}'),
        (422, b'[{"detail":"x"}]'),
        (422, b"\xff"),
        (422, b""),
    ],
)
def test_other_refusals_say_nothing_about_the_limit(status: int, body: bytes) -> None:
    assert DIALECT.refused_limit(status, body) is None


NEEDS = Needs(payload_fields=("tenant",), optional_fields=("#document", "n"))
INCLUDE = ["documents", "metadatas", "distances", "embeddings"]


def called(body: bytes, needs: Needs) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=chroma_bodies.PATHS[0]))
    return ADAPTER.parse_request(operation, body, needs)


def search_call(needs: Needs = NEEDS, query: tuple[float, ...] = (1.0, 0.0), **members: Any) -> SearchCall:
    request = {"query_embeddings": [list(query)], "n_results": 2, "include": INCLUDE, **members}
    return called(json.dumps(request).encode(), needs)


def reply_body(**columns: Any) -> bytes:
    return json.dumps({"ids": [["a", "b"]], "include": INCLUDE, **columns}, separators=(",", ":")).encode()


def pool(body: bytes, needs: Needs = NEEDS, query: tuple[float, ...] = (1.0, 0.0)) -> Pool:
    (only,) = ADAPTER.parse_reply(search_call(needs=needs, query=query), body).pools
    return only


def test_a_pool_has_what_the_columns_say() -> None:
    candidates = pool(
        reply_body(
            embeddings=[[[1.0, 0.0], [0.6, 0.8]]],
            documents=[["x", None]],
            metadatas=[[{"n": 2**53 + 1, "tenant": "t"}, None]],
            distances=[[0.0, 0.4]],
        )
    )
    assert candidates.vectors.tolist() == [[1.0, 0.0], pytest.approx([0.6, 0.8])]
    assert candidates.scores.tolist() == [0.0, 0.4]
    assert candidates.fields == ((b'"t"', b'"x"', b"9007199254740993"), (None, None, None))
    assert candidates.ids == (b'"a"', b'"b"')
    assert (candidates.unusable, candidates.compared_by, candidates.vector_name) == (0, "", None)


def test_columns_that_are_null_leave_nothing_to_compare() -> None:
    candidates = pool(reply_body(embeddings=None))
    assert (candidates.unusable, candidates.compared_by, candidates.size) == (2, None, 2)
    assert candidates.fields == ((None, None, None),) * 2


@pytest.mark.parametrize(
    "body",
    [
        reply_body(ids=[["a", "b"], []]),
        reply_body(ids=[]),
        reply_body(include=INCLUDE[:3]),
        reply_body(embeddings=[[[1.0, [2.0]], None]]),
        reply_body(embeddings=[[["1.0"], None]]),
        reply_body(metadatas=[[{"n": 1}, []]]),
        b'{"ids":[["a","b"]],"metadatas":[[{"n":1,"n":2},null]],"include":["documents","metadatas","distances","embeddings"]}',
        reply_body()[:-1],
        reply_body() + b" x",
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
    candidates = pool(body)
    assert candidates.vectors.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    call = search_call()
    assert ADAPTER.trim(call, ADAPTER.parse_reply(call, body), [np.arange(2)]) == body


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
    answer = exact(ADAPTER.trim(call, reply, [np.arange(pool.size) for pool in reply.pools]))
    expected = exact(broken)
    included = json.loads(talk.body).get("include", ["documents", "metadatas", "distances"])
    for name in ("embeddings", "documents", "metadatas", "distances"):
        if name not in included and name in expected:
            expected[name] = None
    for echo in {"include", "included"} & expected.keys():
        expected[echo] = [name for name in expected[echo] if name in included]
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
