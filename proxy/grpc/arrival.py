"""A new connection on a shared port, until its first bytes say what it speaks.

It counts and has a deadline from the start; the silent are closed without a word, as on a port of HTTP/1 alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from vecsieve.proxy.grpc.guests import Guests
from vecsieve.proxy.grpc.inner_socket import InnerSocket
from vecsieve.proxy.grpc.preface import Speech, spoken
from vecsieve.proxy.grpc.splice import Splice
from vecsieve.proxy.http.protocol import ConnectionRules
from vecsieve.proxy.trouble import Trouble


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
