"""The gRPC listener: the options that make it behave as the real server's does, start and stop."""

from __future__ import annotations

import grpc.aio

from vecsieve.config.addresses import Address
from vecsieve.proxy.embedded.grpc_service import Service

_GRACE_SECONDS = 2.0
_OPTIONS: tuple[tuple[str, int], ...] = (
    # tonic gzips every answer to a client that takes gzip. A level chooses among what the client takes; naming the
    # algorithm (`compression=`) breaks clients that take none: "Compression algorithm not supported" (grpcio 1.85).
    ("grpc.default_compression_level", 1),  # of what both know, the first: gzip
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # tonic counts no pings; grpcio would send GOAWAY to a client that pings an idle connection.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
    # Off, so that a port in use is an error and not shared.
    ("grpc.so_reuseport", 0),
)


class GrpcListener:
    """A listening gRPC server. `address`: with the port that was really bound."""

    def __init__(self, server: grpc.aio.Server, address: Address) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        """Take no more calls, and give those at work a moment."""
        await self._server.stop(_GRACE_SECONDS)


async def serve(service: Service, address: Address) -> GrpcListener:
    """Serve at the address (port 0 picks a free one). Raises OSError when it cannot be listened on."""
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((service,))
    try:
        port = server.add_insecure_port(authority(address))
    except RuntimeError as error:
        raise OSError(
            f"cannot listen on {authority(address)} for gRPC: it is in use, or none of this machine's"
        ) from error
    await server.start()
    return GrpcListener(server, Address(address.host, port))


def authority(address: Address) -> str:
    """`host:port`, an IPv6 literal in brackets."""
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
