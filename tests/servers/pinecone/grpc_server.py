"""A gRPC server for one handler, plaintext, behind a port that others can share."""

from __future__ import annotations

import grpc
from servers.pinecone.grpc_service import Service

from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.listener import InnerSocket

_MOST_BYTES = 64 * 1024 * 1024
"""Read before any limit of the service is looked at, as over REST."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", -1),
    # Clients keep idle connections alive by pings; gRPC would hang up on them.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
)
_SHUTDOWN_SECONDS = 2.0


class GrpcServer:
    """Made inside a running loop. `inner`: where it listens, at once; who connects before `start` waits."""

    def __init__(self, service: Service) -> None:
        self.inner = InnerSocket(Calls())
        self._server = grpc.aio.server(handlers=(service,), options=_OPTIONS)
        self._server.add_insecure_port(self.inner.grpc)

    async def start(self) -> None:
        """Answer."""
        await self._server.start()

    async def close(self) -> None:
        """Let calls end, for a moment."""
        await self._server.stop(_SHUTDOWN_SECONDS)
        self.inner.close()
