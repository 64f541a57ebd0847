"""Start and stop: inside a running loop, or as a process until it is told to end."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

from aiohttp import web

from vecsieve.config.addresses import Address, parse_address
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.demo.embedded.collections import Registry
from vecsieve.proxy.demo.embedded.engine import edge
from vecsieve.proxy.demo.embedded.rest import Rest

_KEEPALIVE_SECONDS = 5.0
"""The real server's default, kept because proxies in front of it must cope with it."""
_SHUTDOWN_SECONDS = 2.0


class EmbeddedServer:
    """A listening server. `close` ends it, flushes the data, and removes a temporary directory."""

    def __init__(self, runner: web.AppRunner, registry: Registry, address: Address) -> None:
        self._runner = runner
        self._registry = registry
        self.port = address.port
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.url = f"http://{host}:{address.port}"

    async def close(self) -> None:
        """Stop listening, then let go of the data."""
        await self._runner.cleanup()
        self._registry.close()


async def start(rest: Rest, address: Address) -> EmbeddedServer:
    """Listen (port 0 picks a free one). Raises OSError when the port is taken; the registry is closed then."""
    runner = web.AppRunner(
        rest.app(),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family)
        await runner.setup()
        await web.SockSite(runner, listening).start()
    except OSError:
        await runner.cleanup()
        rest.registry.close()
        raise
    return EmbeddedServer(runner, rest.registry, Address(address.host, int(listening.getsockname()[1])))


def run(*, listen: str, path: Path | None) -> None:
    """Serve on `host:port` until SIGTERM or SIGINT; the address is printed once it can be used.

    `path`: where the data is kept, a temporary directory when None. Raises SettingsError for an address that is none,
    ModuleNotFoundError without the engine: now, not at the first collection.
    """
    try:
        address = parse_address(listen)
    except ValueError:
        raise SettingsError((Problem("--listen", repr(listen), "host:port such as 127.0.0.1:6333"),)) from None
    edge()
    asyncio.run(_serve(address, path))


async def _serve(address: Address, path: Path | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await start(Rest(Registry(path)), address)
    print(f"vecsieve embedded listening on {server.url}", flush=True)
    await ended.wait()
    await server.close()
