from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges.conversation import Conversation
from support.qdrant.bodies import PAYLOAD_KEYS, PAYLOAD_TEXTS, conversations
from vecsieve.adapters.contract import (
    MalformedReplyError,
    Needs,
    Pool,
    Reply,
    RequestHead,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.qdrant import rest_reply
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.adapters.qdrant.rest_reply import ReplyDocument
from vecsieve.adapters.qdrant.rest_request import Document
from vecsieve.adapters.wire.json_vectors import set_aside

ADAPTER = QdrantRest()
POINT = '{"id":1,"version":0,"score":0.5,"payload":%s,"vector":[0.6,0.8]}'


def call(body: bytes = b'{"query":[1,2],"limit":5}', path: str = "query", needs: Needs | None = None) -> SearchCall:
    operation = ADAPTER.classify(RequestHead(method="POST", path=f"/collections/c/points/{path}"))
    assert operation is not None
    return ADAPTER.parse_request(operation, body, Needs() if needs is None else needs)


def enveloped(*points: str | bytes) -> bytes:
    inner = b",".join(point if isinstance(point, bytes) else point.encode() for point in points)
    return b'{"result":{"points":[' + inner + b']},"status":"ok","time":0.0}'


def aside(reply: Reply) -> int:
    assert isinstance(reply.document, ReplyDocument)
    return len(reply.document.source.spans)


def assert_same(one: Pool, other: Pool) -> None:
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.vectors, other.vectors)
    assert (one.fields, one.ids, one.unusable, one.vector_name) == (
        other.fields,
        other.ids,
        other.unusable,
        other.vector_name,
    )


@given(talk=conversations(is_old=st.booleans()), fields=st.sampled_from([(), ("vector",)]))
def test_the_quick_way_and_the_slow_way_read_the_same(talk: Conversation, fields: tuple[str, ...]) -> None:
    # Invariant: setting vectors aside changes neither the pools nor the trimmed bytes.
    operation = ADAPTER.classify(RequestHead(method="POST", path=talk.path))
    assert operation is not None
    try:
        asked = ADAPTER.parse_request(operation, talk.body, Needs(payload_fields=fields))
    except UnsupportedError:
        return
    body = talk.answer(ADAPTER.widen(asked, [9] * len(asked.searches)))
    quick = ADAPTER.parse_reply(asked, body)
    assert isinstance(asked.document, Document)
    pools, document = rest_reply._read(asked.document, asked.needs, set_aside(body, ()))
    for one, other in zip(quick.pools, pools, strict=True):
        assert_same(one, other)
    keep = [np.arange(pool.size)[::-2] for pool in pools]
    assert ADAPTER.trim(asked, quick, keep) == ADAPTER.trim(asked, Reply(pools=pools, document=document), keep)


@pytest.mark.parametrize("key", PAYLOAD_KEYS)
@pytest.mark.parametrize("text", PAYLOAD_TEXTS)
def test_a_payload_that_looks_like_a_vector_spoils_nothing(key: str, text: str) -> None:
    payload = "{" + json.dumps(key, ensure_ascii=False) + ":" + text + "}"
    body = enveloped(POINT % payload, POINT % "{}", POINT % payload)
    reply = ADAPTER.parse_reply(call(), body)
    assert reply.pools[0].unusable == 0
    assert aside(reply) == 3
    answer = ADAPTER.trim(call(), reply, [np.array([0, 2])])
    kept = (POINT % payload).replace(',"vector":[0.6,0.8]}', "}")
    assert answer == enveloped(kept, kept)


def test_a_set_aside_span_that_is_no_array_of_numbers_sends_the_reply_the_slow_way() -> None:
    body = enveloped(POINT % "{}", (POINT % "{}").replace("0.8", "null"))
    reply = ADAPTER.parse_reply(call(), body)
    assert aside(reply) == 0
    assert reply.pools[0].unusable == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"result":null,"status":"ok","time":0.0}',
        b'{"result":[],"status":"ok","time":0.0}',
        b'{"result":{},"status":"ok","time":0.0}',
        b'{"result":{"points":{}},"status":"ok","time":0.0}',
        b'{"status":{"error":"x"},"time":0.0}',
        enveloped() + b"x",
        enveloped() + enveloped(),
        b"\xef\xbb\xbf" + enveloped(),
        enveloped()[:-1],
        enveloped().replace(b'"time":0.0', b'"time":NaN'),
        enveloped().replace(b'"status":"ok"', b'"result":{"points":[]}'),
        enveloped().replace(b'"points":[]', b'"points":[],"points":[]'),
        enveloped(POINT % "{}", POINT % "{}").replace(b"]},{", b"]}{"),
        enveloped((POINT % "{}").replace("[0.6,0.8]", "5")),
        enveloped((POINT % "{}").replace("[0.6,0.8]", "[0.6,0.8")),
        enveloped((POINT % "{}").replace("[0.6,0.8]", "[0.6,,0.8]")),
        enveloped((POINT % "{}").replace("[0.6,0.8]", "[0.6,NaN]")),
        enveloped((POINT % "{}").replace("[0.6,0.8]", '{"a":[1],"a":[1]}')),
        enveloped((POINT % "{}").replace("[0.6,0.8]", '[0.6,0.8],"vector":[0.6,0.8]')),
        enveloped(POINT % ("[" * 100_000)),
        enveloped(POINT % ('{"a":' * 100_000 + "1" + "}" * 100_000)),
    ],
)
def test_what_is_not_understood_is_malformed_at_once(body: bytes) -> None:
    began = time.thread_time()
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(call(), body)
    assert time.thread_time() - began < 1.0


def test_the_shape_of_another_endpoint_is_malformed() -> None:
    search = call(b'{"vector":[1],"limit":5}', "search")
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(search, enveloped())
    assert ADAPTER.parse_reply(search, b'{"result":[]}').pools[0].size == 0


@pytest.mark.parametrize("lists", ["[]", '[{"points":[]}]', '[{"points":[]},{"points":[]},{"points":[]}]'])
def test_a_batch_of_another_length_is_malformed(lists: str) -> None:
    batch = call(b'{"searches":[{"query":[1]},{"query":[2]}]}', "query/batch")
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(batch, b'{"result":%s}' % lists.encode())


def test_scores_vectors_and_fields_are_read_per_candidate() -> None:
    asked = call(b'{"query":[1,2],"with_payload":true}', needs=Needs(payload_fields=("tenant", "text")))
    points = [
        POINT % '{"text":"\\ud83d\\ude00","tenant":{"a": [1 ]}}',
        '{"id":2,"version":0,"score":null,"payload":{"tenant":null}}',
        '{"id":3,"version":0,"score":-1e-7,"vector":{}}',
    ]
    (pool,) = ADAPTER.parse_reply(asked, enveloped(*points)).pools
    np.testing.assert_array_equal(pool.scores, [0.5, np.nan, -1e-7])
    assert pool.fields == ((b'{"a": [1 ]}', b'"\\ud83d\\ude00"'), (b"null", None), (None, None))
    assert pool.unusable == 2
    assert pool.vector_name is None


def test_what_was_found_by_asking_for_everything_is_told() -> None:
    asked = call(b'{"query":{"indices":[1],"values":[1]},"using":"s"}')
    both = '{"id":1,"version":0,"score":1,"vector":{"s":{"indices":[1],"values":[1.0]},"d":[3,4]}}'
    (pool,) = ADAPTER.parse_reply(asked, enveloped(both)).pools
    assert (pool.vector_name, pool.vectors.tolist()) == ("d", [[3, 4]])
    (pool,) = ADAPTER.parse_reply(asked, enveloped()).pools
    assert (pool.vector_name, pool.size) == (None, 0)


def test_a_large_payload_and_the_quick_way_stay_quick() -> None:
    body = enveloped(*[POINT % json.dumps({"text": "x" * 100_000})] * 20)
    began = time.thread_time()
    assert aside(ADAPTER.parse_reply(call(), body)) == 20
    assert time.thread_time() - began < 1.0


def fields_of(payload: str, *optional: str, must: tuple[str, ...] = ()) -> tuple[bytes | None, ...]:
    asked = call(b'{"query":[1,2],"with_payload":true}', needs=Needs(payload_fields=must, optional_fields=optional))
    (pool,) = ADAPTER.parse_reply(asked, enveloped(POINT % payload)).pools
    return pool.fields[0]


@given(
    st.lists(st.tuples(st.sampled_from(PAYLOAD_KEYS), st.sampled_from(PAYLOAD_TEXTS)), unique_by=lambda pair: pair[0]),
    st.booleans(),
)
def test_optional_fields_are_read_as_the_others_are(members: list[tuple[str, str]], is_ascii: bool) -> None:
    """Invariant: the quick reading gives the bytes that the proven one gives, whatever keys and values are."""
    payload = "{" + ",".join(f"{json.dumps(key, ensure_ascii=is_ascii)}:{text}" for key, text in members) + "}"
    assert fields_of(payload, *PAYLOAD_KEYS) == fields_of(payload, must=PAYLOAD_KEYS)


def test_a_repeated_key_is_malformed_where_it_decides_about_tenants_only() -> None:
    assert fields_of('{"t":1,"t":2}', "t") == (b"2",)
    with pytest.raises(MalformedReplyError):
        fields_of('{"t":1,"t":2}', must=("t",))


def test_beside_a_key_that_is_no_text_others_are_read() -> None:
    asked = call(b'{"query":[1,2],"with_payload":true}', needs=Needs(optional_fields=("a",)))
    body = enveloped((POINT % '{"a":1,"?":2}').encode().replace(b"?", b"\xff"))
    (pool,) = ADAPTER.parse_reply(asked, body).pools
    assert pool.fields == ((b"1",),)


def test_a_payload_of_sixty_thousand_keys_is_read_where_it_does_not_decide_about_tenants() -> None:
    many = "".join(f'"k{number}":1,' for number in range(60_000))
    assert fields_of(f'{{{many}"a":2}}', "a") == (b"2",)
    with pytest.raises(MalformedReplyError):
        fields_of(f'{{{many}"a":2}}', must=("a",))


def test_identifiers_are_upstreams_own_bytes() -> None:
    points = [
        (POINT % "{}").replace('"id":1', f'"id":{raw}') for raw in ("18446744073709551615", '"5c-4f"', '"\\ud800"')
    ]
    (pool,) = ADAPTER.parse_reply(call(), enveloped(*points)).pools
    assert pool.ids == (b"18446744073709551615", b'"5c-4f"', b'"\\ud800"')
