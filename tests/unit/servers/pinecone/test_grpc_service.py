"""Keys, versions, headers and refusals over gRPC, and where an index is served; the other emulator tests look at REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from servers.pinecone.calls import Limits
from servers.pinecone.control import from_spec
from servers.pinecone.grpc_messages import as_bytes, message_type
from servers.pinecone.grpc_service import METHODS
from servers.pinecone.server import Emulator, serve

from support.emulated import LOCAL, SERVERLESS

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
