"""A data port that speaks HTTP/1 and gRPC, plain or over TLS: what the composition root puts together.

aiohttp speaks no HTTP/2 and grpc no HTTP/1, yet clients send both to one port: Pinecone's GrpcIndex (Python 9 and 10)
makes its record calls over HTTP/1.1 at the address of its gRPC calls.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

from vecsieve.proxy.grpc.arrival import Arrival
from vecsieve.proxy.grpc.guests import Guests
from vecsieve.proxy.grpc.handshake import Handshake
from vecsieve.proxy.grpc.inner_socket import InnerSocket
from vecsieve.proxy.http.protocol import ConnectionRules

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
