from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from aiohttp import http_parser, web
from hypothesis import given
from hypothesis import strategies as st

from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange, reply
from support.network.ports import free_ports
from support.network.relay_server import Invalidation, PlainDialect, bare_relay
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.http import listener
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.listener import (
    AT_A_TURN,
    BACKLOG,
    HEAD_FIELDS,
    LINGERING_SECONDS,
    UNSENT_BYTES,
    Accepting,
    Arrivals,
    DataServer,
    IncompatibleLibraryError,
    arriving_at_most,
    audit_library,
    bound,
    listen,
    prove_settings,
)
from vecsieve.proxy.http.protocol import ClientConnection
from vecsieve.proxy.runtime.addresses import DataPort, Origin

GET = b"GET / HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
LIMITS = LimitSettings()


async def hello(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text=request.raw_path)


def server() -> DataServer:
    return DataServer(hello, LIMITS, LocalAnswers(PlainDialect()), Invalidation())


async def test_control_aiohttp_drops_all_settings_for_one_wrong_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    made = web.Server(hello, max_field_size=77, no_such_setting=1)()
    assert made.max_field_size == 8190, "aiohttp now refuses a wrong name itself"


async def test_a_wrong_name_is_an_error_of_ours() -> None:
    built = server()
    built._settings["no_such_setting"] = 1
    with pytest.raises(TypeError):
        built()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_field_size", 1_000_000, "limit of a header field"),
        ("auto_decompress", True, "request bodies are decompressed"),
    ],
)
async def test_a_setting_that_is_not_in_force_refuses_the_start(name: str, value: object, message: str) -> None:
    built = server()
    built._settings[name] = value  # type: ignore[assignment]  # - a wrong value on purpose
    with pytest.raises(IncompatibleLibraryError, match=message):
        await listen(built, LIMITS, DataPort("127.0.0.1", 0))


async def test_a_parser_that_takes_larger_fields_refuses_the_start() -> None:
    smaller = LimitSettings(head_line_bytes=1000)
    with pytest.raises(IncompatibleLibraryError, match="limit of a header field"):
        prove_settings(server(), smaller)


async def test_the_configured_settings_are_in_force() -> None:
    prove_settings(server(), LIMITS)
    made = server()()
    assert (made.keepalive_timeout, made.max_line_size, made.max_headers) == (
        620.0,
        LIMITS.head_line_bytes,
        HEAD_FIELDS,
    )
    assert (made._lingering_time, made.access_logger) == (LINGERING_SECONDS, None)


@pytest.mark.parametrize("name", ["HttpRequestParser", "HttpResponseParser"])
async def test_the_pure_python_parser_refuses_the_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, name, getattr(http_parser, f"{name}Py"))
    with pytest.raises(IncompatibleLibraryError, match="pure-Python parser"):
        await listen(server(), LIMITS, DataPort("127.0.0.1", 0))


def test_a_renamed_private_name_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    audit_library()
    monkeypatch.setattr(listener, "RELIED_ON", ((web.StreamResponse, "_prepare_headers _renamed"),))
    with pytest.raises(IncompatibleLibraryError, match=r"has no StreamResponse\._renamed"):
        audit_library()


async def test_port_zero_is_a_free_port_and_a_taken_one_an_error() -> None:
    first = await listen(server(), LIMITS, DataPort("127.0.0.1", 0))
    assert first.ports[0] > 0
    with pytest.raises(OSError, match="is in use"):
        await listen(server(), LIMITS, DataPort("127.0.0.1", first.ports[0]))
    await first.close(grace_seconds=0)


async def test_all_ports_are_opened_or_none() -> None:
    free, taken = free_ports(1)[0], socket.create_server(("127.0.0.1", 0))
    with pytest.raises(OSError, match="is in use"):
        await listen(server(), LIMITS, DataPort("127.0.0.1", free), DataPort("127.0.0.1", taken.getsockname()[1]))
    taken.close()
    with pytest.raises(ConnectionRefusedError):
        await raw_exchange(free, GET)


async def test_every_connection_knows_the_index_behind_its_port_and_all_ports_end_together() -> None:
    async def name(request: web.BaseRequest) -> web.StreamResponse:
        index = cast(ClientConnection, request.protocol).index
        return web.Response(text="none" if index is None else index.authority)

    built = DataServer(name, LIMITS, LocalAnswers(PlainDialect()), Invalidation())
    indexes = (None, Origin("https", "a.example.com"), Origin("http", "b.example.com:1"))
    opened = await listen(built, LIMITS, *(DataPort("127.0.0.1", 0, index) for index in indexes))
    bodies = [(await raw_exchange(port, GET)).rpartition(b"\r\n\r\n")[2] for port in opened.ports]
    assert bodies == [b"none", b"a.example.com", b"b.example.com:1"]
    ports = opened.ports
    opened.stop_accepting()
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            await raw_exchange(port, GET)
    await opened.close(grace_seconds=0)


async def test_several_listeners_share_one_inherited_socket() -> None:
    shared = socket.create_server(("127.0.0.1", 0))
    listeners = [await listen(server(), LIMITS, DataPort("127.0.0.1", 0, shared=shared.dup())) for _ in range(2)]
    assert {port.ports[0] for port in listeners} == {shared.getsockname()[1]}
    assert b"200 OK" in await raw_exchange(shared.getsockname()[1], GET)
    for port in listeners:
        await port.close(grace_seconds=0)
    shared.close()


async def test_a_closed_listener_takes_no_more_connections() -> None:
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url) as relay:
        port = relay.port
        assert b"200 OK" in await raw_exchange(port, GET)
    with pytest.raises(ConnectionRefusedError):
        await raw_exchange(port, GET)


HOST = "127.0.0.1"
LARGE = 2 * 1024 * 1024


def somaxconn() -> int:
    """The kernel's bound of a queue; 0 where it does not say."""
    limit_file = Path("/proc/sys/net/core/somaxconn")
    return int(limit_file.read_text(encoding="ascii")) if limit_file.exists() else 0


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
        for bound_port in ports * 4:
            clients.enter_context(socket.create_connection((HOST, bound_port.port)))
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
    assert {bound_socket.getsockname()[0] for bound_socket in sockets} <= {"127.0.0.1", "::1"}
    for bound_socket in sockets:
        bound_socket.close()


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
