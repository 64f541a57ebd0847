"""Keys, versions, headers and refusals over gRPC, and where an index is served; the other emulator tests look at REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from servers.pinecone import queries, vectors
from servers.pinecone.calls import OLDEST, Limits
from servers.pinecone.control import from_spec
from servers.pinecone.errors import RefusalError
from servers.pinecone.grpc_messages import MESSAGES, as_bytes, message_type
from servers.pinecone.grpc_service import METHODS, Said, answered
from servers.pinecone.rest import DATA
from servers.pinecone.server import Emulator, serve
from servers.pinecone.store import Index

from support.emulated import LOCAL, SERVERLESS, call, index

KEY = "pcsk_right"
DENSE = {"name": "movies", "dimension": 2, "metric": "cosine", "spec": SERVERLESS}


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with serve(LOCAL, api_key=KEY, grpc=True, limits=Limits(upsert=1000)) as running:
        running.project.add(from_spec(DENSE))
        yield running


Headers = Mapping[str, str]


def metadata(key: str | None = KEY, version: str | None = "2026-04") -> tuple[tuple[str, str], ...]:
    given = {"api-key": key, "x-pinecone-api-version": version}
    return tuple((name, value) for name, value in given.items() if value is not None)


async def send(
    address: str, name: str, body: Any, sent: tuple[tuple[str, str], ...] | None = None
) -> tuple[Any, Headers]:
    """A call's answer and what came before it. Raises grpc.aio.AioRpcError."""
    async with grpc.aio.insecure_channel(address) as channel:
        method: Any = channel.unary_unary(f"/VectorService/{name}")
        call = method(as_bytes(METHODS[name].request, body), metadata=metadata() if sent is None else sent, timeout=10)
        reply = message_type(METHODS[name].reply).FromString(await call)
        return MessageToDict(reply), dict(await call.initial_metadata())


async def refusal(address: str, name: str, body: Any, sent: tuple[tuple[str, str], ...] | None = None) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(address, name, body, sent)
    return caught.value


async def test_an_answer_carries_the_headers_of_the_edge_and_its_lsn(emulator: Emulator) -> None:
    address = emulator.grpc_address("movies")
    said, headers = await send(address, "Upsert", {"vectors": [{"id": "a", "values": [1, 0]}]})
    assert said == {"upsertedCount": 1}
    assert headers == {
        "x-pinecone-request-id": "0000000000000001",
        "x-pinecone-request-latency-ms": "1",
        "x-pinecone-response-duration-ms": "2",
        "x-envoy-upstream-service-time": "2",
        "x-pinecone-request-lsn": "1",
    }
    found, headers = await send(address, "Query", {"topK": 1, "id": "a"})
    assert [match["id"] for match in found["matches"]] == ["a"]
    assert headers["x-pinecone-max-indexed-lsn"] == "1"


@pytest.mark.parametrize(("key", "reason"), [(None, "Missing API key"), ("pcsk_wrong", "Wrong API key")])
async def test_a_key_that_is_missing_or_wrong_is_rejected(emulator: Emulator, key: str | None, reason: str) -> None:
    error = await refusal(emulator.grpc_address("movies"), "Query", {"topK": 1}, metadata(key))
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAUTHENTICATED, "Unauthorized")
    assert dict(error.trailing_metadata())["x-pinecone-auth-rejected-reason"] == reason


async def test_a_refusal_has_its_code_and_its_words(emulator: Emulator) -> None:
    address = emulator.grpc_address("movies")
    error = await refusal(address, "Query", {"topK": 1, "vector": [1]})
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "Vector dimension 1 does not match the dimension of the index 2"
    assert "x-pinecone-request-id" in dict(error.initial_metadata())
    error = await refusal(address, "Upsert", {"vectors": [{"id": "a" * 512, "values": [1, 0]}] * 2})
    assert error.code() is grpc.StatusCode.OUT_OF_RANGE
    error = await refusal(address, "Query", {"topK": 10_001, "vector": [1, 0]})
    assert error.details() == "topK must be from 1 to 10000, got 10001"


async def test_without_a_version_the_oldest_behaviour_answers(emulator: Emulator) -> None:
    address = emulator.grpc_address("movies")
    assert (await refusal(address, "ListNamespaces", {}, metadata(version=None))).code().name == "UNIMPLEMENTED"
    assert (await send(address, "ListNamespaces", {}))[0] == {}


async def test_a_method_nobody_has_is_refused(emulator: Emulator) -> None:
    async with grpc.aio.insecure_channel(emulator.grpc_address("movies")) as channel:
        for path in ("/VectorService/Quer", "/Other/Query", "/VectorService/", "/"):
            method: Any = channel.unary_unary(path)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(b"", metadata=metadata(), timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_bytes_that_are_no_message_are_an_error_inside(emulator: Emulator) -> None:
    async with grpc.aio.insecure_channel(emulator.grpc_address("movies")) as channel:
        method: Any = channel.unary_unary("/VectorService/Query")
        with pytest.raises(grpc.aio.AioRpcError, match="Error parsing a QueryRequest") as caught:
            await method(b"\xff", metadata=metadata(), timeout=10)
        assert caught.value.code() is grpc.StatusCode.INTERNAL


async def test_each_index_has_a_port_of_its_own_and_keeps_it(emulator: Emulator) -> None:
    emulator.project.add(from_spec({**DENSE, "name": "books"}))
    movies, books = emulator.grpc_address("movies"), emulator.grpc_address("books")
    assert movies != books
    await send(books, "Upsert", {"vectors": [{"id": "b", "values": [1, 0]}]})
    assert (await send(movies, "DescribeIndexStats", {}))[0].get("totalVectorCount") is None
    emulator.project.remove("books")
    error = await refusal(books, "Query", {"topK": 1, "id": "b"})
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "Index not found")
    emulator.project.add(from_spec({**DENSE, "name": "books"}))
    assert emulator.grpc_address("books") == books
    assert (await send(books, "DescribeIndexStats", {}))[0]["dimension"] == 2


async def test_an_emulator_without_grpc_has_no_address_for_it() -> None:
    async with serve(LOCAL) as running:
        running.project.add(from_spec(DENSE))
        with pytest.raises(KeyError):
            running.grpc_address("movies")


async def test_what_listened_listens_no_more() -> None:
    async with serve(LOCAL, grpc=True) as running:
        running.project.add(from_spec(DENSE))
        address = running.grpc_address("movies")
        await send(address, "DescribeIndexStats", {}, metadata("any"))
    assert (await refusal(address, "DescribeIndexStats", {}, metadata("any"))).code() is grpc.StatusCode.UNAVAILABLE


VECTORS = [
    {"id": "a", "values": [1, 0], "metadata": {"genre": "x", "year": 2020}},
    {"id": "b", "values": [0.6, 0.8], "metadata": {"genre": "y"}},
    {"id": "c", "values": [0.1, 0.3]},
]


@pytest.fixture
def filled() -> Index:
    made = index()
    answer(made, "Upsert", {"vectors": VECTORS, "namespace": "ns"})
    return made


def answer(
    target: Index, name: str, body: Any = None, *, version: str = "2026-04", limits: Limits | None = None
) -> Said:
    return answered(target, name, version, as_bytes(METHODS[name].request, body or {}), limits or Limits())


def said(target: Index, name: str, body: Any = None, **options: Any) -> Any:
    reply = message_type(METHODS[name].reply).FromString(answer(target, name, body, **options).message)
    return MessageToDict(reply)


def refused(target: Index, name: str, body: Any = None, **options: Any) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        answer(target, name, body, **options)
    return caught.value


def test_every_method_has_its_messages_and_its_rest_call() -> None:
    for method in METHODS.values():
        assert {method.request, method.reply} <= MESSAGES.keys()
        assert any((route.method, route.path) == (method.verb, method.path) for route in DATA)


def test_a_write_is_counted_and_a_search_says_what_it_saw() -> None:
    target = index()
    written = answer(target, "Upsert", {"vectors": VECTORS})
    assert written.headers == {"x-pinecone-request-lsn": "1"}
    assert written.message == b"\x08\x03"
    assert answer(target, "Query", {"topK": 1, "id": "a"}).headers == {"x-pinecone-max-indexed-lsn": "1"}


@pytest.mark.parametrize("shown", [{}, {"includeValues": True}, {"includeMetadata": True, "includeValues": True}])
def test_a_query_finds_what_it_finds_over_rest(filled: Index, shown: dict[str, bool]) -> None:
    body = {"topK": 2, "vector": [1, 0.5], "namespace": "ns", "filter": {"genre": {"$in": ["x", "y"]}}, **shown}
    rest = orjson.loads(call(queries.query, filled, body).body)
    over_grpc = message_type("QueryResponse").FromString(answer(filled, "Query", body).message)
    assert over_grpc.SerializeToString(deterministic=True) == as_bytes("QueryResponse", rest)
    matches = MessageToDict(over_grpc)["matches"]
    assert [match["id"] for match in matches] == ["a", "b"]
    assert all(("values" in match) is ("includeValues" in shown) for match in matches)


def test_records_are_fetched_and_listed(filled: Index) -> None:
    found = said(filled, "Fetch", {"ids": ["a", "a b", "missing"], "namespace": "ns"})
    assert found["vectors"] == {"a": {"id": "a", "values": [1.0, 0.0], "metadata": {"genre": "x", "year": 2020.0}}}
    assert (found["namespace"], found["usage"]) == ("ns", {"readUnits": 1})
    first = said(filled, "List", {"namespace": "ns", "limit": 2})
    assert [one["id"] for one in first["vectors"]] == ["a", "b"]
    token = first["pagination"]["next"]
    rest = said(filled, "List", {"namespace": "ns", "limit": 2, "paginationToken": token})
    assert (rest["vectors"], "pagination" in rest) == ([{"id": "c"}], False)
    assert said(filled, "List", {"namespace": "ns", "prefix": "b"})["vectors"] == [{"id": "b"}]
    by_metadata = said(filled, "FetchByMetadata", {"namespace": "ns", "filter": {"genre": "y"}})
    assert list(by_metadata["vectors"]) == ["b"]


def test_records_are_updated_and_deleted(filled: Index) -> None:
    assert said(filled, "Update", {"id": "a", "values": [0, 1], "setMetadata": {"new": True}, "namespace": "ns"}) == {}
    fetched = said(filled, "Fetch", {"ids": ["a"], "namespace": "ns"})["vectors"]["a"]
    assert fetched["values"] == [0.0, 1.0]
    assert fetched["metadata"] == {"genre": "x", "year": 2020.0, "new": True}
    by_filter = {"filter": {"genre": "x"}, "setMetadata": {"seen": True}, "namespace": "ns"}
    assert said(filled, "Update", by_filter) == {"matchedRecords": 1}
    said(filled, "Delete", {"ids": ["a"], "namespace": "ns"})
    assert said(filled, "DescribeIndexStats")["namespaces"] == {"ns": {"vectorCount": 2}}
    said(filled, "Delete", {"deleteAll": True, "namespace": "ns"})
    assert "vectors" not in said(filled, "List", {"namespace": "ns"})


def test_namespaces_are_made_listed_described_and_deleted(filled: Index) -> None:
    made = said(filled, "CreateNamespace", {"name": "a/b c", "schema": {"fields": {"genre": {"filterable": True}}}})
    assert made == {
        "name": "a/b c",
        "schema": {"fields": {"genre": {"filterable": True}}},
        "indexedFields": {"fields": ["genre"]},
    }
    assert said(filled, "DescribeNamespace", {"namespace": "a/b c"})["name"] == "a/b c"
    assert said(filled, "DescribeNamespace", {"namespace": "ns"}) == {"name": "ns", "recordCount": "3"}
    listed = said(filled, "ListNamespaces", {"prefix": "n"})
    assert (listed["namespaces"], listed["totalCount"]) == ([{"name": "ns", "recordCount": "3"}], 1)
    assert answer(filled, "DeleteNamespace", {"namespace": "ns"}).message == b""
    assert refused(filled, "DescribeNamespace", {"namespace": "ns"}).message == "Namespace not found"


def test_the_statistics_of_an_index(filled: Index) -> None:
    assert said(filled, "DescribeIndexStats") == {
        "namespaces": {"ns": {"vectorCount": 3}},
        "dimension": 2,
        "totalVectorCount": 3,
        "metric": "cosine",
        "vectorType": "dense",
    }


def test_refusals_have_the_words_and_the_number_of_rest(filled: Index) -> None:
    refusal = refused(filled, "Query", {"topK": 1, "vector": [1]})
    assert (refusal.code.number, refusal.message) == (
        3,
        "Vector dimension 1 does not match the dimension of the index 2",
    )
    assert refused(filled, "Query", {"vector": [1, 0]}).message.startswith("topK must be from 1 to 10000, got 0")
    assert refused(filled, "Fetch").code.number == 3
    assert refused(filled, "List", {"limit": 0}).code.number == 3


def test_a_version_that_has_no_such_call_does_not_implement_it(filled: Index) -> None:
    refusal = refused(filled, "ListNamespaces", version=OLDEST)
    assert (refusal.code.number, refusal.message) == (12, "unknown method ListNamespaces for service VectorService")


def test_an_upsert_is_measured_as_it_was_sent() -> None:
    many = {"vectors": [{"id": str(number), "values": [0.1, 0.2]} for number in range(20)]}
    size = len(as_bytes("UpsertRequest", many))
    assert len(orjson.dumps(many)) > size
    assert said(index(), "Upsert", many, limits=Limits(upsert=size)) == {"upsertedCount": 20}
    refusal = refused(index(), "Upsert", many, limits=Limits(upsert=size - 1))
    assert (refusal.code.number, str(size) in refusal.message) == (11, True)


def test_a_result_that_is_too_large_over_rest_is_too_large_here(filled: Index) -> None:
    body = {"topK": 3, "id": "a", "namespace": "ns", "includeValues": True}
    size = len(call(queries.query, filled, body).body)
    assert answer(filled, "Query", body, limits=Limits(result=size))
    assert refused(filled, "Query", body, limits=Limits(result=size - 1)).code.number == 11


def test_what_is_written_over_one_transport_is_read_over_the_other(filled: Index) -> None:
    values = [0.1, 1 / 3]
    call(vectors.upsert, filled, {"vectors": [{"id": "rest", "values": values}], "namespace": "ns"})
    said(filled, "Upsert", {"vectors": [{"id": "grpc", "values": values}], "namespace": "ns"})
    records = filled.namespaces["ns"].records
    assert records["rest"].dense["_values"].tobytes() == records["grpc"].dense["_values"].tobytes()
