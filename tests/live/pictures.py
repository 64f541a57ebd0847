"""`make pictures`: the dashboards of a real proxy under mixed load, scraped by a real Prometheus, into docs/dashboards."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from live.picture.__main__ import draw

from support.deploy.prometheus_tools import ROOT
from support.deploy.real_prometheus import prometheus
from support.exchanges.mixed_load import Hurt
from support.process.stack import command

QUIET_SECONDS, BUSY_SECONDS, HURT_SECONDS = 25.0, 45.0, 20.0
WINDOW = "6s"
ABOUT = (
    "One client, then four, then a database whose answers to one collection's widened searches cannot be read, then one again; "
    "two cores, shared with other work"
)


async def load(database: Hurt, port: int) -> float:
    """Ask for a while, by the story that ABOUT tells; how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    clients = [asyncio.create_task(database.load(port))]
    try:
        await asyncio.sleep(QUIET_SECONDS)
        clients += [asyncio.create_task(database.load(port)) for _ in range(3)]
        await asyncio.sleep(BUSY_SECONDS)
        database.is_hurt = True
        await asyncio.sleep(HURT_SECONDS)
        database.is_hurt = False
        for client in clients[1:]:
            client.cancel()
        await asyncio.sleep(QUIET_SECONDS)
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    return loop.time() - began


async def main() -> None:
    """Run everything, then draw what Prometheus has of it."""
    database = Hurt()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        async with database.upstream() as upstream:
            proxy = stack.enter_context(
                command("serve", "--upstream", upstream.url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
            )
            urls = await asyncio.to_thread(proxy.addresses, 2)
            port = urlsplit(urls["serve"]).port
            assert port is not None
            server = await asyncio.to_thread(stack.enter_context, prometheus(folder, urlsplit(urls["admin"]).netloc))
            took = await load(database, port)
            for file in draw(server.url, ROOT / "docs/dashboards", seconds=took, window=WINDOW, about=ABOUT):
                print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    asyncio.run(main())
