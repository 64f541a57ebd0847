from __future__ import annotations

import asyncio
import errno
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.listener import AT_A_TURN, BACKLOG, UNSENT_BYTES, Accepting, Arrivals, arriving_at_most, bound

HOST = "127.0.0.1"
LARGE = 2 * 1024 * 1024


def somaxconn() -> int:
    """The kernel's bound of a queue; 0 where it does not say."""
    told = Path("/proc/sys/net/core/somaxconn")
    return int(told.read_text(encoding="ascii")) if told.exists() else 0


class Greeting(asyncio.Protocol):
    """Says one word and counts."""

    def __init__(self, made: list[Greeting]) -> None:
        made.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writing = cast(asyncio.Transport, transport)
        writing.write(b"hello")
        writing.close()


async def accepting(made: list[Greeting]) -> Accepting:
    return Accepting(await bound(HOST, 0), lambda: Greeting(made))


async def heard(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def test_who_connects_is_served() -> None:
    made = list[Greeting]()
    open_port = await accepting(made)
    assert await asyncio.gather(*(heard(open_port.port) for _ in range(5))) == [b"hello"] * 5
    assert len(made) == 5
    open_port.close()


class Large(asyncio.Protocol):
    """Says 2 MiB and tells what of it the kernel did not take."""

    def __init__(self, left: asyncio.Future[int]) -> None:
        self._left = left

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writing = cast(asyncio.Transport, transport)
        writing.write(b"x" * LARGE)
        self._left.set_result(writing.get_write_buffer_size())
        writing.abort()


async def test_the_kernel_takes_a_part_of_what_a_client_does_not_read() -> None:
    left = asyncio.get_running_loop().create_future()
    open_port = Accepting(await bound(HOST, 0), lambda: Large(left))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((HOST, open_port.port))
        assert LARGE - await asyncio.wait_for(left, 10) <= 2 * UNSENT_BYTES
    open_port.close()


def test_a_busy_loop_takes_all_that_wait_at_one_turn() -> None:
    """On uvloop, whose own servers accept one connection a turn: 40 of them would take 40 turns, a second and more here."""
    uvloop = pytest.importorskip("uvloop")
    made = list[Greeting]()

    async def turns_until_all_are_served() -> int:
        open_port = await accepting(made)
        clients = [socket.create_connection((HOST, open_port.port)) for _ in range(40)]
        turns = 0
        while len(made) < len(clients) and turns < 100:
            time.sleep(0.005)  # what the loop is busy with
            await asyncio.sleep(0)
            turns += 1
        open_port.close()
        for client in clients:
            client.close()
        return turns

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(turns_until_all_are_served()) < 20


async def test_at_one_turn_a_bounded_number_is_taken_so_that_other_workers_get_theirs() -> None:
    made = list[Greeting]()
    open_port = await accepting(made)
    with ExitStack() as clients:
        for _ in range(AT_A_TURN + 10):
            clients.enter_context(socket.create_connection((HOST, open_port.port)))
        open_port._accept(open_port._sockets[0])
        taken = len(open_port._arrivals.opening)
        await open_port.opened()
        open_port.close()
    assert taken == AT_A_TURN


async def test_all_ports_together_hold_no_more_descriptors_without_a_place_than_they_may() -> None:
    arrivals, made = Arrivals(3), list[Greeting]()
    ports = [Accepting(await bound(HOST, 0), lambda: Greeting(made), arrivals) for _ in range(2)]
    with ExitStack() as clients:
        for each in ports * 4:
            clients.enter_context(socket.create_connection((HOST, each.port)))
        for port in ports:
            port._accept(port._sockets[0])
        taken = len(arrivals.opening)
        async with asyncio.timeout(10):
            while len(made) < 8:
                await asyncio.sleep(0)
        for port in ports:
            port.close()
    assert taken == 3


@given(st.integers(min_value=1, max_value=10**6))
def test_at_least_one_may_arrive_and_of_few_connections_few(connections: int) -> None:
    """For any limit: 1 ≤ arriving ≤ 256, and at most an eighth of the limit unless that is less than one."""
    assert 1 <= arriving_at_most(connections) <= max(1, min(AT_A_TURN, connections // 8))


async def test_a_closed_port_refuses_and_its_connections_live_on() -> None:
    talking = asyncio.Event()

    class Patient(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.Transport, transport)
            talking.set()

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)
            self.transport.close()

    open_port = Accepting(await bound(HOST, 0), Patient)
    reader, writer = await asyncio.open_connection(HOST, open_port.port)
    await talking.wait()
    open_port.close()
    open_port.close()  # a second time is nothing
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, open_port.port)
    writer.write(b"still here")
    assert await asyncio.wait_for(reader.read(), 10) == b"still here"
    writer.close()


class Exhausted(socket.socket):
    """A listening socket of a process that is out of files, so many times."""

    failures = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


async def test_out_of_files_it_pauses_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    listening, made = Exhausted(), list[Greeting]()
    listening.bind((HOST, 0))
    open_port = Accepting([listening], lambda: Greeting(made))
    begun = time.monotonic()
    assert await heard(open_port.port) == b"hello"
    assert time.monotonic() - begun >= 0.15, "two pauses"
    assert [record.message for record in caplog.records] == ["no connection can be accepted: Too many open files"]
    open_port.close()


async def test_closed_while_it_pauses_it_does_not_come_back() -> None:
    listening = Exhausted()
    listening.bind((HOST, 0))
    wrong: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    open_port = Accepting([listening], lambda: Greeting([]))
    open_port._accept(listening)
    open_port.close()
    await asyncio.sleep(0.15)
    assert wrong == [], "a reader added to a closed socket would raise in the loop"


async def test_a_host_name_is_bound_wherever_it_leads() -> None:
    sockets = await bound("localhost", 0)
    assert {each.getsockname()[0] for each in sockets} <= {"127.0.0.1", "::1"}
    for each in sockets:
        each.close()


async def test_a_taken_port_is_an_error() -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(OSError, match="address already in use"):
        await bound(HOST, taken.getsockname()[1])


@pytest.mark.skipif(somaxconn() < BACKLOG, reason="the kernel's own bound is lower here")
async def test_clients_that_come_by_the_thousand_find_room_while_the_loop_is_busy() -> None:
    """Without room the kernel drops what they send first: they ask again after a second."""
    open_port = await accepting([])
    with ExitStack() as clients:
        for _ in range(2_000):
            client = clients.enter_context(socket.socket())
            client.settimeout(0.9)
            client.connect((HOST, open_port.port))
        await open_port.opened()
        open_port.close()
