from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.weaviate.conversations import search
from support.weaviate.messages import message_type
from support.weaviate.model import Collection, Stored
from vecsieve.adapters.contract import MalformedReplyError, Needs, Operation
from vecsieve.adapters.weaviate.calls import PATH, default_limit
from vecsieve.adapters.weaviate.grpc_request import describe, parse_description

OPERATION = Operation(backend="weaviate", name="search", collection="Docs")


def collection(objects: int, default: int) -> Collection:
    stored = [Stored(id=f"00000000-0000-0000-0000-{number:012}", properties={"text": "x"}) for number in range(objects)]
    return Collection(name="Docs", properties=("text",), objects=stored, default_limit=default)


def test_a_search_without_a_limit_is_asked_about_with_the_least_there_is() -> None:
    asked = describe(OPERATION, search(collection="Docs", near_text={"query": ["x"]}))
    assert asked is not None
    assert (asked.method, asked.target) == ("POST", PATH)
    request = message_type("SearchRequest").FromString(asked.body)
    assert (request.collection, request.tenant, request.limit) == ("Docs", "", 0)
    assert request.HasField("properties")
    assert not request.properties.ListFields()
    assert [name.name for name, _ in request.ListFields()] == ["collection", "properties", "metadata", "uses_127_api"]


def test_the_question_is_about_the_same_tenant() -> None:
    asked = describe(OPERATION, search(collection="Docs", tenant="t", bm25_search={"query": "x"}))
    assert asked is not None
    assert message_type("SearchRequest").FromString(asked.body).tenant == "t"


@pytest.mark.parametrize(
    "message", [search(collection="Docs", limit=1), search(), b"\xff", b"\xf0\x01\x05\xf0\x01\x06"]
)
def test_a_search_with_a_limit_or_without_a_collection_asks_nothing(message: bytes) -> None:
    assert describe(OPERATION, message) is None


@pytest.mark.parametrize("default", [10, 25, 40])
def test_the_list_is_as_long_as_the_servers_default(default: int) -> None:
    asked = describe(OPERATION, search(collection="Docs"))
    assert asked is not None
    assert parse_description(collection(50, default).answer(asked.body)) == default
    assert default_limit(Needs(known=default)) == default


@pytest.mark.parametrize("known", [None, 0, 9])
def test_a_short_list_says_nothing(known: int | None) -> None:
    assert default_limit(Needs(known=known)) is None


def test_what_another_adapter_was_told_is_refused() -> None:
    with pytest.raises(TypeError):
        default_limit(Needs(known="schema"))


@given(body=st.binary(max_size=40))
def test_arbitrary_bytes_are_counted_or_malformed(body: bytes) -> None:
    """Nothing but a number or the verdict comes of any bytes, and a question of any bytes is one or none."""
    describe(OPERATION, body)
    with suppress(MalformedReplyError):
        assert parse_description(body) >= 0
