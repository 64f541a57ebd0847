"""A gRPC port for one handler, plaintext."""

from __future__ import annotations

import grpc

from vecsieve.proxy.emulator.grpc_service import Service

_MOST_BYTES = 64 * 1024 * 1024
"""Read before any limit of the service is looked at, as over REST."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", -1),
    # Clients keep idle connections alive by pings; gRPC would hang up on them.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    # Or two servers could have one port, and each would get some of the connections.
    ("grpc.so_reuseport", 0),
)
_SHUTDOWN_SECONDS = 2.0


class GrpcServer:
    """Made inside a running loop. Listens at once; who connects before `start` waits."""

    def __init__(self, service: Service, host: str) -> None:
        """Raises RuntimeError when the host has no port to give."""
        self._server = grpc.aio.server(handlers=(service,), options=_OPTIONS)
        self.port = self._server.add_insecure_port(f"{f'[{host}]' if ':' in host else host}:0")

    async def start(self) -> None:
        """Answer."""
        await self._server.start()

    async def close(self) -> None:
        """Let calls end, for a moment."""
        await self._server.stop(_SHUTDOWN_SECONDS)
