from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client.grpc import collections_service_pb2, points_service_pb2, qdrant_pb2, snapshots_service_pb2

from support.grpc.wire_fields import number_field
from vecsieve.adapters.contract import Dialect, Operation, RequestHead
from vecsieve.adapters.qdrant.calls import (
    INVALID_ARGUMENT,
    METHODS,
    ROUTES,
    UNARY,
    QdrantDialect,
    QdrantGrpcDialect,
    classify_grpc,
    classify_rest,
)
from vecsieve.adapters.wire.protobuf import length_field

DIALECT: Dialect = QdrantDialect()
# The server's own words for max_query_limit = 10 and a request for 50.
REFUSAL = (
    b'{"status":{"error":"Bad request: Limit exceeded 50 > 10 for \\"limit\\". '
    b'Help: Reduce the \\"limit\\" parameter to or below 10."},"time":0.0}'
)


def test_an_error_has_the_servers_own_shape() -> None:
    answer = DIALECT.error(502, 'no "upstream" größe')
    assert answer.status == 502
    assert answer.content_type == "application/json"
    assert answer.body == '{"status":{"error":"no \\"upstream\\" größe"},"time":0.0}'.encode()


@given(message=st.text())
def test_any_message_makes_a_json_body(message: str) -> None:
    # Invariant: the body is JSON whatever the message; text that is Unicode is given back unchanged.
    body = json.loads(DIALECT.error(400, message).body)
    assert body["time"] == 0.0
    assert body["status"]["error"] == message.encode(errors="replace").decode()


def test_the_limit_of_strict_mode_is_learned_from_its_refusal() -> None:
    assert DIALECT.refused_limit(400, REFUSAL) == 10


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, REFUSAL),
        (422, REFUSAL),
        (429, REFUSAL),
        (400, b""),
        (400, b"plain text"),
        (400, b'{"status":"error"}'),
        (400, b'{"status":{"error":"Bad request: Limit exceeded 50 > 10 for \\"search_max_batchsize\\"."}}'),
        (400, b'{"status":{"error":"Bad request: Limit exceeded 999 > 99999999999999999999 for \\"limit\\"."}}'),
        (400, b'{"status":{"error":"Wrong input: Vector dimension error"},"time":0.0}'),
        (400, b"[" * 100_000),
        (400, b'{"status":{"error":"\xff"}}'),
    ],
)
def test_other_errors_teach_nothing(status: int, body: bytes) -> None:
    assert DIALECT.refused_limit(status, body) is None


def test_a_vector_that_does_not_exist_is_recognised_by_the_servers_words() -> None:
    words = b'{"status":{"error":"Wrong input: Not existing vector name error: late"},"time":0.001}'
    assert DIALECT.names_unknown_vector(400, words)
    assert not DIALECT.names_unknown_vector(404, words)
    assert not DIALECT.names_unknown_vector(400, REFUSAL)
    assert not DIALECT.names_unknown_vector(400, b"Not existing vector name")


GRPC_DIALECT: Dialect = QdrantGrpcDialect()
# The server's own words for max_query_limit = 10 and a request for 50.
GRPC_REFUSAL = b'Bad request: Limit exceeded 50 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.'
UNKNOWN = b"Wrong input: Not existing vector name error: late"


@given(message=st.text(), code=st.integers(1, 16))
def test_an_error_is_its_code_and_its_words(message: str, code: int) -> None:
    """Text that is Unicode is given back unchanged, and no text raises."""
    answer = GRPC_DIALECT.error(code, message, path="/qdrant.Points/Query")
    assert (answer.status, answer.content_type) == (code, "")
    assert answer.body == message.encode(errors="replace")


def test_a_refused_limit_is_learned_and_an_unknown_vector_recognised() -> None:
    assert GRPC_DIALECT.refused_limit(INVALID_ARGUMENT, GRPC_REFUSAL) == 10
    assert GRPC_DIALECT.names_unknown_vector(INVALID_ARGUMENT, UNKNOWN)
    assert GRPC_DIALECT.refused_limit(INVALID_ARGUMENT, UNKNOWN) is None
    assert not GRPC_DIALECT.names_unknown_vector(INVALID_ARGUMENT, GRPC_REFUSAL)


@pytest.mark.parametrize("code", [0, 5, 8, 13, 400])
def test_other_codes_teach_nothing(code: int) -> None:
    assert GRPC_DIALECT.refused_limit(code, GRPC_REFUSAL) is None
    assert not GRPC_DIALECT.names_unknown_vector(code, UNKNOWN)


NAMED = length_field(1, "größe".encode())


def head(path: str, message: bytes = NAMED) -> RequestHead:
    return RequestHead(method="POST", path=path, message=message)


def test_every_ranked_method_has_the_name_of_its_rest_endpoint() -> None:
    assert sorted(METHODS.values()) == sorted(ROUTES.values())
    for path, name in METHODS.items():
        assert classify_grpc(head(path)) == Operation(backend="qdrant", name=name, collection="größe")


def test_the_methods_are_those_of_the_service() -> None:
    service = points_service_pb2.DESCRIPTOR.services_by_name["Points"]
    ours = {path.rpartition("/")[2] for path in METHODS}
    assert ours <= {method.name for method in service.methods}
    assert {path.rpartition("/")[0] for path in METHODS} == {f"/{service.full_name}"}


@pytest.mark.parametrize(
    "path",
    [
        "/qdrant.Points/QueryGroups",
        "/qdrant.Points/SearchGroups",
        "/qdrant.Points/Scroll",
        "/qdrant.Points/Upsert",
        "/qdrant.Points/query",
        "/qdrant.Points/Query/",
        "qdrant.Points/Query",
        "/qdrant.PointsInternal/Query",
        "",
    ],
)
def test_everything_else_is_none_of_ours(path: str) -> None:
    assert classify_grpc(head(path)) is None


@pytest.mark.parametrize(
    "message", [b"", b"\xff", number_field(1, 1), NAMED * 2, length_field(1, b"\xff"), b"\x0a\x09"]
)
def test_a_message_that_does_not_tell_its_collection_still_names_the_operation(message: bytes) -> None:
    call = classify_grpc(head("/qdrant.Points/Search", message))
    assert call == Operation(backend="qdrant", name="search", collection="")


# What is taken for a call of one message each way is one, by the official client's own description.

MODULES = (points_service_pb2, collections_service_pb2, snapshots_service_pb2, qdrant_pb2)


def described() -> dict[str, bool]:
    """Every method of the client, and whether it streams."""
    return {
        f"/{service.full_name}/{method.name}": method.client_streaming or method.server_streaming
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def test_every_method_is_one_of_the_client_and_none_streams() -> None:
    known = described()
    paths = {path for path in UNARY if path.startswith("/qdrant.")}
    assert paths <= known.keys()
    assert not [path for path in paths if known[path]]


def test_a_method_that_a_newer_client_has_is_noticed() -> None:
    assert {path for path, streams in described().items() if not streams} <= UNARY


def test_every_search_is_among_them() -> None:
    assert set(METHODS) <= UNARY


def named(path: str, *, content_type: str = "application/json") -> Operation | None:
    return classify_rest(RequestHead(method="POST", path=path, content_type=content_type))


@pytest.mark.parametrize(("route", "name"), list(ROUTES.items()))
def test_each_search_endpoint_is_named(route: tuple[str, ...], name: str) -> None:
    expected = Operation(backend="qdrant", name=name, collection="docs")
    assert named("/collections/docs/points/" + "/".join(route)) == expected


def test_slashes_are_merged_and_trailing_ones_dropped_as_the_server_does() -> None:
    operation = named("//collections///docs//points/search//")
    assert operation == Operation(backend="qdrant", name="search", collection="docs")


@pytest.mark.parametrize(
    ("segment", "collection"),
    [
        ("my%20col%2F%C3%A9", "my col/é"),
        ("a+b", "a+b"),
        ("größe", "größe"),
        ("points", "points"),
        ("..", ".."),
        ("%", "%"),
    ],
)
def test_a_collections_name_is_split_off_before_it_is_decoded(segment: str, collection: str) -> None:
    operation = named(f"/collections/{segment}/points/query")
    assert operation is not None
    assert operation.collection == collection


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "collections/docs/points/search",
        "/collections/docs/points",
        "/collections/docs/points/scroll",
        "/collections/docs/points/count",
        "/collections/docs/points/query/groups",
        "/collections/docs/points/search/groups",
        "/collections/docs/points/recommend/groups",
        "/collections/docs/points/search/matrix/pairs",
        "/collections/docs/points/search/matrix/offsets",
        "/collections/docs/points/query/batch/more",
        "/collections/docs/facet",
        "/collections/docs/shards/1/points/scroll",
        "/collections/docs/shards/1/points/query",
        "/collections//points/query",
        "/prefix/collections/docs/points/query",
        "/Collections/docs/points/query",
        "/collections/docs/points/QUERY",
        "/collections/docs%2Fpoints/query",
        "/collections/%ff/points/query",
        "/collections/\ud800/points/query",
    ],
)
def test_everything_else_goes_through(path: str) -> None:
    assert named(path) is None


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"]
)
def test_json_and_unstated_content_types_are_taken(content_type: str) -> None:
    assert named("/collections/docs/points/search", content_type=content_type) is not None


@pytest.mark.parametrize("content_type", ["text/plain", "application/jsonx", "application/x-ndjson", ";", "json"])
def test_other_content_types_go_through(content_type: str) -> None:
    assert (named("/collections/docs/points/search", content_type=content_type) is None) == (content_type != ";")


REFUSAL_WORDS = 'Bad request: Limit exceeded 50 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.'


def test_over_grpc_the_limit_of_strict_mode_is_learned_from_its_refusal() -> None:
    assert GRPC_DIALECT.refused_limit(INVALID_ARGUMENT, REFUSAL_WORDS.encode()) == 10
    assert not GRPC_DIALECT.names_unknown_vector(INVALID_ARGUMENT, REFUSAL_WORDS.encode())


@pytest.mark.parametrize(
    "words",
    [
        "",
        'Bad request: Limit exceeded 50 > 10 for "search_max_batchsize".',
        f'Limit exceeded 50 > {"9" * 19} for "limit"',
        "Wrong input: Vector dimension error",
    ],
)
def test_other_words_teach_nothing(words: str) -> None:
    assert GRPC_DIALECT.refused_limit(INVALID_ARGUMENT, words.encode()) is None


def test_a_vector_that_does_not_exist_is_recognised() -> None:
    assert GRPC_DIALECT.names_unknown_vector(INVALID_ARGUMENT, b"Wrong input: Not existing vector name error: late")
