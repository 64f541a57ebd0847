from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of
from support.exchanges.conversation import Conversation
from support.qdrant.bodies import PAYLOAD_KEYS, PAYLOAD_TEXTS, conversations, servers
from support.qdrant.model import Server
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
from vecsieve.adapters.qdrant.rest_reply import (
    ReplyDocument,
    _read_any,
    _read_compact,
    compare,
    find_best,
    has_null,
    member_cut,
    named,
    read_points,
    score_of,
)
from vecsieve.adapters.qdrant.rest_request import Document
from vecsieve.adapters.wire.json import Span, cuts, elements, members_of
from vecsieve.adapters.wire.json_vectors import set_aside

ADAPTER = QdrantRest()
POINT = '{"id":1,"version":0,"score":0.5,"payload":%s,"vector":[0.6,0.8]}'


def call(body: bytes = b'{"query":[1,2],"limit":5}', path: str = "query", needs: Needs | None = None) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=f"/collections/c/points/{path}"))
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
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=talk.path))
    try:
        search = ADAPTER.parse_request(operation, talk.body, Needs(payload_fields=fields))
    except UnsupportedError:
        return
    body = talk.answer(ADAPTER.widen(search, [9] * len(search.searches)))
    quick = ADAPTER.parse_reply(search, body)
    assert isinstance(search.document, Document)
    pools, document = rest_reply._read(search.document, search.needs, set_aside(body, ()))
    for one, other in zip(quick.pools, pools, strict=True):
        assert_same(one, other)
    keep = [np.arange(pool.size)[::-2] for pool in pools]
    assert ADAPTER.trim(search, quick, keep) == ADAPTER.trim(search, Reply(pools=pools, document=document), keep)


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
    search = call(b'{"query":[1,2],"with_payload":true}', needs=Needs(payload_fields=("tenant", "text")))
    points = [
        POINT % '{"text":"\\ud83d\\ude00","tenant":{"a": [1 ]}}',
        '{"id":2,"version":0,"score":null,"payload":{"tenant":null}}',
        '{"id":3,"version":0,"score":-1e-7,"vector":{}}',
    ]
    (pool,) = ADAPTER.parse_reply(search, enveloped(*points)).pools
    np.testing.assert_array_equal(pool.scores, [0.5, np.nan, -1e-7])
    assert pool.fields == ((b'{"a": [1 ]}', b'"\\ud83d\\ude00"'), (b"null", None), (None, None))
    assert pool.unusable == 2
    assert pool.vector_name is None


def test_what_was_found_by_asking_for_everything_is_told() -> None:
    search = call(b'{"query":{"indices":[1],"values":[1]},"using":"s"}')
    both = '{"id":1,"version":0,"score":1,"vector":{"s":{"indices":[1],"values":[1.0]},"d":[3,4]}}'
    (pool,) = ADAPTER.parse_reply(search, enveloped(both)).pools
    assert (pool.vector_name, pool.vectors.tolist()) == ("d", [[3, 4]])
    (pool,) = ADAPTER.parse_reply(search, enveloped()).pools
    assert (pool.vector_name, pool.size) == (None, 0)


def test_a_large_payload_and_the_quick_way_stay_quick() -> None:
    body = enveloped(*[POINT % json.dumps({"text": "x" * 100_000})] * 20)
    began = time.thread_time()
    assert aside(ADAPTER.parse_reply(call(), body)) == 20
    assert time.thread_time() - began < 1.0


def fields_of(payload: str, *optional: str, must: tuple[str, ...] = ()) -> tuple[bytes | None, ...]:
    search = call(b'{"query":[1,2],"with_payload":true}', needs=Needs(payload_fields=must, optional_fields=optional))
    (pool,) = ADAPTER.parse_reply(search, enveloped(POINT % payload)).pools
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
    search = call(b'{"query":[1,2],"with_payload":true}', needs=Needs(optional_fields=("a",)))
    body = enveloped((POINT % '{"a":1,"?":2}').encode().replace(b"?", b"\xff"))
    (pool,) = ADAPTER.parse_reply(search, body).pools
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


WHOLE_POINT = b'{"id":1,"version":2,"score":0.5,"payload":{"a":1},"vector":[1,2],"shard_key":"s","order_value":3}'


def one(text: bytes) -> list[bytes | None]:
    (point,) = read_points(text, (0, len(text)))
    spans = (point.span, point.id, point.score, point.payload, point.vector)
    return [None if span is None else text[span[0] : span[1]] for span in spans]


@given(made=servers(is_old=st.booleans()), wants=st.sampled_from([b"true", b"false"]))
def test_both_readings_of_a_list_agree(made: tuple[Server, dict[str, str]], wants: bytes) -> None:
    # Invariant: whatever a server writes is compact, and walking it member by member finds the same spans.
    body = made[0].answer("search", b'{"limit":9,"with_vector":%s,"with_payload":%s}' % (wants, wants))
    body = body.replace(b"\\ud800", b"\\u0041")
    array = len(b'{"result":'), body.index(made[0].tail.encode())
    compact = _read_compact(body, array)
    assert compact is not None
    assert compact == [_read_any(body, span) for span in elements(body, array)]


def test_a_compact_point_is_read() -> None:
    text = b"[" + WHOLE_POINT + b"]"
    assert _read_compact(text, (0, len(text))) is not None
    assert one(text) == [WHOLE_POINT, b"1", b"0.5", b'{"a":1}', b"[1,2]"]


@pytest.mark.parametrize(
    "text",
    [
        b'[ {"id":1,"version":2,"score":0.5,"vector":[1,2]}]',
        b'[{"id":1,"version":2,"score":0.5,"vector":[1,2]} ]',
        b'[{"id":1, "version":2,"score":0.5,"vector":[1,2]}]',
        b'[{"version":2,"id":1,"score":0.5,"vector":[1,2]}]',
        b'[{"id":1,"version":2,"score":0.5,"new":7,"vector":[1,2]}]',
        b'[{"id":1,"score":0.5,"vector":[1,2]}]',
        b'[{"i\\u0064":1,"version":2,"score":0.5,"vector":[1,2]}]',
    ],
)
def test_a_point_in_another_order_or_style_is_walked(text: bytes) -> None:
    assert _read_compact(text, (0, len(text))) is None
    point = one(text)
    assert point[1:] == [b"1", b"0.5", None, b"[1,2]"]
    assert point[0] == text[1:-1].strip()


@pytest.mark.parametrize(
    "point",
    [
        b"1",
        b"[]",
        b"null",
        b"{}",
        b'{"id":1,"version":1}',
        b'{"score":1,"version":1}',
        b'{"id":null,"version":1,"score":1}',
        b'{"id":-1,"version":1,"score":1}',
        b'{"id":{},"version":1,"score":1}',
        b'{"id":1,"version":1,"score":"1"}',
        b'{"id":1,"version":1,"score":true}',
        b'{"id":1,"version":1,"score":1,"payload":[]}',
        b'{"id":1,"version":1,"score":1,"payload":"{}"}',
        b'{"id":1,"version":1,"score":1,"score":1}',
        b'{"id":1,"version":1,"score":1,"id":1}',
        b'{"id":1,"version":1,"score":1,"vector":[1],"vector":[1]}',
        b'{"id":1,"version":1,"score":NaN}',
        b'{"id":1,"version":1,"score":1}{}',
    ],
)
def test_what_is_no_point_is_a_value_error(point: bytes) -> None:
    text = b"[" + WHOLE_POINT + b"," + point + b"]"
    with pytest.raises(ValueError, match=r"\w"):
        read_points(text, (0, len(text)))


@pytest.mark.parametrize(
    ("digits", "score"), [(b"1", 1.0), (b"1e-7", 1e-7), (b"-0.0", 0.0), (b"0.99999994", 0.99999994), (b"-3", -3.0)]
)
def test_scores_are_read_as_written(digits: bytes, score: float) -> None:
    text = b'[{"id":1,"version":1,"score":%s}]' % digits
    assert score_of(text, read_points(text, (0, len(text)))[0]) == score


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (b"", False),
        (b',"payload":{"vector":null}', False),
        (b',"payload":null', True),
        (b',"payload":{},"vector":null', True),
    ],
)
def test_nulls_of_the_server_are_told_from_nulls_of_the_user(members: bytes, expected: bool) -> None:
    text = b'[{"id":1,"version":1,"score":1%s}]' % members
    assert has_null(text, read_points(text, (0, len(text)))[0]) is expected


@pytest.mark.parametrize("name", ["payload", "vector"])
def test_a_member_that_stands_as_servers_write_it_is_cut_as_the_walk_would_cut_it(name: str) -> None:
    (point,) = read_points(b"[" + WHOLE_POINT + b"]", (0, len(WHOLE_POINT) + 2))
    value = {"payload": point.payload, "vector": point.vector}[name]
    assert value is not None
    assert [member_cut(b"[" + WHOLE_POINT + b"]", name, value)] == cuts(
        members_of(b"[" + WHOLE_POINT + b"]", point.span), {name}
    )


@pytest.mark.parametrize(
    "text",
    [
        b'[{"vector":[1],"id":1,"score":1}]',
        b'[{"id":1,"score":1 ,"vector":[1]}]',
        b'[{"id":1,"score":1, "vector":[1]}]',
        b'[{"id":1,"score":1,"vector": [1]}]',
        b'[{"id":1,"score":1,"v\\u0065ctor":[1]}]',
    ],
)
def test_a_member_in_another_place_or_style_is_left_to_the_walk(text: bytes) -> None:
    (point,) = read_points(text, (0, len(text)))
    assert point.vector is not None
    assert member_cut(text, "vector", point.vector) is None


def best(*values: dict[str, bytes], prefers: str = "") -> str | None:
    text = b""
    points: list[dict[str, Span]] = []
    for value in values:
        points.append({})
        for name, vector in value.items():
            points[-1][name] = (len(text), len(text) + len(vector))
            text += vector
    return find_best(text, points, prefers)


def sparse(indices: list[int], values: list[float]) -> bytes:
    return f'{{"indices":{indices},"values":{values}}}'.encode()


def test_names_of_a_vector_value() -> None:
    assert named(b"[1,2]", (0, 5)) == {"": (0, 5)}
    assert named(b"null", (0, 4)) == {}
    assert named(b"{}", (0, 2)) == {}
    assert named(b'{"a":[1],"":[[2]]}', (0, 18)) == {"a": (5, 8), "": (12, 17)}
    with pytest.raises(ValueError, match="neither"):
        named(b"5", (0, 1))


@pytest.mark.parametrize(
    ("point", "prefers", "expected"),
    [
        ({"d": b"[1,2]", "s": sparse([1], [1.0]), "m": b"[[1]]"}, "s", "d"),
        ({"d": b"[1]", "": b"[1,2]"}, "d", ""),
        ({"d": b"[1,2,3]", "e": b"[1,2]"}, "d", "e"),
        ({"e": b"[1,2]", "d": b"[1,2]"}, "", "d"),
        ({"s": sparse([1], [1.0]), "t": sparse([1], [1.0])}, "t", "t"),
        ({"m": b"[[1]]", "t": sparse([1], [1.0])}, "gone", "t"),
        ({"n": b"[[1]]", "m": b"[ [1]]"}, "gone", "m"),
        ({"": b"[[1]]", "s": sparse([1], [1.0])}, "s", "s"),
        ({}, "s", None),
    ],
)
def test_the_best_vector_to_compare_by(point: dict[str, bytes], prefers: str, expected: str | None) -> None:
    assert best(point, prefers=prefers) == expected
    assert best({}, dict(reversed(point.items())), prefers=prefers) == expected


@pytest.mark.parametrize("values", [[], [None], [None, b"[]"], [b"null"], [b"[[]]"], [sparse([], [])]])
def test_a_pool_without_vectors_has_no_columns(values: list[bytes | None]) -> None:
    result = compare(values)
    assert result.vectors.shape == (len(values), 0)
    assert result.unusable == len(values)


def test_sparse_vectors_become_rows_over_the_union_of_their_indices() -> None:
    result = compare([sparse([70000, 3], [0.5, 1.0]), None, sparse([5], [2.0]), sparse([3], [1.0])])
    assert result.vectors[[0, 2, 3]].tolist() == [[1.0, 0.0, 0.5], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    assert result.unusable == 1
    assert result.proven == (False,) * 4


def test_multivectors_are_not_compared() -> None:
    result = compare([b"[[1,2],[3,4]]", b"[[5,6]]", b"[[1,2],[3]]", b"[[1,null]]", b"[1,2]", b"[[true,1]]", None])
    assert result.vectors.shape == (7, 0)
    assert result.unusable == 7
