"""A data port that speaks HTTP/1 and gRPC, plain or over TLS.

aiohttp speaks no HTTP/2 and grpc no HTTP/1, yet clients send both to one port: Pinecone's GrpcIndex (Python 9 and 10)
makes its record calls over HTTP/1.1 at the address of its gRPC calls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from ..http.protocol import ConnectionRules
from .connections import InnerSocket, SharedConnection, SharedConnections
from .splice import CLOSING_SECONDS, Splice

LOGGER = logging.getLogger("vecsieve.tls")


@dataclass(slots=True, eq=False)
class Handshake(SharedConnection, asyncio.Protocol):
    """A new connection on a TLS port, until its handshake is done. ``secured``: makes the next protocol, as on a plain port.

    ``create_server(ssl=…)`` would report a connection only after its handshake: any number could wait in a handshake, at 256 KiB each,
    outside every limit. So a connection is accepted plain, takes its place, and its socket is handed to a TLS transport.
    """

    _rules: ConnectionRules
    _connections: SharedConnections
    _context: ssl.SSLContext
    _secured: Callable[[], asyncio.Protocol]
    _socket: socket.socket | None = None  # until a TLS transport has it
    _task: asyncio.Task[None] | None = None

    def cut(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place and the socket. The plain transport closes its own descriptor without reading."""
        plain = cast(asyncio.Transport, transport)
        if self._connections.enter(self):
            self._socket = socket.socket(fileno=os.dup(plain.get_extra_info("socket").fileno()))
            self._task = self._connections.tasks.start(self._secure(self._socket))
            self._task.add_done_callback(self._is_over)
        plain.abort()

    async def _secure(self, plain: socket.socket) -> None:
        """Hand the socket to a TLS transport, which closes it in every case."""
        self._socket = None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Secured(self._goes_on),
                plain,
                ssl=self._context,
                ssl_handshake_timeout=self._rules.head_timeout_seconds,
                ssl_shutdown_timeout=CLOSING_SECONDS,
            )
        except ConnectionAbortedError:  # both event loops raise this for a late handshake
            self._rules.events.connection_rejected("silent")
        except OSError as error:  # includes ssl.SSLError; its reason is OpenSSL's, and contains nothing of the client's
            LOGGER.debug("a TLS handshake failed: %s", getattr(error, "reason", None) or type(error).__name__)

    def _is_over(self, _: asyncio.Task[None]) -> None:
        if self._socket is not None:  # cancelled before its first step
            self._socket.close()
        self._connections.leave(self)

    def _goes_on(self, transport: asyncio.Transport) -> None:
        self._connections.leave(self)
        protocol = self._secured()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


@dataclass(slots=True, eq=False)
class _Secured(asyncio.Protocol):
    _goes_on: Callable[[asyncio.Transport], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._goes_on(cast(asyncio.Transport, transport))


# Every HTTP/2 connection begins with these bytes, which no HTTP/1.x request can have (RFC 9113 3.4). POST, PUT and PATCH begin like it.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass(slots=True, eq=False)
class Detecting(SharedConnection, asyncio.Protocol):
    """A new connection on a shared port, until its first bytes show its protocol. ``inner``: the destination of HTTP/2. ``http``: makes the
    protocol that serves HTTP/1.

    The protocol must be known ``head_timeout_seconds`` after the connection was made; a head then has the same time again. Silent
    connections are closed without an answer, as on a port of HTTP/1 only.
    """

    _rules: ConnectionRules
    _connections: SharedConnections
    _inner: InnerSocket
    _http: Callable[[], asyncio.Protocol]
    _read: bytes = b""
    _transport: asyncio.Transport | None = None  # None again once another object owns it
    _deadline: asyncio.TimerHandle | None = None

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._let_go()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if not self._connections.enter(self):
            made.abort()
            return
        self._transport = made
        self._deadline = asyncio.get_running_loop().call_later(self._rules.head_timeout_seconds, self._is_late)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._read += data
        if not PREFACE.startswith(self._read[: len(PREFACE)]):
            self._to_http(self._transport)
        elif len(self._read) >= len(PREFACE):
            self._to_grpc(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()

    def _to_http(self, transport: asyncio.Transport) -> None:
        """Hand over to a connection with a place and a deadline of its own.

        The bytes follow one turn later, as if they had arrived then: until aiohttp's task has begun, a connection that waits for a head
        looks like one in a body. Reading is paused so that nothing overtakes them.
        """
        self._let_go()
        served = self._http()
        transport.pause_reading()
        transport.set_protocol(served)
        served.connection_made(transport)
        asyncio.get_running_loop().call_soon(_deliver, self._read, served, transport)

    def _to_grpc(self, transport: asyncio.Transport) -> None:
        self._let_go()
        splice = Splice(transport, self._connections, self._inner)
        if self._connections.enter(splice):
            self._connections.ledger.head_received(splice)
            splice.begin(self._read)
        else:
            transport.abort()

    def _is_late(self) -> None:
        if self._transport is None:
            return
        self._rules.refuse_late(self._transport, has_begun=bool(self._read))
        if self._read:
            self._transport.close()
        else:
            self._transport.abort()
        self._let_go()

    def _let_go(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._transport = None
        self._connections.leave(self)


def _deliver(read: bytes, served: asyncio.Protocol, transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.resume_reading()  # first, because a protocol with enough data pauses it again
        served.data_received(read)


Factory = Callable[[], asyncio.Protocol]


class SharedPort(SharedConnections):
    """The connections of a port before aiohttp takes them.

    ``inner``: the socket on which the gRPC server listens; None if no gRPC is served. ``tls``: None: plaintext.
    """

    def __init__(
        self, rules: ConnectionRules, *, inner: InnerSocket | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(rules.connections)
        self._rules = rules
        self._inner = inner
        self._tls = tls

    def before(self, http: Factory) -> Factory:
        """The factory for ``loop.create_server``, without its ``ssl``: TLS is done here. ``http``: serves HTTP/1."""
        plain = http if self._inner is None else partial(Detecting, self._rules, self, self._inner, http)
        return plain if self._tls is None else partial(Handshake, self._rules, self, self._tls, plain)
