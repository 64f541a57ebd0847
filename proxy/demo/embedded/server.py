"""Start and stop, over REST and on demand over gRPC: inside a running loop, or as a process until it is told to end."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

from aiohttp import web

from vecsieve.config.addresses import Address, parse_address
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.demo.embedded.engine import edge
from vecsieve.proxy.demo.embedded.grpc_messages import Encoding, messages
from vecsieve.proxy.demo.embedded.grpc_server import GrpcListener, Service, authority, serve
from vecsieve.proxy.demo.embedded.registry import Registry
from vecsieve.proxy.demo.embedded.rest import make_app

_KEEPALIVE_SECONDS = 5.0
"""The real server's default, kept because proxies in front of it must cope with it."""
_SHUTDOWN_SECONDS = 2.0


class EmbeddedServer:
    """A listening server. `grpc_url`: None when it has no gRPC. `close` ends it, flushes the data, and removes a temporary directory."""

    def __init__(self, runner: web.AppRunner, registry: Registry, address: Address, rpc: GrpcListener | None) -> None:
        self._runner = runner
        self._registry = registry
        self._rpc = rpc
        self.port = address.port
        self.url = f"http://{authority(address)}"
        self.grpc_url = None if rpc is None else f"http://{authority(rpc.address)}"

    async def close(self) -> None:
        """Stop listening, then let go of the data."""
        await self._runner.cleanup()
        if self._rpc is not None:
            await self._rpc.close()
        self._registry.close()


async def start(
    *,
    host: str,
    port: int,
    path: Path | None = None,
    api_key: str | None = None,
    grpc_address: Address | None = None,
    encoding: Encoding = Encoding.ONEOF,
) -> EmbeddedServer:
    """Listen on host and port (0 picks a free one) with the data under `path`, or in a temporary directory.

    `grpc_address`: where gRPC listens, nowhere when None; `encoding`: of the vectors in its answers.
    Raises OSError when a port is taken, Refusal when the directory is in use or not a data directory.
    """
    registry = Registry(path)
    runner = _runner(registry, api_key)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        rpc = None
        if grpc_address is not None:
            service = Service(registry, api_key=api_key, encoding=encoding)
            rpc = await serve(service, grpc_address)
    except OSError:
        await runner.cleanup()
        registry.close()
        raise
    return EmbeddedServer(runner, registry, Address(host, int(listening.getsockname()[1])), rpc)


def _runner(registry: Registry, api_key: str | None) -> web.AppRunner:
    return web.AppRunner(
        make_app(registry, api_key=api_key),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )


def run(*, listen: str, path: Path | None, grpc_listen: str | None = None, encoding: Encoding = Encoding.ONEOF) -> None:
    """Serve on `host:port`, and gRPC on `grpc_listen`, until SIGTERM or SIGINT; addresses are printed once they can be used.

    Raises SettingsError for an address that is none, ModuleNotFoundError without the engine or, for gRPC, the official
    client: now, not at the first collection.
    """
    address = _address("--listen", listen, "127.0.0.1:6333")
    rpc = None if grpc_listen is None else _address("--grpc-listen", grpc_listen, "127.0.0.1:6334")
    edge()
    if rpc is not None:
        messages()
    asyncio.run(_serve(address, path, rpc, encoding))


async def _serve(address: Address, path: Path | None, rpc: Address | None, encoding: Encoding) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await start(host=address.host, port=address.port, path=path, grpc_address=rpc, encoding=encoding)
    print(f"vecsieve embedded listening on {server.url}", flush=True)
    if server.grpc_url is not None:
        print(f"vecsieve embedded gRPC on {server.grpc_url}", flush=True)
    await ended.wait()
    await server.close()


def _address(flag: str, text: str, example: str) -> Address:
    try:
        return parse_address(text)
    except ValueError:
        raise SettingsError((Problem(flag, repr(text), f"host:port such as {example}"),)) from None
