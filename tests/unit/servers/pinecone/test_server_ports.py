"""The emulator's ports as clients meet them: both transports at one address, plain and over TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import ClientSession, TCPConnector
from servers.pinecone.grpc_messages import as_bytes, as_json
from servers.pinecone.server import serve

from support.certificates import Certificates, make_certificates
from support.emulated import LOCAL, SERVERLESS
from vecsieve.proxy.http.tls import server_context

HEADERS = {"Api-Key": "k", "X-Pinecone-Api-Version": "2026-04"}
METADATA = tuple((name.lower(), value) for name, value in HEADERS.items())
CREATED = {"name": "docs", "dimension": 2, "metric": "cosine", "spec": SERVERLESS}
VECTOR = {"id": "a", "values": [1, 0]}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


class Client:
    """Both transports. ``authority``: the file that is trusted; None is plain."""

    def __init__(self, stack: AsyncExitStack, authority: Path | None) -> None:
        self._stack = stack
        self._authority = authority

    async def over_rest(self, url: str, path: str, body: object) -> Any:
        trusted = True if self._authority is None else ssl.create_default_context(cafile=str(self._authority))
        session = await self._stack.enter_async_context(ClientSession(connector=TCPConnector(ssl=trusted)))
        async with session.post(url + path, json=body, headers=HEADERS) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def over_grpc(self, address: str, name: str, request: Mapping[str, Any]) -> Any:
        channel = grpc.aio.insecure_channel(address)
        if self._authority is not None:
            channel = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(self._authority.read_bytes()))
        method: Any = (await self._stack.enter_async_context(channel)).unary_unary(f"/VectorService/{name}")
        reply = await method(as_bytes(f"{name}Request", request), metadata=METADATA, timeout=10)
        return as_json(f"{name}Response", reply)


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
async def test_an_index_answers_both_transports_at_the_host_that_the_control_plane_tells(
    is_tls: bool, files: Certificates
) -> None:
    tls = server_context(files.leaf, files.key, with_grpc=True) if is_tls else None
    async with serve(LOCAL, grpc=True, tls=tls) as emulator, AsyncExitStack() as stack:
        client = Client(stack, files.authority if is_tls else None)
        host = (await client.over_rest(emulator.url, "/indexes", CREATED))["host"]
        assert host == f"{'https' if is_tls else 'http'}://{emulator.grpc_address('docs')}"
        await client.over_rest(host, "/vectors/upsert", {"vectors": [VECTOR]})
        found = await client.over_grpc(emulator.grpc_address("docs"), "Query", {"topK": 1, "vector": [1, 0]})
        assert [match["id"] for match in found["matches"]] == ["a"]


async def test_with_hosts_for_names_grpc_is_spoken_at_a_port_for_each_index() -> None:
    async with (
        serve(LOCAL, grpc=True, host_form="{label}.svc.emulator.test:{port}") as emulator,
        AsyncExitStack() as stack,
    ):
        client = Client(stack, None)
        for name, size in (("docs", 2), ("chat", 3)):
            created = await client.over_rest(emulator.url, "/indexes", {**CREATED, "name": name, "dimension": size})
            assert created["host"].endswith(f".svc.emulator.test:{emulator.port}")
        sizes = [
            (await client.over_grpc(emulator.grpc_address(name), "DescribeIndexStats", {}))["dimension"]
            for name in ("docs", "chat")
        ]
        assert sizes == [2, 3]


async def test_where_no_grpc_is_asked_for_none_is_spoken() -> None:
    async with serve(LOCAL) as emulator, AsyncExitStack() as stack:
        client = Client(stack, None)
        await client.over_rest(emulator.url, "/indexes", CREATED)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.over_grpc(
                emulator.project.index("docs").host.removeprefix("http://"), "DescribeIndexStats", {}
            )
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_an_index_without_a_port_of_its_own_has_no_address() -> None:
    async with serve(LOCAL, host_form="{label}.svc.emulator.test") as emulator, AsyncExitStack() as stack:
        await Client(stack, None).over_rest(emulator.url, "/indexes", CREATED)
        with pytest.raises(KeyError, match="docs"):
            emulator.grpc_address("docs")


async def test_closing_frees_the_ports_though_clients_are_connected() -> None:
    async with AsyncExitStack() as stack:
        async with serve(LOCAL, grpc=True) as emulator:
            client = Client(stack, None)
            await client.over_rest(emulator.url, "/indexes", CREATED)
            await client.over_grpc(
                emulator.project.index("docs").host.removeprefix("http://"), "DescribeIndexStats", {}
            )
            ports = emulator.port, int(emulator.grpc_address("docs").rpartition(":")[2])
        for port in ports:
            with socket.create_server(("127.0.0.1", port)):
                pass
