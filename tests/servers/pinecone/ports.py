"""The emulator's ports, plain or over TLS. One with an index behind it speaks gRPC beside HTTP/1, as at the service."""

from __future__ import annotations

import asyncio
import socket
import ssl

from aiohttp import web
from servers.pinecone.grpc_server import GrpcServer
from servers.pinecone.grpc_service import Service

from vecsieve.adapters.pinecone.dialect import PineconeDialect
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.grpc.shared_port import SharedPort
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.events import Unheard
from vecsieve.proxy.http.protocol import ConnectionRules

_KEEPALIVE_SECONDS = 3600.0
"""Envoy's default; the Python clients 5 and 6 never retry on a connection that was closed under them."""
_LINE_BYTES = 1024 * 1024
"""`/vectors/fetch` with 1,000 ids of 512 characters; aiohttp's own 8 kB would refuse 200 UUIDs."""
_SHUTDOWN_SECONDS = 2.0


class Ports:
    """Of one emulator, on one interface. ``app``: answers HTTP/1. ``tls``: of every port; None is plain."""

    def __init__(self, app: web.Application, *, tls: ssl.SSLContext | None) -> None:
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
        )
        self._host = ""
        self._tls = tls
        self._rules = _rules()
        self._starting: list[asyncio.Task[None]] = []
        self._listening: list[asyncio.Server] = []
        self._fronts: list[SharedPort] = []
        self._calls: list[GrpcServer] = []

    async def begin(self, host: str) -> None:
        """Before a port is opened, on the interface of this host."""
        self._host = host
        await self._runner.setup()

    def open(self, port: int, service: Service | None = None) -> int:
        """Listen from here on, at any free port for 0; returns its number. Who connects before we are ready waits.

        ``service``: answers gRPC there. Raises OSError when the port is taken.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.create_server((self._host, port), family=family)
        calls = None if service is None else GrpcServer(service)
        self._starting.append(asyncio.get_running_loop().create_task(self._serve(bound, calls)))
        return int(bound.getsockname()[1])

    async def close(self) -> None:
        """Let what is under way end, for a moment."""
        await asyncio.gather(*self._starting)
        for each in self._listening:
            each.close()
        # Together: the gRPC servers tell their clients to go away through our ports.
        await asyncio.gather(
            *(calls.close() for calls in self._calls),
            *(front.close(grace_seconds=_SHUTDOWN_SECONDS) for front in self._fronts),
            self._runner.cleanup(),
        )

    async def _serve(self, bound: socket.socket, calls: GrpcServer | None) -> None:
        front = SharedPort(self._rules, inner=None if calls is None else calls.inner, tls=self._tls)
        self._fronts.append(front)
        if calls is not None:
            self._calls.append(calls)
            await calls.start()
        server = self._runner.server
        assert server is not None
        self._listening.append(await asyncio.get_running_loop().create_server(front.before(server), sock=bound))


def _rules() -> ConnectionRules:
    """A data port's own, with nobody to count."""
    limits, unheard = LimitSettings(), Unheard()
    connections = Connections(limit=limits.connections, events=unheard)
    return ConnectionRules(limits.head_timeout_seconds, connections, LocalAnswers(PineconeDialect()), unheard)
