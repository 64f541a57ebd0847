"""The gRPC servers of a process: one for each upstream, behind the ports that lead there.

Each listens on a socket of its own that only our ports know, because gRPC does not tell its handlers on which port a call arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

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
from .listener import GrpcListener, listen
from .messages import Inflated, Unfinished
from .plane import Plane
from .upstream import UNLIMITED, Channels

Leading = Callable[[Origin, str], Plane]
"""The plane of calls to an origin; the text is the index of the port, "" for backends with one upstream."""


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

    def leading(origin: Origin, host: str) -> Plane:
        return Plane(shared, origin, host=host)

    return GrpcSide(
        leading,
        channels,
        calls,
        handshake_seconds=settings.limits.head_timeout_seconds,
        message_bytes=settings.grpc.message_bytes,
        age_seconds=settings.limits.connection_age_seconds,
    )


class GrpcSide:
    """Create and end it inside the event loop. ``handshake_seconds``: how long a connection may take to show its protocol."""

    def __init__(
        self,
        plane_of: Leading,
        channels: Channels,
        calls: Calls,
        *,
        handshake_seconds: float,
        message_bytes: int = UNLIMITED,
        age_seconds: float | None = None,
    ) -> None:
        self._plane_of = plane_of
        self._channels = channels
        self._calls = calls
        self._handshake_seconds = handshake_seconds
        self._message_bytes = message_bytes
        self._age_seconds = age_seconds
        self._sockets: dict[tuple[Origin, str], InnerSocket] = {}
        self._servers: list[GrpcListener] = []
        self._planes: list[Plane] = []
        self._stopping: list[asyncio.Task[None]] = []
        self._is_ending = asyncio.Event()

    async def inner_socket(self, data_port: DataPort) -> InnerSocket | None:
        """The socket for calls on this port; None if the port has no gRPC. Raises OSError."""
        if data_port.grpc is None:
            return None
        index = "" if data_port.index is None else data_port.index.authority
        key = (data_port.grpc, index)
        if key not in self._sockets:
            inner = self._sockets[key] = InnerSocket(self._calls)
            self._planes.append(plane := self._plane_of(*key))
            server = await listen(
                plane,
                inner.grpc,
                handshake_seconds=self._handshake_seconds,
                message_bytes=self._message_bytes,
                age_seconds=self._age_seconds,
            )
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

    async def _stopped(self, server: GrpcListener, grace_seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOAWAY_SECONDS):
                await self._is_ending.wait()
        await server.close(grace_seconds=grace_seconds)

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
