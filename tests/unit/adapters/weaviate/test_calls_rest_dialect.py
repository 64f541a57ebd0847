from __future__ import annotations

import json

from support.backends import transports
from support.weaviate.conversations import search
from support.weaviate.model import QUERY_MAXIMUM_RESULTS, Collection, RefusalError

REST, GRPC = transports.REST["weaviate"].dialect(), transports.GRPC["weaviate"].dialect()
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
    answer = REST.error(502, 'no "upstream" é')
    assert (answer.status, answer.content_type) == (502, "application/json")
    assert json.loads(answer.body) == {"error": [{"message": 'no "upstream" é'}]}


def test_an_error_over_grpc_is_its_details() -> None:
    answer = GRPC.error(14, "no upstream")
    assert (answer.status, answer.content_type, answer.body) == (14, "", b"no upstream")


def test_the_largest_limit_is_read_from_the_servers_own_refusal() -> None:
    words = refusal(search(limit=20_000, bm25_search={"query": "x"}))
    assert GRPC.refused_limit(UNKNOWN, words) == QUERY_MAXIMUM_RESULTS
    assert GRPC.refused_limit(0, words) is None
    assert GRPC.refused_limit(UNKNOWN, b"something else") is None


def test_a_vector_that_does_not_exist_is_told_by_the_servers_own_refusal() -> None:
    words = refusal(search(near_vector={"vector": [1.0], "target_vectors": ["c"]}))
    assert GRPC.names_unknown_vector(UNKNOWN, words)
    assert not GRPC.names_unknown_vector(UNKNOWN, b"could not find class Docs in schema")


def test_over_rest_no_refusal_is_about_a_search_of_ours() -> None:
    assert REST.refused_limit(422, b"QUERY_MAXIMUM_RESULTS '10'") is None
    assert not REST.names_unknown_vector(422, b"does not have named vector c")
