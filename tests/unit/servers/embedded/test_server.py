"""The embedded server as a process and as an object: it starts, ends and keeps what it was given."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from servers.embedded.collections import Registry
from servers.embedded.fields import RefusalError
from servers.embedded.rest import EmbeddedServer, Rest, start

from support.process.forked import TESTS
from support.qdrant.embedded import Exchange, exchange, start_embedded_process
from vecsieve.config.addresses import Address

SETTINGS = {"vectors": {"size": 2, "distance": "Cosine"}, "sparse_vectors": {"sp": {}}}


def fill(url: str) -> None:
    exchange(url, "PUT", "/collections/kept", SETTINGS)
    points: list[dict[str, Any]] = [{"id": n, "vector": [1, n], "payload": {"n": n}} for n in range(20)]
    assert exchange(url, "PUT", "/collections/kept/points?wait=true", {"points": points}).status == 200
    # A refused write goes through the engine's log as well; it must not spoil the next start.
    assert exchange(url, "PUT", "/collections/kept/points", {"points": [{"id": 1, "vector": [1]}]}).status == 400


def contents(url: str) -> list[object]:
    page = exchange(url, "POST", "/collections/kept/points/scroll", {"limit": 100, "with_vector": True}).json
    info = exchange(url, "GET", "/collections/kept").json
    listed = exchange(url, "GET", "/collections").json
    return [page["result"], info["result"]["config"], listed["result"]]


def test_what_was_stored_under_a_path_is_there_after_a_restart(tmp_path: Path) -> None:
    with start_embedded_process(tmp_path) as url:
        fill(url)
        before = contents(url)
    with start_embedded_process(tmp_path) as url:
        assert contents(url) == before
        assert exchange(url, "DELETE", "/collections/kept").json["result"] is True
    with start_embedded_process(tmp_path) as url:
        assert exchange(url, "GET", "/collections").json["result"] == {"collections": []}


def test_a_killed_server_loses_no_acknowledged_write(tmp_path: Path) -> None:
    command = [sys.executable, str(TESTS / "servers/qdrant"), "--path", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        fill(url)
        before = contents(url)
        process.kill()
    with start_embedded_process(tmp_path) as url:
        assert contents(url) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_cleanly_even_with_a_connection_open(number: signal.Signals) -> None:
    command = [sys.executable, str(TESTS / "servers/qdrant")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):
            assert exchange(url, "GET", "/healthz").status == 200
            process.send_signal(number)
            assert process.wait(10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@asynccontextmanager
async def serving(path: Path | None = None) -> AsyncIterator[EmbeddedServer]:
    server = await start(Rest(Registry(path)), Address("127.0.0.1", 0))
    try:
        yield server
    finally:
        await server.close()


async def asked(url: str, *request: Any, **options: Any) -> Exchange:
    return await asyncio.to_thread(exchange, url, *request, **options)


async def test_without_a_path_nothing_is_left_behind() -> None:
    async with serving() as server:
        assert (await asked(server.url, "PUT", "/collections/c", SETTINGS)).status == 200
        root = server._registry.root
        assert (root / "collections" / "000001" / "shard").is_dir()
    assert not root.exists()


async def test_a_taken_port_is_an_error_and_lets_go_of_the_data(tmp_path: Path) -> None:
    async with serving() as server:
        with pytest.raises(OSError, match="use"):
            await start(Rest(Registry(tmp_path)), Address("127.0.0.1", server.port))
    async with serving(tmp_path) as later:
        assert (await asked(later.url, "GET", "/collections")).status == 200


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await asked(server.url, "PUT", "/collections/c", SETTINGS)
        with pytest.raises(RefusalError, match="WAL"):
            Registry(tmp_path)


async def test_an_interrupted_creation_is_not_a_collection_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await asked(server.url, "PUT", "/collections/whole", SETTINGS)
    shutil.copytree(tmp_path / "collections" / "000001", tmp_path / "collections" / "000002")
    (tmp_path / "collections" / "000002" / "collection.json").unlink()
    async with serving(tmp_path) as server:
        listed = await asked(server.url, "GET", "/collections")
        assert listed.json["result"] == {"collections": [{"name": "whole"}]}
        assert (await asked(server.url, "PUT", "/collections/next", SETTINGS)).status == 200
        assert (tmp_path / "collections" / "000003" / "collection.json").exists()


async def test_the_address_says_where_it_really_listens() -> None:
    async with serving() as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert server.port != 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/aliases"),
        ("PATCH", "/collections/c"),
        ("POST", "/collections/c/points/recommend"),
        ("POST", "/collections/c/points/query/groups"),
        ("DELETE", "/"),
        ("GET", "/nothing/like/it"),
    ],
)
async def test_a_path_that_is_not_served_is_named_in_a_404_of_qdrants_shape(method: str, path: str) -> None:
    async with serving() as server:
        await asked(server.url, "PUT", "/collections/c", SETTINGS)
        answer = await asked(server.url, method, path, None if method in {"GET", "DELETE"} else {})
    error = f"Not found: the embedded server does not serve {method} {path}"
    assert (answer.status, answer.json) == (404, {"status": {"error": error}, "time": 0.0})


async def test_it_says_what_it_is_and_that_it_is_well() -> None:
    async with serving() as server:
        about = (await asked(server.url, "GET", "/")).json
        assert about == {"title": "qdrant - vector search engine", "version": "1.19.0"}
        for path in ("/healthz", "/livez", "/readyz"):
            answer = await asked(server.url, "GET", path)
            assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
