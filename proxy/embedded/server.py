"""Start and stop: inside a running loop, or as a process of its own until it is told to end."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

from aiohttp import web

from vecsieve.config.addresses import parse_address
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.embedded.engine import edge
from vecsieve.proxy.embedded.registry import Registry
from vecsieve.proxy.embedded.rest import make_app

_KEEPALIVE_SECONDS = 5.0
"""The real server's default, kept because proxies in front of it must cope with it."""
_SHUTDOWN_SECONDS = 2.0


class EmbeddedServer:
    """A listening server. `close` ends it, flushes the data, and removes a temporary directory."""

    def __init__(self, runner: web.AppRunner, registry: Registry, *, host: str, port: int) -> None:
        self._runner = runner
        self._registry = registry
        self.port = port
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
        """Stop listening, then let go of the data."""
        await self._runner.cleanup()
        self._registry.close()


async def start(*, host: str, port: int, path: Path | None = None, api_key: str | None = None) -> EmbeddedServer:
    """Listen on host and port (0 picks a free one) with the data under `path`, or in a temporary directory.

    Raises OSError when the port is taken, Refusal when the directory is in use or not a data directory.
    """
    registry = Registry(path)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError:
        registry.close()
        raise
    runner = web.AppRunner(
        make_app(registry, api_key=api_key),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return EmbeddedServer(runner, registry, host=host, port=int(listening.getsockname()[1]))


def run(*, listen: str, path: Path | None) -> None:
    """Serve on `host:port` until SIGTERM or SIGINT; the address is printed once it can be used.

    Raises SettingsError for an address that is none, ModuleNotFoundError without the engine: now, not at the first
    collection.
    """
    try:
        address = parse_address(listen)
    except ValueError:
        raise SettingsError((Problem("--listen", repr(listen), "host:port such as 127.0.0.1:6333"),)) from None
    edge()
    asyncio.run(_serve(address.host, address.port, path))


async def _serve(host: str, port: int, path: Path | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await start(host=host, port=port, path=path)
    print(f"vecsieve embedded listening on {server.url}", flush=True)
    await ended.wait()
    await server.close()
