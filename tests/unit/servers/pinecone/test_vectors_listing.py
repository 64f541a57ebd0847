from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.errors import RefusalError
from servers.pinecone.store import Index
from servers.pinecone.vectors import list_ids, page_of, upsert

from support.emulated import call, index, refused, said

NS = ("namespace", "ns")


def filled(count: int) -> Index:
    target = index()
    vectors = [{"id": f"p{number:03}", "values": [1, 1]} for number in reversed(range(count))]
    call(upsert, target, {"vectors": [*vectors, {"id": "other", "values": [1, 1]}], "namespace": "ns"})
    return target


def test_ids_with_a_prefix_in_order_and_no_pagination_on_the_last_page() -> None:
    answer = call(list_ids, filled(2), query=(NS, ("prefix", "p"), ("limit", "5")))
    assert answer.body == (b'{"vectors":[{"id":"p000"},{"id":"p001"}],"namespace":"ns","usage":{"readUnits":1}}')


def test_pages_follow_one_another_by_their_token() -> None:
    target = filled(250)
    seen: list[str] = []
    token: tuple[tuple[str, str], ...] = ()
    for _ in range(3):
        page = said(list_ids, target, query=(NS, ("prefix", "p"), *token))
        seen += [one["id"] for one in page["vectors"]]
        if "pagination" in page:
            token = (("paginationToken", page["pagination"]["next"]),)
    assert seen == [f"p{number:03}" for number in range(250)]


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1"])
def test_a_page_has_one_to_a_hundred(limit: str) -> None:
    assert refused(list_ids, filled(1), query=(NS, ("limit", limit))).code.status == 400


@pytest.mark.parametrize("token", ["x", "e30=", base64.b64encode(b'{"skip_past":1}').decode(), "é"])
def test_a_made_up_token_is_refused(token: str) -> None:
    with pytest.raises(RefusalError, match="Invalid pagination token"):
        page_of(["a"], 1, token)


@given(st.sets(st.text(max_size=4)), st.integers(1, 5))
def test_pages_cover_everything_once_and_in_order(names: set[str], limit: int) -> None:
    """The pages, put together, are the names."""
    expected, seen, token = sorted(names), [], ""
    while True:
        page, pagination = page_of(expected, limit, token)
        assert len(page) <= limit
        seen += page
        if not pagination:
            break
        token = pagination["pagination"]["next"]
    assert seen == expected
