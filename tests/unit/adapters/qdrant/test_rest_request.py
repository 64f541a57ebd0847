from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.backends.transports import reason_of
from vecsieve.adapters.contract import Needs, Operation, Reason, Search, UnsupportedError
from vecsieve.adapters.qdrant.ranking import Payload
from vecsieve.adapters.qdrant.rest_request import (
    ENDPOINTS,
    Document,
    _read_request,
    parse_request,
    read_payload,
    read_vectors,
    widen,
    widen_payload,
    widen_vectors,
)

PLAIN = Needs()


def parsed(name: str, body: bytes | dict[str, Any], needs: Needs = PLAIN) -> tuple[tuple[Search, ...], Document]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    call = parse_request(Operation(backend="qdrant", name=name, collection="c"), raw, needs)
    assert isinstance(call.document, Document)
    return call.searches, call.document


def widened(name: str, body: bytes, *fetch_k: int) -> bytes:
    return widen(parsed(name, body)[1], fetch_k)


@pytest.mark.parametrize("name", ["search", "recommend", "discover"])
def test_the_older_endpoints_have_no_default_limit(name: str) -> None:
    ranking: dict[str, Any] = {"vector": [1]} if name == "search" else {}
    assert reason_of(parsed, name, ranking) is Reason.AMBIGUOUS_FIELD
    assert reason_of(parsed, name, {**ranking, "limit": None}) is Reason.AMBIGUOUS_FIELD
    assert parsed(name, {**ranking, "limit": 3})[0][0].top_k == 3
    assert parsed(name, {**ranking, "top": 4})[0][0].top_k == 4


@pytest.mark.parametrize(("offset", "pages"), [(b"0", True), (b"7", True)])
def test_a_named_offset_means_paging_even_at_zero(offset: bytes, pages: bool) -> None:
    body = b'{"query":[1],"limit":5,"offset":%s}' % offset
    (search,), _ = parsed("query", body)
    assert (search.offset, search.pages) == (int(offset), pages)
    assert b'"offset":0' in widened("query", body, 30)


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        # a limit that is no plain positive integer
        ("query", b'{"query":[1],"limit":0}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":-1}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":1.0}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":1e1}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":"5"}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":true}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":[5]}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":-0}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"limit":99999999999999999999}', Reason.AMBIGUOUS_FIELD),
        # an offset that is no plain integer
        ("query", b'{"query":[1],"offset":-1}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"offset":1.0}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"offset":"5"}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"offset":true}', Reason.AMBIGUOUS_FIELD),
        ("query", b'{"query":[1],"offset":{}}', Reason.AMBIGUOUS_FIELD),
        # a field named twice
        ("search", b'{"vector":[1],"limit":5,"top":5}', Reason.AMBIGUOUS_FIELD),
        ("search", b'{"vector":[1],"limit":5,"with_vector":true,"with_vectors":true}', Reason.AMBIGUOUS_FIELD),
        ("search", b'{"vector":[1],"limit":5,"limit":5}', Reason.AMBIGUOUS_FIELD),
        ("search", b'{"vector":[1],"limit":5,"lim\\u0069t":6}', Reason.AMBIGUOUS_FIELD),
        ("search", b'{"vector":[1],"limit":5,"offset":1,"offset":2}', Reason.AMBIGUOUS_FIELD),
        pytest.param("query", b'{"query":[1],"filter":' + b'{"must":' * 100_000, Reason.NOT_JSON, id="100,000 levels"),
        # the first result alone
        ("query", {"query": [1], "limit": 1, "offset": None}, Reason.SINGLE_RESULT),
        ("query", {"query": [1], "limit": 1, "offset": 0}, Reason.SINGLE_RESULT),
        # a batch without an item of ours
        ("query_batch", b'{"searches":[]}', Reason.NOTHING_TO_DO),
        ("query_batch", b'{"searches":[{"query":{"sample":"random"}}]}', Reason.NOTHING_TO_DO),
        ("query_batch", b'{"searches":[1,null]}', Reason.NOTHING_TO_DO),
        # a batch of another shape
        ("query_batch", b"{}", Reason.NOT_JSON),
        ("query_batch", b'{"searches":{}}', Reason.NOT_JSON),
        ("query_batch", b'{"searches":[{"query":[1]}],"more":1}', Reason.UNSUPPORTED_FIELD),
        ("query_batch", b'{"searches":[{"query":[1]}],"searches":[]}', Reason.AMBIGUOUS_FIELD),
        pytest.param("query", b'{"query":{"\xff":1}}', Reason.UNSUPPORTED_FIELD, id="no Unicode text"),
    ],
)
def test_what_is_not_understood_or_has_nothing_to_choose_is_left_alone(name: str, body: Any, reason: Reason) -> None:
    assert reason_of(parsed, name, body) is reason


def test_a_repeated_key_in_the_query_is_ambiguous_and_one_in_the_filter_is_the_servers() -> None:
    assert reason_of(parsed, "query", b'{"query":{"nearest":[1],"nearest":[2]}}') is Reason.AMBIGUOUS_FIELD
    assert parsed("query", b'{"query":[1],"filter":{"must":[],"must":[]}}')


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b'{"query":[1]}x',
        b'\xef\xbb\xbf{"query":[1]}',
        b'{"query":NaN}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("name", ["query", "query_batch"])
def test_what_is_no_json_object_is_not_json(name: str, body: bytes) -> None:
    assert reason_of(parsed, name, body) is Reason.NOT_JSON


@pytest.mark.parametrize("name", sorted(ENDPOINTS))
def test_a_member_that_is_not_known_leaves_the_search_alone(name: str) -> None:
    ranking: dict[str, Any] = {"query": {"query": [1]}, "search": {"vector": [1]}}.get(name, {})
    assert reason_of(parsed, name, {**ranking, "limit": 3, "diversity": 0.5}) is Reason.UNSUPPORTED_FIELD


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (b"true", b"true"),
        (b"false", b'["a"]'),
        (b"null", b'["a"]'),
        (b"[]", b'["a"]'),
        (b"[ ]", b'[ "a"]'),
        (b'["x"]', b'["x","a"]'),
        (b'["a"]', b'["a"]'),
        (b'["\\u0061", "x" ]', b'["\\u0061", "x" ]'),
    ],
)
@pytest.mark.parametrize("spelling", [b"with_vector", b"with_vectors"])
def test_the_vector_selector_is_united_with_the_compared_vector(
    spelling: bytes, selector: bytes, expected: bytes
) -> None:
    body = b'{"query":[1],"using":"a","limit":5,"%s":%s}' % (spelling, selector)
    assert widened("query", body, 5) == body.replace(selector + b"}", expected + b"}")


@pytest.mark.parametrize("selector", ['"a"', "1", "[1]", "{}", '["a",null]', '["\\ud800"]'])
def test_a_vector_selector_of_another_kind_is_left_to_the_server(selector: str) -> None:
    body = b'{"query":[1],"with_vector":%s}' % selector.encode()
    assert reason_of(parsed, "query", body) in {Reason.UNSUPPORTED_FIELD, Reason.NOT_JSON}


def test_names_that_need_escaping_are_escaped() -> None:
    body = json.dumps({"query": [1], "using": 'a"\\größe'}).encode()
    assert json.loads(widened("query", body, 20))["with_vector"] == ['a"\\größe']


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(b'["ghost"]', b'["ghost","s"]'), (b"[]", b'["s"]'), (b'["s"]', b'["s"]'), (b"true", b"true")],
)
def test_names_the_client_selects_are_still_asked_for_so_that_an_unknown_one_stays_an_error(
    selector: bytes, expected: bytes
) -> None:
    body = b'{"query":{"indices":[1],"values":[0.5]},"using":"s","with_vector":%s}'
    assert widened("query", body % selector, 10) == body % expected


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("query", b'{"query":[0.5,1e-1,-2]}'),
        ("query", b'{"query":{"nearest":[0.5,1e-1,-2]}}'),
        ("search", b'{"vector":[0.5,1e-1,-2],"limit":5}'),
        ("search", b'{"vector":{"name":"a","vector":[0.5,1e-1,-2]},"limit":5}'),
    ],
)
def test_a_dense_query_vector_is_read(name: str, body: bytes) -> None:
    (search,), _ = parsed(name, body)
    assert search.query is not None
    assert search.query.dtype == np.float32
    np.testing.assert_array_equal(search.query, np.array([0.5, 0.1, -2], dtype=np.float32))


@pytest.mark.parametrize(
    "query", [[], ["a"], [1e39], [[1.0]], 5, "id", {"indices": [1], "values": [1]}, {"fusion": "rrf"}]
)
def test_without_a_usable_dense_query_there_is_none(query: object) -> None:
    (search,), _ = parsed("query", {"query": query})
    assert search.query is None


def test_items_that_are_not_ours_keep_their_place_and_their_bytes() -> None:
    body = (
        b'{"searches": [ {"query":{"sample":"random"}} , 5, {"query":[1],"limit":3}, {"query":[2],"limit":1},'
        b' {"query":[3],"x":1,"x":2}, {"query":[4],"limit":4} ]}'
    )
    searches, document = parsed("query_batch", body)
    assert [search.top_k for search in searches] == [3, 4]
    assert document.batch == 6
    assert [plan.index for plan in document.plans] == [2, 5]
    assert widen(document, [30, 40]) == body.replace(
        b'{"query":[1],"limit":3}', b'{"with_vector":[""],"query":[1],"limit":30}'
    ).replace(b'{"query":[4],"limit":4}', b'{"with_vector":[""],"query":[4],"limit":40}')


def test_one_count_is_requested_for_each_search() -> None:
    with pytest.raises(ValueError, match="zip"):
        widened("query", b'{"query":[1]}', 20, 20)


TEXT = Needs(optional_fields=("text",))


@pytest.mark.parametrize("selector", [["text.part"], {"exclude": ["text"]}, {"include": ["a"], "exclude": ["b"]}, 7])
def test_an_optional_field_never_refuses_a_search(selector: object) -> None:
    body = {"query": [1], "with_payload": selector}
    assert widen(parsed("query", body, TEXT)[1], [24]) == widen(parsed("query", body)[1], [24])
    assert reason_of(parsed, "query", body, Needs(payload_fields=("text",))) is Reason.PAYLOAD_SELECTOR


LONG = [0.5 + number / 64 for number in range(40)]
ASIDE_BODIES = (
    {"query": LONG},
    {"query": {"nearest": LONG}, "limit": 7, "with_payload": True, "using": "a"},
    {"limit": 3, "offset": 4, "shard_key": "k", "query": LONG, "with_vector": ["a"]},
    {"filter": {"must": [{"key": "k", "match": {"value": 1}}]}, "query": LONG, "limit": 5},
    {"query": LONG, "filter": {"must": [{"has_id": [1, 2]}]}, "with_payload": ["text"]},
    {"params": {"hnsw_ef": 64}, "prefetch": {"query": LONG}, "query": {"fusion": "rrf"}},
    {"query": [LONG, LONG], "limit": 5},
    {"query": {"recommend": {"positive": [LONG]}}, "limit": 5},
    {"query": [*LONG, "1"], "limit": 5},
)


@pytest.mark.parametrize("body", ASIDE_BODIES)
@pytest.mark.parametrize("needs", [PLAIN, Needs(optional_fields=("text",)), Needs(vectors=False, values=False)])
def test_a_vector_that_is_set_aside_changes_nothing_of_what_is_read_and_sent(
    body: dict[str, Any], needs: Needs
) -> None:
    raw = json.dumps(body).encode()
    for _ in range(2):  # the second time the rest is known
        (search,), document = parsed("query", raw, needs)
        (read,), as_whole, _, _ = _read_request("query", raw, needs)
        mine, others = (b"" if part.query is None else part.query.tobytes() for part in (search, read))
        assert mine == others
        assert replace(search, query=None) == replace(read, query=None)
        assert widen(document, [50]) == widen(as_whole, [50])


@pytest.mark.parametrize(
    ("array", "reason"),
    [(b"[1 2%s]", Reason.NOT_JSON), (b"[1,%s]", None), (b"[01%s]", Reason.NOT_JSON), (b"[%s}", Reason.NOT_JSON)],
)
def test_an_array_that_is_none_is_refused_as_in_a_whole_request(array: bytes, reason: Reason | None) -> None:
    whole = b'{"limit":9,"query":' + array % (b",2.5" * 40).lstrip(b"," if array == b"[1,%s]" else b"") + b"}"
    parsed("query", b'{"limit":9,"query":%s}' % json.dumps(LONG).encode())
    if reason is None:
        assert parsed("query", whole)[0][0].query is not None
    else:
        assert reason_of(parsed, "query", whole) is reason


def planned(
    selector: str | None, *fields: str, optional: tuple[str, ...] = (), may_force: bool = True
) -> tuple[bytes | None, Payload]:
    """The new selector, and the additions."""
    text, span = (selector or "").encode(), None if selector is None else (0, len(selector.encode()))
    payload = read_payload(text, span, Needs(payload_fields=fields, optional_fields=optional), may_force=may_force)
    return widen_payload(text, span, payload)[1], payload


@pytest.mark.parametrize("selector", [None, "null", "false", "true", "[]", '["a"]', '{"exclude":["k"]}', "5", '"x"'])
def test_nothing_is_planned_where_no_field_is_needed(selector: str | None) -> None:
    assert planned(selector) == (None, Payload())


@pytest.mark.parametrize(
    ("selector", "value", "added"),
    [
        ("[]", b'["k"]', ("k",)),
        ('["a"]', b'["a","k"]', ("k",)),
        ('[ "a" , "a.b" ]', b'[ "a" , "a.b" ,"k"]', ("k",)),
        ('["k"]', None, ()),
        ('["a","k"]', None, ()),
        ('{"include":["a"]}', b'["a","k"]', ("k",)),
        ('{"include":["k"]}', None, ()),
        ('["kk","k_","k-1"]', b'["kk","k_","k-1","k"]', ("k",)),
    ],
)
def test_missing_keys_are_added_to_a_list(selector: str, value: bytes | None, added: tuple[str, ...]) -> None:
    assert planned(selector, "k") == (value, Payload(added))


def test_an_exclusion_that_spares_the_key_is_left() -> None:
    assert planned('{"exclude":["a","b.k"]}', "k") == (None, Payload())


@pytest.mark.parametrize(
    "selector",
    [
        '["k.part"]',
        '["k[]"]',
        '["k[0].part"]',
        '["\\"k\\""]',
        '{"include":["k.part"]}',
        '{"exclude":["k"]}',
        '{"exclude":["k.part"]}',
        '{"exclude":["\\"k\\""]}',
        '{"include":["a"],"exclude":["b"]}',
        '{"something":["a"]}',
        "{}",
        "5",
        '"k"',
        '["a",1]',
        '{"include":"k"}',
        '["größe"]',
    ],
)
def test_a_selection_that_could_not_be_restored_is_unsupported(selector: str) -> None:
    fields = ("gr",) if "gr" in selector else ("k",)
    assert reason_of(planned, selector, *fields) is Reason.PAYLOAD_SELECTOR


@pytest.mark.parametrize("selector", [None, "[]", '["a.b"]', '{"include":[]}'])
def test_a_key_that_reads_like_a_path_is_never_asked_for(selector: str | None) -> None:
    with pytest.raises(UnsupportedError):
        planned(selector, "a.b")


@pytest.mark.parametrize(
    ("selector", "value", "added"),
    [
        ('["a"]', b'["a","k","l"]', ("k", "l")),
        ('["a","k"]', b'["a","k","l"]', ("l",)),
        ('["k.part"]', b'["k.part","l"]', ("l",)),
        ('["k[].part","k"]', b'["k[].part","k","l"]', ("l",)),
        ('{"include":["k.part","l"]}', None, ()),
        ('{"exclude":["k"]}', None, ()),
        ('["\\"k\\""]', None, ()),
        ('{"include":["a"],"exclude":["b"]}', None, ()),
        ('{"include":["a"],"include":["b"]}', None, ()),
        ("{}", None, ()),
        ("5", None, ()),
        ('["a",1]', None, ()),
        ("true", None, ()),
    ],
)
def test_an_optional_key_that_could_not_be_restored_costs_itself_alone(
    selector: str, value: bytes | None, added: tuple[str, ...]
) -> None:
    selection, plan = planned(selector, optional=("k", "l"))
    assert (selection, plan.is_forced, plan.added) == (value, False, added)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, False), ("null", False), ("false", False), ("true", True), ("[]", ()), ('["", "a"]', ("", "a"))],
)
def test_vector_selectors_are_read(text: str | None, expected: bool | tuple[str, ...]) -> None:
    body = (text or "").encode()
    assert read_vectors(body, None if text is None else (0, len(body))).selection == expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (b"true", "a", None),
        (b"true", None, None),
        (b"false", None, b"true"),
        (b'["a"]', None, b"true"),
        (b"false", "a", b'["a"]'),
        (b'["b"]', "a", b'["b","a"]'),
        (b'["a"]', "a", None),
        (b"[\n]", 'q"', b'[\n"q\\""]'),
    ],
)
def test_the_compared_vector_is_added_where_it_is_missing(
    text: bytes, name: str | None, expected: bytes | None
) -> None:
    assert widen_vectors(text, read_vectors(text, (0, len(text))), name) == expected


@pytest.mark.parametrize(
    ("selector", "is_cut"),
    [
        ("true", False),
        ("false", False),
        ("[]", False),
        ('["k"]', False),
        ('["k.a"]', True),
        ('["k[].a", "x"]', True),
        ('["\\"k\\""]', True),
        ('{"include":["x"]}', False),
        ('{"exclude":["x"]}', False),
        ('{"exclude":["k"]}', True),
        ('{"exclude":["k.a"]}', True),
        ('{"exclude":["x"],"exclude":["k"]}', True),
    ],
)
def test_a_plan_says_whether_optional_keys_come_whole(selector: str, is_cut: bool) -> None:
    assert planned(selector, optional=("k",))[1].is_cut is is_cut
    assert planned(selector, optional=("k", "a.b"))[1].is_cut is (is_cut or selector != "true")
    assert not planned(selector)[1].is_cut
