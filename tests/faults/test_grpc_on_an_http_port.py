"""A gRPC client on a port without gRPC is told so in its own protocol, and the log names the remedy once."""

from __future__ import annotations

import grpc
import pytest

from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange, reply
from support.process.running import running

METHOD = "/qdrant.Points/Search"


async def refused(port: int) -> grpc.aio.AioRpcError:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=20)
        return caught.value


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("qdrant", "VecSieve serves no gRPC here: start it with --grpc-upstream HOST:PORT"),
        ("chroma", "VecSieve serves no gRPC here: chroma has none"),
    ],
)
async def test_a_call_is_unimplemented_with_the_remedy(
    backend: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with FaultyUpstream(answering(reply(b"{}"))) as database, running(database.url, backend=backend) as proxy:
        for _ in range(2):
            error = await refused(proxy.port)
            assert (error.code(), error.details()) == (grpc.StatusCode.UNIMPLEMENTED, words)
        assert database.requests == []
        answer = await raw_exchange(proxy.port, b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), "clients of HTTP are served as before"
    assert [record.getMessage() for record in caplog.records if "gRPC" in record.getMessage()] == [
        f"a gRPC client was refused: {words}"
    ]
