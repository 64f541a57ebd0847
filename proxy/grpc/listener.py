"""The gRPC server of one port."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from .upstream import METADATA_BYTES, UNLIMITED, Option

# Idle clients may send pings: pymilvus does every 10 s, and a server with grpcio's defaults disconnects it after two minutes.
LEAST_PING_INTERVAL_MS = 5000
# The most concurrent calls per connection. A connection counts once, whatever it carries, and grpcio has no bound of its own. The same
# number as a process's default (limits.in_flight). A client's own core waits with further calls; other clients get a refusal for each.
CALLS_OF_ONE_CONNECTION = 1024
# The most calls in the core's queue. grpcio takes one call at a time off it; of a queue above 1,000 the core cancels some at random, and no
# client retries a cancelled call. Waiting until the client's own deadline is better: the calls of sixteen connections.
PENDING_CALLS = 16 * CALLS_OF_ONE_CONNECTION


@dataclass(frozen=True, slots=True)
class GrpcListener:
    """``port``: the bound one; the assigned one if 0 was given; 1 for a Unix socket."""

    server: grpc.aio.Server
    port: int

    async def close(self, *, grace_seconds: float) -> None:
        """Stop accepting, send GOAWAY on every connection, let calls finish for the grace period, then cut them."""
        await self.server.stop(grace_seconds)


async def listen(
    handler: grpc.GenericRpcHandler,
    where: str,
    *,
    handshake_seconds: float,
    message_bytes: int = UNLIMITED,
    certificate: tuple[Path, Path] | None = None,
    age_seconds: float | None = None,
) -> GrpcListener:
    """Open a port. ``where``: host:port, or a Unix socket as `unix:<path>`. ``certificate``: files of the certificate and its key.

    ``message_bytes``: the largest message; a larger one is RESOURCE_EXHAUSTED before it is held. ``handshake_seconds``: for TLS and
    HTTP/2's first frames. ``age_seconds``: after which a connection gets a GOAWAY, ± 10 %; None: never. Raises OSError when the address
    cannot be bound.
    """
    server = grpc.aio.server(handlers=(handler,), options=_options(handshake_seconds, message_bytes, age_seconds))
    try:
        if certificate is None:
            port = server.add_insecure_port(where)
        else:
            chain, key = (path.read_bytes() for path in certificate)
            port = server.add_secure_port(where, grpc.ssl_server_credentials([(key, chain)]))
    except RuntimeError:  # the core does not report the reason
        raise OSError(
            f"gRPC cannot listen on {where}: in use, not an address of this machine, or not allowed"
        ) from None
    await server.start()
    return GrpcListener(server, port)


def _options(handshake_seconds: float, message_bytes: int, age_seconds: float | None) -> list[Option]:
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
        ("grpc.so_reuseport", 0),  # on by default, so that two proxies would share a port unnoticed
        ("grpc.server_handshake_timeout_ms", int(handshake_seconds * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", LEAST_PING_INTERVAL_MS),
        ("grpc.http2.max_ping_strikes", 0),
    ]
