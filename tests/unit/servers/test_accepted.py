"""Connections that a closed server accepted are closed with their loop, and those of nobody else."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

Story = Callable[[socket.socket, socket.socket], Coroutine[None, None, None]]


class OpenProtocol(asyncio.Protocol):
    """Never closes its transport."""

    def __init__(self) -> None:
        self.is_made = asyncio.Event()

    def connection_made(self, _transport: asyncio.BaseTransport) -> None:
        self.is_made.set()


async def accepts_and_holds(client: socket.socket, listening: socket.socket) -> None:
    protocol = OpenProtocol()
    server = await asyncio.get_running_loop().create_server(lambda: protocol, sock=listening)
    client.connect(listening.getsockname())
    await protocol.is_made.wait()
    server.close()


async def closes_at_the_last_moment(client: socket.socket, listening: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(OpenProtocol, sock=listening)
    client.connect(listening.getsockname())
    await accepting()
    server.close()


async def ends_at_the_last_moment(client: socket.socket, listening: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(OpenProtocol, sock=listening)
    client.connect(listening.getsockname())
    (await accepting()).cancel()
    server.close()


async def accepting() -> asyncio.Task[Any]:
    """The loop's task for a connection that is accepted, before its first step."""
    while not (others := asyncio.all_tasks() - {asyncio.current_task()}):
        await asyncio.sleep(0)
    return others.pop()


async def connects_and_holds(client: socket.socket, listening: socket.socket) -> None:
    client.connect(listening.getsockname())
    await asyncio.get_running_loop().create_connection(OpenProtocol, sock=client)


def warned(story: Story) -> list[str]:
    """What the collector says of sockets behind the loop of a story."""
    gc.collect()
    client, listening = socket.socket(), socket.create_server(("127.0.0.1", 0))
    with client, listening, warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(story(client, listening))
        gc.collect()
    return [str(warning.message) for warning in given]


@pytest.mark.parametrize("story", [accepts_and_holds, closes_at_the_last_moment, ends_at_the_last_moment])
def test_what_a_closed_server_accepted_is_closed_with_the_loop(story: Story) -> None:
    assert warned(story) == []


def test_what_was_opened_and_never_closed_is_still_complained_of() -> None:
    assert ["unclosed transport" in message for message in warned(connects_and_holds)] == [True]
