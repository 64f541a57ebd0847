"""The API's listener in this process, and a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry

from vecsieve.config.schema import Settings
from vecsieve.proxy.api.listener import Api
from vecsieve.proxy.api.routes import Route, routes_of
from vecsieve.proxy.runtime.addresses import DataPort
from vecsieve.proxy.runtime.memory import MemoryGuard
from vecsieve.proxy.telemetry.exposition import process_registry, scrape
from vecsieve.proxy.telemetry.metrics import Metrics

TOKEN = "a token of a good length"
ASK_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Served:
    """``client``: of the API."""

    client: httpx.AsyncClient
    port: int
    registry: CollectorRegistry
    api: Api

    def exposed(self) -> str:
        """The metrics as text."""
        return scrape(self.registry, "").body.decode()

    async def until_exposed(self, line: str) -> None:
        """A request is counted when it ends, which is just after its client has the answer."""
        async with asyncio.timeout(ASK_SECONDS):
            while line not in self.exposed():
                await asyncio.sleep(0.01)


def token_file(folder: Path) -> str:
    file = folder / "token"
    file.write_text(TOKEN)
    return str(file)


@asynccontextmanager
async def served(
    routes: tuple[Route, ...] | None = None,
    *,
    resident_bytes: int = 0,
    limits: dict[str, object] | None = None,
    **api: object,
) -> AsyncIterator[Served]:
    """``resident_bytes``: of a limit of 100. ``routes``: those of the product by default. ``api``: settings."""
    settings = Settings.model_validate({"api": {"listen": "127.0.0.1:9466", **api}, "limits": limits or {}})
    registry = process_registry()
    made = Api(
        settings,
        routes_of(settings.api) if routes is None else routes,
        metrics=Metrics(registry, backend=settings.backend),
        memory=MemoryGuard(100, resident_bytes=lambda: resident_bytes, clock=asyncio.get_running_loop().time),
    )
    port = await made.open(DataPort("127.0.0.1", 0, is_for_api=True), None)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=ASK_SECONDS) as client:
            yield Served(client, port, registry, made)
    finally:
        await made.close(grace_seconds=0.0)
