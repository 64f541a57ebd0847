"""A data port that speaks HTTP/1 and gRPC, plain or over TLS: what the composition root puts together.

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
from enum import Enum
from functools import partial
from typing import cast

from vecsieve.proxy.grpc.guests import Guests
from vecsieve.proxy.grpc.listener import InnerSocket
from vecsieve.proxy.grpc.splice import LAST_WORDS_SECONDS, Splice
from vecsieve.proxy.http.protocol import ConnectionRules
from vecsieve.proxy.search.errors import Trouble

# A new connection on a TLS port, until its handshake is done.
#
# ``create_server(ssl=…)`` would tell us of a connection only then: any number could stand half-way, at 256 KiB each, past
# every limit. So a connection is accepted plain, takes its place, and its socket is handed to a TLS transport.

LOGGER = logging.getLogger("vecsieve.tls")


class Handshake(asyncio.Protocol):
    """One such connection. ``secured``: makes the protocol that goes on with it, as on a plain port."""

    __slots__ = ("_context", "_guests", "_own", "_rules", "_secured", "_task")

    def __init__(
        self,
        rules: ConnectionRules,
        guests: Guests,
        context: ssl.SSLContext,
        secured: Callable[[], asyncio.Protocol],
    ) -> None:
        self._rules = rules
        self._guests = guests
        self._context = context
        self._secured = secured
        self._own: socket.socket | None = None  # until a TLS transport has it
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Never: its first request may be on its way."""
        return False

    @property
    def may_finish(self) -> bool:
        """Nothing is under way."""
        return False

    @property
    def is_owed(self) -> bool:
        """Nothing was said."""
        return False

    def leave(self) -> None:
        """Its handshake takes too long, and its place is needed."""
        self.cut()

    def say_goodbye(self) -> None:
        """It is not known yet what to say it in."""

    def cut(self) -> None:
        """End now."""
        if self._task is not None:
            self._task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place and the socket, or go. The plain transport closes its own descriptor of it, unread."""
        plain = cast(asyncio.Transport, transport)
        if self._guests.enter(self):
            self._own = socket.socket(fileno=os.dup(plain.get_extra_info("socket").fileno()))
            self._task = self._guests.start(self._secure(self._own), name="vecsieve-tls-handshake")
            self._task.add_done_callback(self._is_over)
        plain.abort()

    async def _secure(self, own: socket.socket) -> None:
        """Let the TLS transport have the socket; it closes it, whatever comes of it."""
        self._own = None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Secured(self._goes_on),
                own,
                ssl=self._context,
                ssl_handshake_timeout=self._rules.head_timeout_seconds,
                ssl_shutdown_timeout=LAST_WORDS_SECONDS,
            )
        except ConnectionAbortedError:  # what both loops make of a handshake that is late
            self._rules.events.connection_rejected("silent")
        except OSError as error:  # ssl.SSLError is one; its reason is a word of OpenSSL's, nothing of the client's
            LOGGER.debug("a TLS handshake failed: %s", getattr(error, "reason", None) or type(error).__name__)

    def _is_over(self, _: asyncio.Task[None]) -> None:
        if self._own is not None:  # cut before its first step
            self._own.close()
        self._guests.leave(self)

    def _goes_on(self, transport: asyncio.Transport) -> None:
        self._guests.leave(self)
        protocol = self._secured()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


class _Secured(asyncio.Protocol):
    """What a TLS transport tells that it stands."""

    __slots__ = ("_goes_on",)

    def __init__(self, goes_on: Callable[[asyncio.Transport], None]) -> None:
        self._goes_on = goes_on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._goes_on(cast(asyncio.Transport, transport))


# Which HTTP a client speaks, told from its first bytes.
#
# Every HTTP/2 connection begins with 24 bytes that no HTTP/1.x request can be (RFC 9113 3.4). Pure: bytes in, answer out.

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Speech(Enum):
    """What is spoken on a connection."""

    HTTP_1 = 1
    HTTP_2 = 2


def spoken(first: bytes) -> Speech | None:
    """What a connection that began with ``first`` speaks; None while POST, PUT, PATCH and the preface are all possible."""
    if not PREFACE.startswith(first[: len(PREFACE)]):
        return Speech.HTTP_1
    return Speech.HTTP_2 if len(first) >= len(PREFACE) else None


# A new connection on a shared port, until its first bytes say what it speaks.
#
# It counts and has a deadline from the start; the silent are closed without a word, as on a port of HTTP/1 alone.


class Arrival(asyncio.Protocol):
    """One such connection. ``inner``: where HTTP/2 goes. ``http``: makes the protocol that serves HTTP/1.

    What it speaks must be known ``head_timeout_seconds`` after it came; a head then has the same time again, as it has
    on a connection that was silent at first.
    """

    __slots__ = ("_deadline", "_guests", "_http", "_inner", "_read", "_rules", "_transport")

    def __init__(
        self, rules: ConnectionRules, guests: Guests, inner: InnerSocket, http: Callable[[], asyncio.Protocol]
    ) -> None:
        self._rules = rules
        self._guests = guests
        self._inner = inner
        self._http = http
        self._read = b""
        self._transport: asyncio.Transport | None = None  # None again when it is no longer ours
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Never, as a connection of HTTP/1 whose first request has not come: it may be on its way."""
        return False

    @property
    def may_finish(self) -> bool:
        """Nothing is under way."""
        return False

    @property
    def is_owed(self) -> bool:
        """Nothing was said."""
        return False

    def leave(self) -> None:
        """It has said too little for too long, and its place is needed."""
        self.cut()

    def say_goodbye(self) -> None:
        """It is not known yet what to say it in."""

    def cut(self) -> None:
        """End now."""
        if self._transport is not None:
            self._transport.abort()
        self._let_go()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, or go."""
        made = cast(asyncio.Transport, transport)
        if not self._guests.enter(self):
            made.abort()
            return
        self._transport = made
        self._deadline = asyncio.get_running_loop().call_later(self._rules.head_timeout_seconds, self._is_late)

    def data_received(self, data: bytes) -> None:
        """Look at what has come so far."""
        if self._transport is None:
            return
        self._read += data
        match spoken(self._read):
            case Speech.HTTP_1:
                self._to_http(self._transport)
            case Speech.HTTP_2:
                self._to_grpc(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone before it was known."""
        self._let_go()

    def _to_http(self, transport: asyncio.Transport) -> None:
        """Hand over to a connection that takes a place and a deadline of its own.

        The bytes follow one turn later, as they would have come by themselves: aiohttp's task must have begun, for until
        then a connection that waits for a head looks like one in a body. Meanwhile nothing may overtake them.
        """
        self._let_go()
        served = self._http()
        transport.pause_reading()
        transport.set_protocol(served)
        served.connection_made(transport)
        asyncio.get_running_loop().call_soon(_deliver, self._read, served, transport)

    def _to_grpc(self, transport: asyncio.Transport) -> None:
        self._let_go()
        splice = Splice(transport, self._guests, self._inner)
        if self._guests.enter(splice):
            self._guests.asked(splice)
            splice.begin(self._read)
        else:
            transport.abort()

    def _is_late(self) -> None:
        events = self._rules.events
        if self._transport is not None and self._read:
            events.connection_rejected("head_timeout")
            events.answered_locally(Trouble.HEAD_TIMEOUT.value)
            self._transport.write(self._rules.answers.wire(Trouble.HEAD_TIMEOUT))
            self._transport.close()
            self._let_go()
        else:
            events.connection_rejected("silent")
            self.cut()

    def _let_go(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._transport = None
        self._guests.leave(self)


def _deliver(read: bytes, served: asyncio.Protocol, transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.resume_reading()  # first: a protocol that has had enough pauses it again
        served.data_received(read)


Factory = Callable[[], asyncio.Protocol]


class SharedPort:
    """The connections of a listener's ports, before aiohttp has them.

    ``inner``: the Unix socket on which the gRPC server listens; None where no gRPC is served. ``tls``: None is plaintext.
    """

    def __init__(
        self, rules: ConnectionRules, *, inner: InnerSocket | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._rules = rules
        self._guests = Guests(rules.connections)
        self._inner = inner
        self._tls = tls

    def __len__(self) -> int:
        return len(self._guests)

    @property
    def owed(self) -> int:
        """How many gRPC clients have not got all of their answers yet."""
        return self._guests.owed

    def before(self, http: Factory) -> Factory:
        """The factory for ``loop.create_server``, without its ``ssl``: TLS is done here. ``http``: serves HTTP/1."""
        plain = http if self._inner is None else partial(Arrival, self._rules, self._guests, self._inner, http)
        return plain if self._tls is None else partial(Handshake, self._rules, self._guests, self._tls, plain)

    def say_goodbye(self) -> None:
        """Ask gRPC clients to go elsewhere. Close the listening sockets first."""
        self._guests.say_goodbye()

    async def close(self, *, grace_seconds: float) -> None:
        """Wait for gRPC connections, which end when the gRPC server has ended them, then cut what remains.

        Close the listening sockets first, and stop the gRPC server at the same time: it says GOAWAY through us.
        """
        await self._guests.close(grace_seconds=grace_seconds)
