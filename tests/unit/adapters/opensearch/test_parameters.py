"""The query string of a search: what of it moves into the body of a widened one, and what passes through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import REST, operation_of, reason_of
from vecsieve.adapters.contract import Needs, Reason, RequestHead, SearchCall, UnsupportedError
from vecsieve.adapters.opensearch.parameters import without_moved

ADAPTER = REST["elasticsearch"].adapter()
KNN = {"knn": {"field": "vec", "query_vector": [0.5], "k": 30, "num_candidates": 90}}


def parsed(query: str, path: str = "/docs/_search", **members: Any) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=path, query=query))
    body = json.dumps({**KNN, **members}).encode()
    lines = b"{}\n" + body + b"\n"
    return ADAPTER.parse_request(operation, lines if path.endswith("_msearch") else body, Needs(vectors=False))


def widened(query: str, **members: Any) -> tuple[str | None, Any]:
    """The query string and the body, without the search itself."""
    call = parsed(query, **members)
    body = json.loads(ADAPTER.widen(call, [30]))
    return call.operation.query, {name: value for name, value in body.items() if name not in KNN}


@pytest.mark.parametrize(
    ("query", "members", "rest", "expected"),
    [
        ("", {}, None, {"size": 30}),
        ("pretty&routing=a%26b", {}, None, {"size": 30}),
        ("size=5", {}, "", {"size": 30}),
        ("size=5&from=2&pretty", {"size": 7}, "pretty", {"size": 30, "from": 0}),
        ("s%69ze=5&preference=_local", {}, "preference=_local", {"size": 30}),
        ("_source_includes=a,b&typed_keys=true", {"_source": True}, "typed_keys=true", {"_source": {"includes": ["a", "b"], "excludes": []}, "size": 30}),
        ("_source_excludes=vec", {}, "", {"_source": {"includes": [], "excludes": ["vec"]}, "size": 30}),
        ("_source=a&_source_includes=b", {"_source": False}, "", {"_source": {"includes": ["a", "b"], "excludes": []}, "size": 30}),
        ("_source=true", {}, "", {"_source": {"includes": [], "excludes": []}, "size": 30}),
        ("_source=false", {"_source": ["a"]}, "", {"_source": False, "size": 30}),
        ("_source_exclude_vectors=false", {}, "", {"_source": {"includes": [], "excludes": [], "exclude_vectors": False}, "size": 30}),
    ],
)  # fmt: skip
def test_what_the_query_string_says_of_the_body_moves_into_it(
    query: str, members: Any, rest: str | None, expected: Any
) -> None:
    assert widened(query, **members) == (rest, expected)


def test_the_page_is_that_of_the_query_string() -> None:
    (search,) = parsed("size=5&from=2", size=7).searches
    assert (search.top_k, search.offset, search.pages) == (5, 2, True)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("q=x", Reason.UNSUPPORTED_FIELD),
        ("scroll=1m", Reason.UNSUPPORTED_FIELD),
        ("filter_path=hits.hits", Reason.UNSUPPORTED_FIELD),
        ("format=yaml", Reason.UNSUPPORTED_FIELD),
        ("source=%7B%7D", Reason.UNSUPPORTED_FIELD),
        ("X-Amz-Signature=1", Reason.UNSUPPORTED_FIELD),
        ("size=5&size=6", Reason.AMBIGUOUS_FIELD),
        ("size=-1", Reason.AMBIGUOUS_FIELD),
        ("size=", Reason.AMBIGUOUS_FIELD),
        ("_source=", Reason.AMBIGUOUS_FIELD),
        ("_source_includes=a,,b", Reason.AMBIGUOUS_FIELD),
        ("_source_exclude_vectors=no", Reason.AMBIGUOUS_FIELD),
    ],
)
def test_other_members_pass_through(query: str, reason: Reason) -> None:
    assert reason_of(parsed, query) is reason


@pytest.mark.parametrize(
    "members", [{"size": None}, {"size": "5"}, {"from": -1}, {"_source": None}, {"_source": {"later": 1}}], ids=str
)
def test_a_body_that_the_server_may_refuse_is_not_mended_by_the_query_string(members: Any) -> None:
    assert reason_of(parsed, "size=4&from=1&_source=text", **members) is Reason.AMBIGUOUS_FIELD


def test_neighbours_that_follow_the_bodys_own_size_are_not_counted_by_the_query_strings() -> None:
    """Elasticsearch reads them before the query string, but for the query `knn`."""
    clause = {"field": "vec", "query_vector": [0.5]}
    assert parsed("pretty", knn=clause).searches[0].top_k == 10
    assert parsed("size=5", knn={**clause, "k": 9}).searches[0].top_k == 5
    with pytest.raises(UnsupportedError):
        parsed("size=5", size=3, knn=clause)


def test_a_batch_has_no_members_that_move() -> None:
    assert len(parsed("typed_keys=true", "/docs/_msearch").searches) == 1
    with pytest.raises(UnsupportedError):
        parsed("size=5", "/docs/_msearch")


@given(st.text(alphabet="size&=from_ourc%69?é", max_size=30))
def test_any_query_string_is_read(query: str) -> None:
    rest = without_moved(query)
    assert rest is None or len(rest) < len(query)
    assert without_moved(rest or "") is None
