"""The data ports: accepts connections for aiohttp's server, with settings that are tested first.

aiohttp's own server drops all settings for one wrong keyword, with only a log line. Here a probe connection is built and fed before the ports open.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

import aiohttp
from aiohttp import http_parser, web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from vecsieve.config.schema import LimitSettings

from ..runtime.addresses import DataPort, Origin, binding
from ..search.errors import Trouble
from ..telemetry.log import guard_foreign_loggers
from .answers import LocalAnswers
from .connections import Ages, Connections, Events
from .headers import objection
from .protocol import LEAST_PIECE_BYTES, ClientConnection, ConnectionRules

LOGGER = logging.getLogger("vecsieve.http")
Factory = Callable[[], asyncio.Protocol]

# The kernel caps it at net.core.somaxconn, 4,096 by default. When the queue is full, the kernel drops the SYN of a client, and the client
# repeats it after 1 s. Beside 2,000 clients that connected at once a search took 1.2 s with 1,024, and at most 0.45 s with 4,096.
BACKLOG = 4096
# With 64, turns of 0.1 s kept 1,000 new connections a second waiting; without a bound one process of several would take all that
# wait for any of them.
AT_A_TURN = 256
# At most this share of a low connection limit is accepted at once, because each holds a descriptor before it has a place.
ARRIVING_SHARE = 8
# Bytes of an answer in the kernel beyond those on their way to the client. Without this bound the kernel takes up to tcp_wmem (4 MiB) per
# client: 2,000 clients that read nothing used up the TCP memory of a machine with 24 GiB, for all its processes.
UNSENT_BYTES = 128 * 1024
OUT_OF_FILES_SECONDS = 0.1  # asyncio pauses for 1 s: clients retry before that


def arriving_at_most(connections: int) -> int:
    """How many connections may be accepted but not yet registered."""
    return max(1, min(AT_A_TURN, connections // ARRIVING_SHARE))


class Arrivals:
    """Connections of all ports that are accepted and have no protocol yet: at most ``most``."""

    def __init__(self, most: int = AT_A_TURN) -> None:
        self.most = most
        self.opening: set[asyncio.Task[None]] = set()


class Accepting:
    """Accepts connections from the listening sockets of one port, many per turn of the loop.

    libuv (1.45 and later, so uvloop 0.18 and later) accepts one connection per turn. A busy loop makes 30 turns a
    second: the kernel's queue overflows, and clients retry after 1 s, 3 s and 7 s. At twice the searches a process can
    do, each on its own connection, 4 of 10 had no answer within 10 s; with this class 1 of 10,000 (measured).
    """

    def __init__(self, sockets: Sequence[socket.socket], factory: Factory, arrivals: Arrivals | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._factory = factory
        self._sockets = tuple(sockets)
        self._arrivals = Arrivals() if arrivals is None else arrivals
        self._is_out_of_files = False
        self.port: int = self._sockets[0].getsockname()[1]
        for listening in self._sockets:
            listening.setblocking(False)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # Linux and macOS; accepted connections inherit it
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            listening.listen(BACKLOG)
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Stop accepting; connections stay open."""
        for listening in self._sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)
                listening.close()

    async def opened(self) -> None:
        """Wait until every accepted connection has its protocol."""
        if self._arrivals.opening:
            await asyncio.wait(self._arrivals.opening)

    def _accept(self, listening: socket.socket) -> None:
        opening = self._arrivals.opening
        while len(opening) < self._arrivals.most:
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            self._is_out_of_files = False
            connection.setblocking(False)
            task = self._loop.create_task(self._open(connection), name="open a client connection")
            opening.add(task)
            task.add_done_callback(opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:  # it is gone again
            connection.close()

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Pause: the process is out of file descriptors or socket memory, which the kernel reports at every turn until a connection ends.
        Logged once.
        """
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
        return tuple(socket.socket(fileno=os.dup(listening.fileno())) for listening in server.sockets)
    finally:
        server.close()


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
# After an early answer the rest of a body is read and dropped for this long: closing at once would reset the connection, and a reset
# destroys the answer on its way (RFC 9112 9.6).
LINGERING_SECONDS = 10.0
HEAD_FIELDS = 128  # of one request; HAProxy 101, Envoy 100
AT_ONCE_SECONDS = 0.001  # aiohttp treats a grace period of 0 as unlimited (helpers.ceil_timeout)


class DataServer(web.Server):
    """aiohttp's server with our connections, which refuses ambiguous heads."""

    def __init__(
        self,
        handler: Handler,
        limits: LimitSettings,
        answers: LocalAnswers,
        events: Events,
        *,
        http2: Callable[[], Callable[[bytes], bytes | None]] | None = None,
    ) -> None:
        super().__init__(self._guarded, handler_cancellation=True)
        self._handler = handler
        self._settings: dict[str, float | int | bool | None] = {
            "keepalive_timeout": limits.keep_alive_seconds,
            "max_line_size": limits.head_line_bytes,
            "max_field_size": limits.head_line_bytes,
            "max_headers": HEAD_FIELDS,
            "lingering_time": LINGERING_SECONDS,
            "auto_decompress": False,
            "access_log": None,
            "tcp_keepalive": True,
        }
        self.rules = ConnectionRules(
            head_timeout_seconds=limits.head_timeout_seconds,
            connections=Connections(limit=limits.connections, events=events),
            answers=answers,
            events=events,
            ages=Ages(limits.connection_age_seconds, clock=time.monotonic),
            http2=http2,
        )

    def __call__(self, index: Origin | None = None) -> ClientConnection:
        """Build one connection; a wrong name of a setting raises here. ``index``: of the port."""
        return ClientConnection(self, self.rules, index, **self._settings)

    def _guarded(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        trouble = objection(request.method, request.raw_path, request.version, request.raw_headers)
        return self._handler(request) if trouble is None else self._refused(trouble, request)

    async def _refused(self, trouble: Trouble, request: web.BaseRequest) -> web.StreamResponse:
        self.rules.events.answered_locally(trouble.value)
        return self.rules.answers.response(trouble, request.raw_path)


class Front(Protocol):
    """Receives a port's connections before aiohttp gets the HTTP/1 ones: makes their first protocols, and ends the other connections.
    ``unsent``: clients that wait for the rest of their answers.
    """

    @property
    def unsent(self) -> int: ...
    def before(self, http: Factory) -> Factory: ...
    def send_goaway(self) -> None: ...
    async def close(self, *, grace_seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Listener:
    """The open data ports of one server."""

    server: DataServer
    sockets: tuple[Accepting, ...]
    fronts: tuple[Front, ...]

    @property
    def ports(self) -> tuple[int, ...]:
        """The bound ports, in the order of ``data_ports``; the assigned one if 0 was given."""
        return tuple(listening.port for listening in self.sockets)

    @property
    def unsent(self) -> int:
        """How many clients behind a front have unsent answers."""
        return sum(front.unsent for front in self.fronts)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections stay, and gRPC clients are asked to leave."""
        for listening in self.sockets:
            listening.close()
        for front in self.fronts:
            front.send_goaway()

    def drain(self) -> None:
        """End every connection with its next answer."""
        self.server.rules.connections.drain()

    async def close(self, *, grace_seconds: float) -> None:
        """Stop accepting, let requests in flight finish for the grace period, then cut them."""
        self.stop_accepting()
        self.drain()
        self.server.rules.connections.dismiss()
        await asyncio.gather(*(listening.opened() for listening in self.sockets))
        await asyncio.gather(
            self.server.shutdown(max(grace_seconds, AT_ONCE_SECONDS)),
            *(front.close(grace_seconds=grace_seconds) for front in self.fronts),
        )


# The names used of aiohttp beyond its documentation: a release that renames one must stop the process with a message, not silently lose the
# head's deadline. The range in pyproject.toml is the first guard, this is the second.
RELIED_ON: tuple[tuple[type, str], ...] = (
    (
        RequestHandler,
        (
            "_buffer_paused _current_request _keepalive_timeout _lingering_time _messages _pause_transport_reading _reading_paused"
            " _request_count _request_in_progress _resume_transport_reading _upgraded _waiter close data_received force_close"
            " handle_error log_debug log_exception max_field_size max_headers max_line_size resume_reading"
        ),
    ),
    (
        web.StreamResponse,
        (
            "_eof_sent _keep_alive _must_be_empty_body _payload_writer _prepare_headers _req _send_headers_immediately"
            " _write_headers"
        ),
    ),
)


class IncompatibleLibraryError(RuntimeError):
    """The installed aiohttp is not the one this data plane was built on."""


def audit_library() -> None:
    """Raise IncompatibleLibraryError when aiohttp lacks a name or runs its pure-Python parser.

    Two parsers that differ in what they accept are a smuggling risk; the C parser is the tested one.
    """
    missing = [
        f"{owner.__name__}.{name}" for owner, names in RELIED_ON for name in names.split() if not hasattr(owner, name)
    ]
    if missing:
        raise IncompatibleLibraryError(f"aiohttp {aiohttp.__version__} has no {', '.join(missing)}")
    pure = {http_parser.HttpRequestParserPy, http_parser.HttpResponseParserPy}
    if pure & {http_parser.HttpRequestParser, http_parser.HttpResponseParser}:
        raise IncompatibleLibraryError(
            "aiohttp runs on its pure-Python parser (AIOHTTP_NO_EXTENSIONS is set, or the wheel has no extensions)"
        )


async def listen(
    server: DataServer,
    limits: LimitSettings,
    *data_ports: DataPort,
    fronts: Mapping[DataPort, Front] = MappingProxyType({}),
) -> Listener:
    """Open the data ports, all or none.

    Raises IncompatibleLibraryError if aiohttp is not compatible or the settings are not in force; OSError when an address cannot be bound.
    """
    audit_library()
    guard_foreign_loggers()
    prove_settings(server, limits)
    arrivals = Arrivals(arriving_at_most(limits.connections))
    with ExitStack() as opened:
        sockets = []
        for data_port in data_ports:
            sockets.append(await _opened(server, data_port, fronts.get(data_port), arrivals))
            opened.callback(sockets[-1].close)
        opened.pop_all()
    return Listener(server, tuple(sockets), tuple(fronts.values()))


async def _opened(server: DataServer, data_port: DataPort, front: Front | None, arrivals: Arrivals) -> Accepting:
    factory: Factory = partial(server, data_port.index)
    factory = factory if front is None else front.before(factory)
    if data_port.shared is not None:
        return Accepting((data_port.shared,), factory, arrivals)
    with binding(data_port.host, data_port.port, flag=data_port.flag):
        return Accepting(await bound(data_port.host, data_port.port), factory, arrivals)


def prove_settings(server: DataServer, limits: LimitSettings) -> None:
    """Test the C parser, whose settings cannot be read back, with two canned requests. Raises IncompatibleLibraryError unless it behaves as
    ``limits`` say.
    """
    if _first_body(server, b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc") != b"abc":
        raise IncompatibleLibraryError("aiohttp did not take the settings: request bodies are decompressed")
    if _first_body(server, b"x: " + b"a" * (limits.head_line_bytes + 1) + b"\r\n\r\n") is not None:
        raise IncompatibleLibraryError("aiohttp did not take the settings: the limit of a header field is not enforced")


def _first_body(server: DataServer, rest: bytes) -> bytes | None:
    """The body that a fresh connection reads; None when it refuses the head or the body."""
    probe = server()
    head = b"POST / HTTP/1.1\r\nHost: probe\r\n" + rest
    for at in range(0, len(head), LEAST_PIECE_BYTES):  # with more at once, some would wait for the loop's next turn
        probe.data_received(head[at : at + LEAST_PIECE_BYTES])
    message, payload = probe._messages[0]  # noqa: SLF001 - audited
    if not isinstance(message, RawRequestMessage):
        return None
    try:
        return payload.read_nowait()
    except RequestPayloadError:
        return None
