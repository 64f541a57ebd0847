"""The emulator on the wire: where indexes are, which listener answers for what, and what a large request meets."""

from __future__ import annotations

import socket
import ssl
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from aiohttp import ClientSession, TCPConnector
from servers.pinecone.grpc_messages import as_bytes, as_json
from servers.pinecone.server import Emulator, serve
from servers.pinecone.store import label_of

from support.certificates import Certificates, make_certificates
from support.embedded import Exchange, exchange
from support.emulated import LOCAL, SERVERLESS, emulated
from vecsieve.proxy.http.tls import server_context

KEY = {"Api-Key": "pcsk_test", "X-Pinecone-Api-Version": "2026-04"}
DENSE = {"name": "movies", "dimension": 2, "metric": "cosine", "spec": SERVERLESS}


def send(url: str, method: str, path: str, body: object = None) -> Exchange:
    return exchange(url, method, path, body, headers=KEY)


def made(emulator: Emulator, name: str = "movies") -> str:
    answer = send(emulator.url, "POST", "/indexes", {**DENSE, "name": name})
    assert answer.status == 201
    host: str = answer.json["host"]
    assert send(host, "POST", "/vectors/upsert", {"vectors": [{"id": name, "values": [1, 0]}]}).status == 200
    return host


def found(host: str) -> list[str]:
    answer = send(host, "POST", "/query", {"topK": 5, "vector": [1, 0]})
    return [match["id"] for match in answer.json["matches"]]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with emulated() as running:
        yield running


def test_each_index_has_a_port_of_its_own(emulator: Emulator) -> None:
    one, two = made(emulator, "one"), made(emulator, "two")
    assert len({one, two, emulator.url}) == 3
    assert (found(one), found(two)) == (["one"], ["two"])
    described = send(emulator.url, "GET", "/indexes/one").json
    assert described["host"] == described["private_host"] == one


def test_the_control_plane_has_no_data_and_an_index_no_control_plane(emulator: Emulator) -> None:
    host = made(emulator, "split")
    assert send(emulator.url, "POST", "/query", {}).body == (
        b'{"status":404,"error":{"code":"NOT_FOUND","message":"this emulator has no POST /query in version 2026-04"}}'
    )
    answer = send(host, "GET", "/indexes")
    assert (answer.status, answer.json["code"]) == (404, 5)


def test_a_deleted_index_answers_no_more_and_one_made_anew_is_where_it_was(emulator: Emulator) -> None:
    host = made(emulator, "again")
    assert send(emulator.url, "DELETE", "/indexes/again").status == 202
    gone = send(host, "POST", "/query", {"topK": 1, "vector": [1, 0]})
    assert (gone.status, gone.json) == (404, {"code": 5, "message": "Index not found", "details": []})
    assert made(emulator, "again") == host


def send_to(host: str, emulator: Emulator, path: str, body: object) -> Any:
    """POST to the emulator under the name of an index."""
    connection = HTTPConnection("127.0.0.1", emulator.port, timeout=10)
    connection.request("POST", path, orjson.dumps(body), headers={**KEY, "Host": host})
    answer = connection.getresponse()
    assert answer.status == 200
    said = orjson.loads(answer.read())
    connection.close()
    return said


def test_indexes_may_share_a_port_and_be_told_apart_by_their_host() -> None:
    forms = {"host_form": "{label}.svc.emulator.test:{port}", "private_form": "{label}.svc.private.emulator.test"}
    with emulated(**forms) as running:
        for name in ("one", "two"):
            described = send(running.url, "POST", "/indexes", {**DENSE, "name": name}).json
            label = label_of(name)
            assert described["host"] == f"{label}.svc.emulator.test:{running.port}"
            assert described["private_host"] == f"{label}.svc.private.emulator.test"
            send_to(described["host"], running, "/vectors/upsert", {"vectors": [{"id": name, "values": [1, 0]}]})
        query = {"topK": 5, "vector": [1, 0]}
        for host, name in ((label_of("two"), "two"), (label_of("one").upper(), "one")):
            matches = send_to(f"{host}.svc.private.emulator.test", running, "/query", query)["matches"]
            assert [match["id"] for match in matches] == [name]
        assert len(send(running.url, "GET", "/indexes").json["indexes"]) == 2


def test_a_thousand_uuids_can_be_fetched(emulator: Emulator) -> None:
    host = made(emulator, "many")
    query = "&".join(f"ids={uuid.UUID(int=number)}" for number in range(1000))
    answer = send(host, "GET", f"/vectors/fetch?{query}&ids=many")
    assert answer.status == 400
    answer = send(host, "GET", f"/vectors/fetch?{query.partition('&')[2]}&ids=many")
    assert list(answer.json["vectors"]) == ["many"]


def test_a_body_of_two_megabytes_is_taken(emulator: Emulator) -> None:
    host = made(emulator, "large")
    body = b'{"vectors":[{"id":"x","values":[1,2]}]}'.ljust(2 * 1024 * 1024)
    assert send(host, "POST", "/vectors/upsert", body).json == {"upsertedCount": 1}
    refused = send(host, "POST", "/vectors/upsert", body + b" ")
    assert (refused.status, refused.json["code"]) == (400, 11)


async def test_it_listens_where_it_is_told_and_lets_go_of_it() -> None:
    async with serve(LOCAL) as running:
        assert running.url == f"http://127.0.0.1:{running.port}"
    with socket.create_server(("127.0.0.1", running.port)):
        pass


async def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = type(LOCAL)("127.0.0.1", other.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            async with serve(address):
                pytest.fail("it must not start")


def test_two_emulators_know_nothing_of_each_other(emulator: Emulator) -> None:
    made(emulator, "mine")
    with emulated() as other:
        listed: list[Any] = send(other.url, "GET", "/indexes").json["indexes"]
        assert listed == []


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
