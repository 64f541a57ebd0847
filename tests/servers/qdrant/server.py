"""Start and stop, over REST and on demand over gRPC."""

from __future__ import annotations

from pathlib import Path

from servers.embedded.rest import EmbeddedServer
from servers.embedded.rest import start as start_rest
from servers.qdrant.catalogue import FullRegistry
from servers.qdrant.grpc_messages import Encoding
from servers.qdrant.grpc_server import GrpcListener, Service, authority, serve
from servers.qdrant.rest import FullRest

from vecsieve.config.addresses import Address


class QdrantServer:
    """A listening server. `grpc_url`: None when it has no gRPC. `close` ends it and lets go of the data."""

    def __init__(self, rest: EmbeddedServer, registry: FullRegistry, rpc: GrpcListener | None) -> None:
        self._rest = rest
        self._rpc = rpc
        self.registry = registry
        self.port = rest.port
        self.url = rest.url
        self.grpc_url = None if rpc is None else f"http://{authority(rpc.address)}"

    async def close(self) -> None:
        """Stop listening, flush the data, and remove a temporary directory."""
        if self._rpc is not None:
            await self._rpc.close()
        await self._rest.close()


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
    rest = await start_rest(FullRest(registry, api_key=api_key), Address(host, port))
    try:
        service = Service(registry, api_key=api_key, encoding=encoding)
        rpc = None if grpc_address is None else await serve(service, grpc_address)
    except OSError:
        await rest.close()
        raise
    return QdrantServer(rest, registry, rpc)
