"""The gRPC servers of a process: one for each upstream, behind the ports that lead there.

Each listens on a socket of its own that only our ports know, because gRPC does not tell its handlers on which port a call arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import grpc

from vecsieve.adapters.backends import Backend, Transport
from vecsieve.config.schema import Settings

from ..runtime.addresses import DataPort, Origin
from ..runtime.memory import Trimming, glibc_trim
from ..search.limits import BINARY_NUMBER_BYTES
from ..search.service import ProcessServices, SearchService
from ..writes.gate import WriteGate
from ..writes.pipeline import Pipeline
from .connections import InnerSocket
from .exchange import AskOverRest, GrpcServices
from .frames import GOAWAY_SECONDS, Calls
from .messages import Inflated, Unfinished
from .plane import Plane
from .upstream import METADATA_BYTES, UNLIMITED, Channels, Option

# Idle clients may send pings: pymilvus does every 10 s, and a server with grpcio's defaults disconnects it after two minutes.
LEAST_PING_INTERVAL_MS = 5000
# The most concurrent calls per connection. A connection counts once, whatever it carries, and grpcio has no bound of its own. The same
# number as a process's default (limits.in_flight). A client's own core waits with further calls; other clients get a refusal for each.
CALLS_OF_ONE_CONNECTION = 1024
# The most calls in the core's queue. grpcio takes one call at a time off it; of a queue above 1,000 the core cancels some at random, and no
# client retries a cancelled call. Waiting until the client's own deadline is better: the calls of sixteen connections.
PENDING_CALLS = 16 * CALLS_OF_ONE_CONNECTION


def side_of(
    settings: Settings,
    backend: Backend,
    spoken: Transport,
    services: ProcessServices,
    gate: WriteGate | None,
    over_rest: AskOverRest,
) -> GrpcSide:
    """``spoken``: the backend's own gRPC. ``gate``: for its writes, None if all pass through."""
    adapter, dialect = spoken.adapter(), spoken.dialect()
    channels = Channels(
        settings.upstream,
        connections=settings.grpc.connections,
        message_bytes=settings.grpc.answer_bytes,
        pool_bytes=settings.limits.reply_body_bytes,
    )
    inflated = Inflated(settings.grpc.message_bytes, settings.grpc.bytes_in_flight // 2)
    unfinished = Unfinished(settings.grpc.bytes_in_flight)
    calls = Calls(inflated, unfinished, freed=Trimming(asyncio.get_running_loop(), glibc_trim()).freed)
    searches = SearchService(adapter, dialect, services, number_bytes=BINARY_NUMBER_BYTES, waiting=calls.waiting)
    shared = GrpcServices(
        services=services,
        calls=calls,
        adapter=adapter,
        transport=spoken,
        database_key=backend.database_key,
        searches=searches,
        write_invalidation=services.write_invalidation(spoken),
        channels=channels,
        gate=gate,
        pipeline=Pipeline(services, searches, gate),
        over_rest=over_rest if spoken.asks_over_rest else None,
    )
    options = server_options(
        settings.limits.head_timeout_seconds, settings.grpc.message_bytes, settings.limits.connection_age_seconds
    )
    return GrpcSide(partial(Plane, shared), channels, calls, options)


@dataclass(slots=True)
class GrpcSide:
    """Create and end it inside the event loop. ``_plane_of``: for calls to an origin; the text is the index of the port, "" for backends with
    one upstream. ``_options``: of the servers.
    """

    _plane_of: Callable[[Origin, str], Plane]
    _channels: Channels
    _calls: Calls
    _options: list[Option]
    _sockets: dict[tuple[Origin, str], InnerSocket] = field(default_factory=dict)
    _servers: list[grpc.aio.Server] = field(default_factory=list)
    _planes: list[Plane] = field(default_factory=list)
    _stopping: list[asyncio.Task[None]] = field(default_factory=list)
    _is_ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def inner_socket(self, data_port: DataPort) -> InnerSocket | None:
        """The socket for calls on this port; None if the port has no gRPC."""
        if data_port.grpc is None:
            return None
        index = "" if data_port.index is None else data_port.index.authority
        key = (data_port.grpc, index)
        if key not in self._sockets:
            inner = self._sockets[key] = InnerSocket(self._calls)
            self._planes.append(plane := self._plane_of(*key))
            server = grpc.aio.server(handlers=(plane,), options=self._options)
            server.add_insecure_port(inner.grpc)
            await server.start()
            self._servers.append(server)
        return self._sockets[key]

    @property
    def unsent(self) -> int:
        """Answers that are not sent yet."""
        return sum(plane.unsent for plane in self._planes)

    @property
    def connected(self) -> int:
        """Open connections to the database."""
        return self._channels.connected

    def stop(self, *, grace_seconds: float) -> None:
        """Stop the servers once clients have had time to read GOAWAY; calls may finish for the grace period."""
        for server in self._servers:
            stopping = asyncio.create_task(self._stopped(server, grace_seconds), name="stop gRPC server")
            self._stopping.append(stopping)

    async def _stopped(self, server: grpc.aio.Server, grace_seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOAWAY_SECONDS):
                await self._is_ending.wait()
        await server.stop(grace_seconds)

    async def close(self, *, grace_seconds: float) -> None:
        """Stop and wait; of several grace periods the shortest applies."""
        self._is_ending.set()
        self.stop(grace_seconds=grace_seconds)
        await asyncio.gather(*self._stopping)
        self._stopping.clear()
        self._servers.clear()
        for inner in self._sockets.values():
            inner.close()
        self._sockets.clear()
        await self._channels.close()


def server_options(
    handshake_seconds: float, message_bytes: int = UNLIMITED, age_seconds: float | None = None
) -> list[Option]:
    """``message_bytes``: the largest message; a larger one is RESOURCE_EXHAUSTED before it is held. ``handshake_seconds``: for HTTP/2's first
    frames. ``age_seconds``: after which a connection gets a GOAWAY, ± 10 %; None: never.
    """
    aged: list[Option] = [] if age_seconds is None else [("grpc.max_connection_age_ms", int(age_seconds * 1000))]
    return [
        *aged,
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", UNLIMITED),
        ("grpc.max_concurrent_streams", CALLS_OF_ONE_CONNECTION),
        ("grpc.max_metadata_size", METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES),
        ("grpc.server.max_pending_requests", PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS),
        ("grpc.server_handshake_timeout_ms", int(handshake_seconds * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", LEAST_PING_INTERVAL_MS),
        ("grpc.http2.max_ping_strikes", 0),
    ]
