"""The proxy's own processes with few descriptors and more clients than these are enough for."""

from __future__ import annotations

import asyncio
import json
import re
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, reply
from support.process.stack import Command, command, exchange

HARD = 512
SILENT = 560
KEPT = 20
GET = b"GET /collections HTTP/1.1\r\nHost: db\r\n\r\n"
GRPC = ("--grpc-upstream", "127.0.0.1:9")  # nobody is there: what counts is that a connection may be gRPC's


@pytest.fixture(autouse=True)
def _enough_for_the_test_itself() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def answering(talk: Talk) -> None:
    while await talk.request() is not None:
        await talk.send(reply(b"ok"))


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


async def status(client: RawClient) -> int:
    """The status of one more answer on this connection."""
    await client.send(GET)
    return (await client.reply()).status


@asynccontextmanager
async def limited(*arguments: str, soft: int = HARD, hard: int = HARD) -> AsyncIterator[tuple[Command, dict[str, str]]]:
    """A proxy with so many descriptors before a database that answers everything."""
    async with FaultyUpstream(answering) as database:
        line = ("serve", "--upstream", f"http://127.0.0.1:{database.port}", "--listen", "127.0.0.1:0")
        with command(*line, "--admin", "127.0.0.1:0", *arguments, descriptors=(soft, hard)) as running:
            yield running, await asyncio.to_thread(running.addresses, 2)


async def silent_crowd(port: int, stack: AsyncExitStack) -> int:
    """Connect ``SILENT`` times and say nothing; how many could."""
    made = await asyncio.gather(*(RawClient.connect(port) for _ in range(SILENT)), return_exceptions=True)
    clients = [connection for connection in made if isinstance(connection, RawClient)]
    for client in clients:
        stack.push_async_callback(client.close)
    return len(clients)


async def admin_statuses(admin: str) -> list[int]:
    pages = ("/livez", "/readyz", "/metrics")
    return [(await asyncio.to_thread(exchange, admin, "GET", page)).status for page in pages]


async def heard_again(port: int) -> int:
    """The status a new client gets, once there is a place for it."""
    for _ in range(100):
        try:
            client = await RawClient.connect(port)
            try:
                return await status(client)
            finally:
                await client.close()
        except (OSError, asyncio.IncompleteReadError, ConnectionError):
            await asyncio.sleep(0.1)
    return 0


@pytest.mark.parametrize("more", [(), ("--workers", "2"), GRPC], ids=["alone", "workers", "grpc"])
async def test_silent_connections_beyond_the_descriptors_harm_nobody_who_is_connected(more: tuple[str, ...]) -> None:
    async with limited(*more) as (running, urls), AsyncExitStack() as stack:
        port = port_of(urls["serve"])
        kept = [await RawClient.connect(port) for _ in range(KEPT)]
        for client in kept:
            stack.push_async_callback(client.close)
        assert [await status(client) for client in kept] == [200] * KEPT
        assert await silent_crowd(port, stack) > SILENT // 2
        for _ in range(3):
            assert await asyncio.gather(*(status(client) for client in kept)) == [200] * KEPT
            assert await admin_statuses(urls["admin"]) == [200, 200, 200]
        assert running.process.poll() is None
        assert "Too many open files" not in running.output()
        assert await heard_again(port) == 200, "the silent ones lose their places to those who speak"


async def test_a_low_soft_limit_is_raised_to_what_is_needed() -> None:
    async with limited(soft=256, hard=20_000) as (running, _):
        limits = Path(f"/proc/{running.process.pid}/limits").read_text()
    match = re.search(r"^Max open files\s+(\d+)\s+(\d+)", limits, re.MULTILINE)
    assert match is not None
    assert 4096 < int(match[1]) < 20_000
    assert "RLIMIT_NOFILE" not in running.output(), "nobody has to do anything"


async def test_limits_that_do_not_fit_are_lowered_and_it_is_said_at_start() -> None:
    async with limited() as (running, urls):
        metrics = (await asyncio.to_thread(exchange, urls["admin"], "GET", "/metrics")).body.decode()
        warnings = [json.loads(line) for line in running.output().splitlines() if "RLIMIT_NOFILE" in line]
    match = re.search(r"^vecsieve_connections_limit (\S+)$", metrics, re.MULTILINE)
    assert match is not None
    in_force = int(float(match[1]))
    assert 100 < in_force < HARD
    assert [(entry["level"], entry["connections"]) for entry in warnings] == [("warning", in_force)]
