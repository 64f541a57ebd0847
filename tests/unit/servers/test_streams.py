"""Servers of tests: no accepted connection is open behind the block, whatever its handler or protocol does."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import cast

from support.network.certificates import make_certificates
from support.network.streams import listening, serving, serving_at


class Held(asyncio.Protocol):
    """Never closes its transport."""

    def __init__(self, made: list[asyncio.Transport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(cast(asyncio.Transport, transport))


async def test_a_protocol_that_holds_its_connection_loses_it_with_the_block() -> None:
    made: list[asyncio.Transport] = []
    async with listening(lambda: Held(made)) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        while not made:
            await asyncio.sleep(0)
        assert not made[0].is_closing()
    assert made[0].is_closing()
    assert made[0].get_extra_info("socket").fileno() == -1
    assert await is_over(reader)
    writer.close()


async def test_a_connection_of_the_last_moment_is_closed_as_well() -> None:
    async def never(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(never) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await is_over(reader)
    writer.close()


async def test_a_handler_on_a_unix_socket_is_ended_with_the_block(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def never(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with serving_at(str(tmp_path / "s"), never):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        await begun.wait()
    assert await is_over(reader)
    writer.close()


async def test_an_answer_that_nobody_reads_ends_with_the_block() -> None:
    """Its handler is over, and its stream waits for the peer."""
    over: list[asyncio.StreamWriter] = []

    async def flooding(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(32 * 1024 * 1024))
        over.append(writer)

    async with serving(flooding) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not over or not over[0].is_closing():
            await asyncio.sleep(0)
    assert is_lost(over[0].transport)
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


async def test_a_handshake_that_does_not_come_ends_with_the_block(tmp_path: Path) -> None:
    async def never(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        raise AssertionError("it has no stream")

    made = make_certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.leaf, made.key)
    async with serving(never, tls=tls) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.05)
    assert await is_over(reader)
    writer.close()


def is_lost(transport: asyncio.BaseTransport) -> bool:
    return bool(transport.get_extra_info("socket").fileno() == -1)


async def is_over(reader: asyncio.StreamReader) -> bool:
    """Whether the other side closed or reset the connection."""
    try:
        return await asyncio.wait_for(reader.read(), 5) == b""
    except ConnectionError:
        return True
