"""All points of a collection: what is asked for, and what the replies say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import ListsPoints, MalformedReplyError, Named, Needs, RequestHead
from vecsieve.adapters.qdrant.rest import QdrantRest, describing, listed, listing, named_vectors, searching


def described(vectors: object) -> bytes:
    return json.dumps({"result": {"status": "green", "config": {"params": {"vectors": vectors}}}}).encode()


@pytest.mark.parametrize(
    ("vectors", "wanted"),
    [
        ({"size": 4, "distance": "Dot"}, (Named("", 4),)),
        ({"a": {"size": 4}, "b": {"size": 8, "multivector_config": None}}, (Named("a", 4), Named("b", 8))),
        ({"a": {"size": 4, "multivector_config": {"comparator": "max_sim"}}}, ()),
        ({}, ()),
    ],
)
def test_the_dense_vectors_of_a_collection_are_named(vectors: object, wanted: tuple[Named, ...]) -> None:
    assert named_vectors(described(vectors)) == wanted


def test_a_page_of_ids_is_asked_for_and_read() -> None:
    first = listing("a b/c", after=b"", count=50)
    assert (first.method, first.target) == ("POST", "/collections/a%20b%2Fc/points/scroll")
    assert json.loads(first.body) == {"limit": 50, "with_payload": False, "with_vector": False}
    found = listed(b'{"result":{"points":[{"id":7},{"id":"u-1"}],"next_page_offset":"u-2"},"status":"ok"}')
    assert (found.ids, found.after) == ((b"7", b'"u-1"'), b'"u-2"')
    assert json.loads(listing("c", after=found.after, count=5).body)["offset"] == "u-2"


@pytest.mark.parametrize("end", [b',"next_page_offset":null', b""])
def test_the_last_page_has_nothing_behind_it(end: bytes) -> None:
    assert listed(b'{"result":{"points":[]' + end + b"}}").after == b""


@given(st.binary(max_size=60))
def test_any_other_reply_is_malformed(body: bytes) -> None:
    """Invariant: bytes that are no such reply raise MalformedReplyError, nothing else."""
    for read in (named_vectors, listed):
        with pytest.raises(MalformedReplyError):
            read(body)


@pytest.mark.parametrize("name", ["", "title", 'odd "é"'])
def test_the_search_of_a_page_is_one_that_a_client_may_send(name: str) -> None:
    adapter = QdrantRest()
    assert isinstance(adapter, ListsPoints)
    asked = searching("c d", Named(name, 4), [b"7", b'"u-1"'])
    operation = adapter.classify(RequestHead(method=asked.method, path=asked.target))
    assert operation is not None
    assert operation.collection == "c d"
    call = adapter.parse_request(operation, asked.body, Needs(optional_fields=("text",)))
    assert call.searches[0].query is not None
    widened = json.loads(adapter.widen(call, (2,)))
    assert widened["with_vector"] in (True, [name])
    assert widened["filter"] == {"must": [{"has_id": [7, "u-1"]}]}
    assert widened.get("using", "") == name


def test_a_collection_is_described_by_its_own_path() -> None:
    assert describing("a/b").target == "/collections/a%2Fb"
