"""Start and stop, over REST and on demand over gRPC."""

from __future__ import annotations

import socket
from pathlib import Path

from aiohttp import web
from servers.qdrant.catalogue import FullRegistry
from servers.qdrant.grpc_messages import Encoding
from servers.qdrant.grpc_server import GrpcListener, Service, authority, serve
from servers.qdrant.rest import Rest

from vecsieve.config.addresses import Address

_KEEPALIVE_SECONDS = 5.0  # the real server's default, which proxies in front of it must handle
_SHUTDOWN_SECONDS = 2.0


class QdrantServer:
    """A listening server. `grpc_url`: None when it has no gRPC. `close` ends it and lets go of the data."""

    def __init__(self, runner: web.AppRunner, registry: FullRegistry, address: Address) -> None:
        self._runner = runner
        self.rpc: GrpcListener | None = None
        self.registry = registry
        self.port = address.port
        self.url = f"http://{authority(address)}"

    @property
    def grpc_url(self) -> str | None:
        return None if self.rpc is None else f"http://{authority(self.rpc.address)}"

    async def close(self) -> None:
        """Stop listening, flush the data, and remove a temporary directory."""
        if self.rpc is not None:
            await self.rpc.close()
        await self._runner.cleanup()
        self.registry.close()


async def start(
    *,
    host: str,
    port: int,
    path: Path | None = None,
    api_key: str | None = None,
    grpc_address: Address | None = None,
    encoding: Encoding = Encoding.ONEOF,
) -> QdrantServer:
    """Listen on host and port (0 picks a free one) with the data under `path`, or in a temporary directory.

    `grpc_address`: where gRPC listens, nowhere when None; `encoding`: of the vectors in its answers.
    Raises OSError when a port is taken, RefusalError when the directory is in use or not a data directory.
    """
    registry = FullRegistry(path)
    runner = web.AppRunner(
        Rest(registry, api_key=api_key).app(),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    server = QdrantServer(runner, registry, Address(host, port))
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        server = QdrantServer(runner, registry, Address(host, int(listening.getsockname()[1])))
        if grpc_address is not None:
            server.rpc = await serve(Service(registry, api_key=api_key, encoding=encoding), grpc_address)
    except OSError:
        await server.close()
        raise
    return server
