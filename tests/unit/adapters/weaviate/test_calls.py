from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends import transports
from support.backends.transports import REST
from support.grpc.wire_fields import number_field
from support.weaviate.conversations import search
from support.weaviate.messages import message_type
from support.weaviate.model import QUERY_MAXIMUM_RESULTS, Collection, RefusalError, Stored
from vecsieve.adapters.contract import MalformedReplyError, Needs, Operation, RequestHead
from vecsieve.adapters.weaviate.calls import PATH, UNARY, WeaviateRest, classify, default_limit, read_schema
from vecsieve.adapters.weaviate.grpc_request import describe, parse_description
from vecsieve.adapters.wire.protobuf import length_field

OPERATION = Operation(backend="weaviate", name="search", collection="Docs")


def collection(objects: int, default: int) -> Collection:
    stored = [Stored(id=f"00000000-0000-0000-0000-{number:012}", properties={"text": "x"}) for number in range(objects)]
    return Collection(name="Docs", properties=("text",), objects=stored, default_limit=default)


def test_a_search_without_a_limit_is_asked_about_with_the_least_there_is() -> None:
    question = describe(OPERATION, search(collection="Docs", near_text={"query": ["x"]}))
    assert question is not None
    assert (question.method, question.target) == ("POST", PATH)
    request = message_type("SearchRequest").FromString(question.body)
    assert (request.collection, request.tenant, request.limit) == ("Docs", "", 0)
    assert request.HasField("properties")
    assert not request.properties.ListFields()
    assert [name.name for name, _ in request.ListFields()] == ["collection", "properties", "metadata", "uses_127_api"]


def test_the_question_is_about_the_same_tenant() -> None:
    question = describe(OPERATION, search(collection="Docs", tenant="t", bm25_search={"query": "x"}))
    assert question is not None
    assert message_type("SearchRequest").FromString(question.body).tenant == "t"


@pytest.mark.parametrize(
    "message", [search(collection="Docs", limit=1), search(), b"\xff", b"\xf0\x01\x05\xf0\x01\x06"]
)
def test_a_search_with_a_limit_or_without_a_collection_asks_nothing(message: bytes) -> None:
    assert describe(OPERATION, message) is None


@pytest.mark.parametrize("default", [10, 25, 40])
def test_the_list_is_as_long_as_the_servers_default(default: int) -> None:
    question = describe(OPERATION, search(collection="Docs"))
    assert question is not None
    assert parse_description(collection(50, default).answer(question.body)) == default
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


NAMED = length_field(1, b"Docs")
TENANT = length_field(10, "größe".encode())


def head(path: str = PATH, message: bytes = NAMED) -> RequestHead:
    return RequestHead(method="POST", path=path, message=message)


def test_a_search_is_named_and_so_is_its_collection() -> None:
    assert classify(head()) == Operation(backend="weaviate", name="search", collection="Docs")


def test_a_tenant_stands_behind_its_collection() -> None:
    assert classify(head(message=TENANT + NAMED)) == Operation(
        backend="weaviate", name="search", collection="Docs/größe"
    )
    assert classify(head(message=NAMED + length_field(10, b""))) == classify(head())


@pytest.mark.parametrize(
    "path",
    [
        "/weaviate.v1.Weaviate/BatchObjects",
        "/weaviate.v1.Weaviate/Aggregate",
        "/weaviate.v1.Weaviate/search",
        "/weaviate.v0.Weaviate/Search",
        "/grpc.health.v1.Health/Check",
        "",
    ],
)
def test_everything_else_is_none_of_ours(path: str) -> None:
    assert classify(head(path)) is None


@pytest.mark.parametrize("message", [b"", b"\xff", number_field(1, 1), NAMED * 2, length_field(1, b"\xff")])
def test_a_message_that_does_not_tell_its_collection_still_names_the_operation(message: bytes) -> None:
    assert classify(head(message=message)) == Operation(backend="weaviate", name="search", collection="")


def test_what_streams_is_not_taken_for_a_call_of_one_message() -> None:
    assert PATH in UNARY
    assert "/grpc.health.v1.Health/Check" in UNARY
    assert not any("Stream" in path for path in UNARY)


ADAPTER = WeaviateRest()


@given(method=st.sampled_from(["GET", "POST", "PUT"]), path=st.text(max_size=40))
def test_nothing_over_http_is_a_search_of_ours(method: str, path: str) -> None:
    """Whatever the head, it is passed through."""
    assert ADAPTER.classify(RequestHead(method=method, path=path, content_type="application/json")) is None


def test_graphql_and_objects_are_passed_through() -> None:
    adapter = REST["weaviate"].adapter()
    assert isinstance(adapter, WeaviateRest)
    for path in ("/v1/graphql", "/v1/objects", "/v1/schema", "/v1/meta"):
        assert adapter.classify(RequestHead(method="POST", path=path, content_type="application/json")) is None


REST_DIALECT, GRPC_DIALECT = transports.REST["weaviate"].dialect(), transports.GRPC["weaviate"].dialect()
UNKNOWN = 2
DOCS = Collection(name="Docs", properties=(), named=("a", "b"))


def refusal(body: bytes) -> bytes:
    """The server's words."""
    try:
        DOCS.answer(body)
    except RefusalError as error:
        return str(error).encode()
    raise AssertionError("it was no refusal")


def test_an_error_over_rest_is_a_list_of_messages() -> None:
    answer = REST_DIALECT.error(502, 'no "upstream" é')
    assert (answer.status, answer.content_type) == (502, "application/json")
    assert json.loads(answer.body) == {"error": [{"message": 'no "upstream" é'}]}


def test_an_error_over_grpc_is_its_details() -> None:
    answer = GRPC_DIALECT.error(14, "no upstream")
    assert (answer.status, answer.content_type, answer.body) == (14, "", b"no upstream")


def test_the_largest_limit_is_read_from_the_servers_own_refusal() -> None:
    words = refusal(search(limit=20_000, bm25_search={"query": "x"}))
    assert GRPC_DIALECT.refused_limit(UNKNOWN, words) == QUERY_MAXIMUM_RESULTS
    assert GRPC_DIALECT.refused_limit(0, words) is None
    assert GRPC_DIALECT.refused_limit(UNKNOWN, b"something else") is None


def test_a_vector_that_does_not_exist_is_told_by_the_servers_own_refusal() -> None:
    words = refusal(search(near_vector={"vector": [1.0], "target_vectors": ["c"]}))
    assert GRPC_DIALECT.names_unknown_vector(UNKNOWN, words)
    assert not GRPC_DIALECT.names_unknown_vector(UNKNOWN, b"could not find class Docs in schema")


def test_over_rest_no_refusal_is_about_a_search_of_ours() -> None:
    assert REST_DIALECT.refused_limit(422, b"QUERY_MAXIMUM_RESULTS '10'") is None
    assert not REST_DIALECT.names_unknown_vector(422, b"does not have named vector c")


# The description of a collection, as the server writes it over REST.

COSINE, L2 = {"distance": "cosine", "ef": -1}, {"distance": "l2-squared"}


def described(**members: Any) -> bytes:
    return json.dumps({"class": "Docs", "vectorizer": "none", **members}).encode()


def test_properties_have_their_types() -> None:
    properties = [
        {"name": "text", "dataType": ["text"], "tokenization": "word"},
        {"name": "tags", "dataType": ["text[]"]},
        {"name": "of", "dataType": ["Other", "Another"]},
    ]
    schema = read_schema(described(properties=properties, vectorIndexConfig=COSINE))
    assert (schema.name, schema.types) == ("Docs", {"text": "text", "tags": "text[]"})


@pytest.mark.parametrize(
    ("members", "distances"),
    [
        ({"vectorIndexConfig": COSINE, "properties": None}, {"": "cosine"}),
        ({"vectorConfig": {"a": {"vectorIndexConfig": L2, "vectorizer": {"none": {}}}}}, {"a": "l2-squared"}),
        ({"vectorConfig": {"a": {"vectorIndexConfig": COSINE}, "b": {}}}, {"a": "cosine", "b": ""}),
        (
            {"vectorConfig": {"a": {"vectorIndexConfig": L2}}, "vectorIndexConfig": COSINE},
            {"a": "l2-squared", "": "cosine"},
        ),
        ({}, {"": ""}),
    ],
)
def test_vectors_have_their_distances(members: dict[str, Any], distances: dict[str, str]) -> None:
    assert read_schema(described(**members)).distances == distances


@pytest.mark.parametrize(("names", "expected"), [("a", "a"), ("ab", None), ("", "")])
def test_a_vector_without_a_name_may_be_the_only_named_one(names: str, expected: str | None) -> None:
    config = {name: {"vectorIndexConfig": COSINE} for name in names}
    schema = read_schema(described(**({"vectorConfig": config} if names else {"vectorIndexConfig": COSINE})))
    assert schema.target("") == expected
    assert schema.target("c") is None
    assert all(schema.target(name) == name for name in names)


@given(st.binary(max_size=40), st.integers(0, 120), st.integers(0, 20))
def test_a_damaged_description_is_read_or_malformed(junk: bytes, at: int, cut: int) -> None:
    """Damage raises MalformedReplyError or nothing."""
    whole = described(properties=[{"name": "text", "dataType": ["text"]}], vectorIndexConfig=COSINE)
    try:
        schema = read_schema(whole[:at] + junk + whole[at + cut :])
    except MalformedReplyError:
        return
    assert schema.distances
