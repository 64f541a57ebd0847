"""A new connection on a TLS port, until its handshake is done.

``create_server(ssl=…)`` would tell us of a connection only then: any number could stand half-way, at 256 KiB each, past
every limit. So a connection is accepted plain, takes its place, and its socket is handed to a TLS transport.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import cast

from vecsieve.proxy.grpc.guests import Guests
from vecsieve.proxy.grpc.splice import LAST_WORDS_SECONDS
from vecsieve.proxy.http.protocol import ConnectionRules

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
