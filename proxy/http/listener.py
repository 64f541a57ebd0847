"""The data ports: aiohttp's server on addresses or inherited sockets, with settings that are proven to be in force.

One wrong keyword makes aiohttp drop all of them with only a log line; here a probe connection is built and fed before
the ports open, and what it does is compared with what was configured.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestPayloadError

from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.addresses import DataPort, Origin
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.events import Events
from vecsieve.proxy.http.headers import objection
from vecsieve.proxy.http.pools import IncompatibleLibraryError, audit_library
from vecsieve.proxy.http.protocol import ClientConnection, ConnectionRules
from vecsieve.proxy.search.limits import Ages
from vecsieve.proxy.telemetry.log import guard_foreign_loggers

# Takes new connections off the kernel's queue, many at each turn of the loop.
#
# libuv (1.45 and later, so uvloop 0.18 and later) accepts one connection a turn. A loop that is busy turns 30 times a second: the
# queue of the kernel overflows, the kernel drops what greets it, and the client asks again after 1 s, 3 s and 7 s. With as many
# searches as are twice too many, each on a connection of its own, 4 of 10 had no answer within 10 s; so 1 of 10,000 (measured).

LOGGER = logging.getLogger("vecsieve.http")
Factory = Callable[[], asyncio.Protocol]

BACKLOG = 1024  # the kernel caps it at net.core.somaxconn; 128 overflows when a pool reconnects after a restart
# With 64, turns of 0.1 s kept 1,000 new connections a second waiting; without a bound one process of several would take all that
# wait for any of them.
AT_A_TURN = 256
# Of few connections no more than this share is on its way in at once, because each holds a descriptor before it has a place.
ARRIVING_SHARE = 8
OUT_OF_FILES_SECONDS = 0.1  # asyncio pauses for 1 s: by then clients ask again


def arriving_at_most(connections: int) -> int:
    """How many connections may be accepted and without a place, where a process takes on so many."""
    return max(1, min(AT_A_TURN, connections // ARRIVING_SHARE))


class Arrivals:
    """The connections of all ports of one process that are accepted and have no protocol yet: at most ``most``."""

    def __init__(self, most: int = AT_A_TURN) -> None:
        self.most = most
        self.opening: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        """Whether none may be accepted in this turn of the loop."""
        return len(self.opening) >= self.most

    def start(self, opening: Coroutine[None, None, None]) -> None:
        """Open one."""
        task = asyncio.get_running_loop().create_task(opening, name="open a client connection")
        self.opening.add(task)
        task.add_done_callback(self.opening.discard)


class Accepting:
    """The listening sockets of one port, which it owns. Make it inside the event loop; it accepts until `close`."""

    def __init__(self, sockets: Sequence[socket.socket], factory: Factory, arrivals: Arrivals | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._factory = factory
        self._sockets = tuple(sockets)
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._is_out_of_files = False
        self.port: int = self._sockets[0].getsockname()[1]
        for each in self._sockets:
            each.setblocking(False)
            each.listen(BACKLOG)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Stop accepting; connections live on."""
        for each in self._sockets:
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                each.close()

    async def opened(self) -> None:
        """Wait until every connection that was accepted has its protocol."""
        if self._arrivals.opening:
            await asyncio.wait(self._arrivals.opening)

    def _accept(self, listening: socket.socket) -> None:
        while not self._arrivals.is_full:
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            self._is_out_of_files = False
            connection.setblocking(False)
            self._arrivals.start(self._open(connection))

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:  # it is gone again
            connection.close()

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Out of files or of memory for sockets: the kernel says so at every turn, until a connection ends. Logged once."""
        if not self._is_out_of_files:
            self._is_out_of_files = True
            LOGGER.error("no connection can be accepted: %s", os.strerror(error.errno or 0))
        self._loop.remove_reader(listening)
        self._loop.call_later(OUT_OF_FILES_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)


async def bound(host: str, port: int) -> tuple[socket.socket, ...]:
    """Sockets on every address of a host, as asyncio binds them. Raises OSError."""
    server = await asyncio.get_running_loop().create_server(
        asyncio.Protocol, host, port, reuse_address=True, start_serving=False
    )
    try:
        return tuple(socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets)
    finally:
        server.close()


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
# After an early answer the rest of a body is read and dropped this long: closing at once would reset the connection,
# and a reset destroys the answer on its way (RFC 9112 9.6).
LINGERING_SECONDS = 10.0
AT_ONCE_SECONDS = 0.001  # aiohttp takes a grace of 0 for one without end (helpers.ceil_timeout)


class DataServer(web.Server):
    """aiohttp's server whose connections are ours, and which refuses heads that could be read in two ways."""

    def __init__(self, handler: Handler, limits: LimitSettings, answers: LocalAnswers, events: Events) -> None:
        super().__init__(_Guard(handler, answers, events), handler_cancellation=True)
        self.client_connections = Connections(limit=limits.connections, events=events)
        self._settings = effective_settings(limits)
        self.rules = ConnectionRules(
            head_timeout_seconds=limits.head_timeout_seconds,
            connections=self.client_connections,
            answers=answers,
            events=events,
            ages=Ages(limits.connection_age_seconds, clock=time.monotonic),
        )

    def __call__(self, index: Origin | None = None) -> ClientConnection:
        """Build one connection; a wrong setting is an error here, not a silent fallback. ``index``: behind its port."""
        return ClientConnection(self, self.rules, index, **self._settings)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The handler behind the head checks."""

    handler: Handler
    answers: LocalAnswers
    events: Events

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        trouble = objection(request.method, request.raw_path, request.version, request.raw_headers)
        if trouble is None:
            return await self.handler(request)
        self.events.answered_locally(trouble.value)
        return self.answers.response(trouble, request.raw_path)


class Front(Protocol):
    """What has a port's connections before aiohttp gets those that are HTTP/1."""

    def before(self, http: Factory) -> Factory:
        """What makes the protocol of a new connection."""
        ...

    @property
    def owed(self) -> int:
        """How many of these have not got all of their answers yet."""
        ...

    def say_goodbye(self) -> None:
        """Ask those that aiohttp has not got to go elsewhere."""
        ...

    async def close(self, *, grace_seconds: float) -> None:
        """Wait for those that aiohttp has not got, then cut them."""
        ...


@dataclass(frozen=True, slots=True)
class Listener:
    """The open data ports of one server, which share its limits and its end. ``fronts``: of those that have one."""

    server: DataServer
    sockets: tuple[Accepting, ...]
    fronts: tuple[Front, ...]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that were bound, in the order of the doors; the free one where 0 was asked for."""
        return tuple(each.port for each in self.sockets)

    @property
    def owed(self) -> int:
        """How many clients behind a front have not got all of their answers yet."""
        return sum(front.owed for front in self.fronts)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections live on, and who can be asked to leave is asked."""
        for each in self.sockets:
            each.close()
        for front in self.fronts:
            front.say_goodbye()

    def drain(self) -> None:
        """End every connection with its next answer."""
        self.server.client_connections.drain()

    async def close(self, *, grace_seconds: float) -> None:
        """Stop accepting, let requests in flight finish for the grace period, then cut them."""
        self.stop_accepting()
        self.drain()
        self.server.client_connections.dismiss()
        await asyncio.gather(*(each.opened() for each in self.sockets))
        await asyncio.gather(
            self.server.shutdown(max(grace_seconds, AT_ONCE_SECONDS)),
            *(front.close(grace_seconds=grace_seconds) for front in self.fronts),
        )


def effective_settings(limits: LimitSettings) -> dict[str, float | int | bool | None]:
    """Our limits under the names that aiohttp gives them."""
    return {
        "keepalive_timeout": limits.keep_alive_seconds,
        "max_line_size": limits.head_line_bytes,
        "max_field_size": limits.head_field_bytes,
        "max_headers": limits.head_fields,
        "lingering_time": LINGERING_SECONDS,
        "auto_decompress": False,
        "access_log": None,
        "tcp_keepalive": True,
    }


async def listen(
    server: DataServer, limits: LimitSettings, *doors: DataPort, fronts: Mapping[DataPort, Front] = MappingProxyType({})
) -> Listener:
    """Open the data ports, all or none.

    Raises IncompatibleLibraryError when aiohttp is not what we rely on or the settings are not in force; OSError when an
    address cannot be bound.
    """
    audit_library()
    guard_foreign_loggers()
    prove_settings(server, limits)
    arrivals = Arrivals(arriving_at_most(limits.connections))
    with ExitStack() as opened:
        sockets = []
        for door in doors:
            sockets.append(await _opened(server, door, fronts.get(door), arrivals))
            opened.callback(sockets[-1].close)
        opened.pop_all()
    return Listener(server, tuple(sockets), tuple(fronts.values()))


async def _opened(server: DataServer, door: DataPort, front: Front | None, arrivals: Arrivals) -> Accepting:
    factory: Factory = partial(server, door.index)
    factory = factory if front is None else front.before(factory)
    sockets = await bound(door.host, door.port) if door.shared is None else (door.shared,)
    return Accepting(sockets, factory, arrivals)


def prove_settings(server: DataServer, limits: LimitSettings) -> None:
    """Raise IncompatibleLibraryError unless a connection built by ``server`` behaves as ``limits`` say."""
    probe = server()
    seen = {
        "keepalive_timeout": probe.keepalive_timeout,
        "max_line_size": probe.max_line_size,
        "max_field_size": probe.max_field_size,
        "max_headers": probe.max_headers,
        "lingering_time": probe._lingering_time,  # noqa: SLF001 - audited: it has no public name
    }
    wanted = {name: value for name, value in effective_settings(limits).items() if name in seen}
    wrong = [f"{name} is {seen[name]!r}, configured {wanted[name]!r}" for name in seen if seen[name] != wanted[name]]
    if probe.access_logger is not None:
        wrong.append("aiohttp's access log is on")
    wrong += _parser_faults(server, limits)
    if wrong:
        raise IncompatibleLibraryError("aiohttp did not take the settings: " + "; ".join(wrong))


def _parser_faults(server: DataServer, limits: LimitSettings) -> list[str]:
    """What the C parser, whose settings cannot be read back, does wrong with two canned requests."""
    faults = []
    if _first_body(server, b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc") != b"abc":
        faults.append("request bodies are decompressed")
    if _first_body(server, b"x: " + b"a" * (limits.head_field_bytes + 1) + b"\r\n\r\n") is not None:
        faults.append("the limit of a header field is not enforced")
    return faults


def _first_body(server: DataServer, rest: bytes) -> bytes | None:
    """The body a fresh connection reads from a POST with these fields; None when it refuses the head or the body."""
    probe = server()
    probe.data_received(b"POST / HTTP/1.1\r\nHost: probe\r\n" + rest)
    message, payload = probe._messages[0]  # noqa: SLF001 - audited
    if not isinstance(message, RawRequestMessage):
        return None
    try:
        return payload.read_nowait()
    except RequestPayloadError:
        return None
