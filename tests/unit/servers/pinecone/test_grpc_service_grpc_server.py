from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from servers.pinecone.calls import Limits
from servers.pinecone.grpc_messages import as_bytes
from servers.pinecone.grpc_service import GrpcServer, Service
from servers.pinecone.rest import Edge

from support.emulated import index

KEY = (("api-key", "k"), ("x-pinecone-api-version", "2026-04"))


def service() -> Service:
    made = index(dimension=20_000)
    return Service(lambda: made, Edge(None), Limits(upsert=2**40, result=2**40))


async def test_who_connects_before_the_start_waits_and_is_answered() -> None:
    server = GrpcServer(service())
    async with grpc.aio.insecure_channel(server.inner.grpc) as channel:
        method: Any = channel.unary_unary("/VectorService/DescribeIndexStats")
        call = method(b"", metadata=KEY, timeout=10, wait_for_ready=True)
        await server.start()
        assert await call
    await server.close()


async def test_messages_above_grpcs_own_limit_of_four_megabytes_pass_both_ways() -> None:
    server = GrpcServer(service())
    await server.start()
    vectors = [{"id": str(number), "values": [number + 1.0] * 20_000} for number in range(80)]
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(server.inner.grpc, options=options) as channel:
        upsert: Any = channel.unary_unary("/VectorService/Upsert")
        sent = as_bytes("UpsertRequest", {"vectors": vectors})
        assert len(sent) > 6_000_000
        assert await upsert(sent, metadata=KEY, timeout=30) == b"\x08\x50"
        fetch: Any = channel.unary_unary("/VectorService/Fetch")
        request = as_bytes("FetchRequest", {"ids": [one["id"] for one in vectors]})
        assert len(await fetch(request, metadata=KEY, timeout=30)) > 6_000_000
    await server.close()


async def test_it_leaves_nothing_behind() -> None:
    server = GrpcServer(service())
    await server.start()
    place = Path(server.inner.path)
    assert place.is_socket()
    await server.close()
    assert not place.parent.exists()
