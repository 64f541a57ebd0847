"""A real Prometheus scrapes a real proxy under mixed load: rules record, an alert fires, every panel has something to show."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deploy.grafana.overview import overview
from deploy.grafana.quality import quality
from support.deploy.dashboard_lint import queries
from support.deploy.prometheus_tools import RECORDING, needs_prometheus, rules_of
from support.deploy.real_prometheus import WINDOW, Prometheus, prometheus
from support.exchanges.mixed_load import TRACE, Hurt
from support.process.stack import command

TIMEOUT_SECONDS = 40.0
DASHBOARDS = {board["title"]: board for board in (overview(), quality())}
WITHOUT_A_LIMIT = {"instance:vecsieve_resident_memory_bytes:ratio"}  # this machine may have none
CHOSEN = {"$__rate_interval": WINDOW, "$job": ".+", "$instance": ".+"}


async def nothing_lacks(lacking: Callable[[], Collection[str]]) -> None:
    """Look again and again, off the loop on which database and clients run, until nothing is named."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while lacks := await asyncio.to_thread(lacking):
        assert time.monotonic() < until, f"not within {TIMEOUT_SECONDS} s: {lacks}"
        await asyncio.sleep(0.25)


def samples(server: Prometheus, query: str) -> list[float]:
    for name, value in CHOSEN.items():
        query = query.replace(name, value)
    return [value for _, value in server.ask(query)]


def empty(server: Prometheus) -> list[str]:
    """The queries that show nothing, or something that is no number."""
    return [
        f"{title}: {query}"
        for board in DASHBOARDS.values()
        for title, query in queries(board)
        if not (values := samples(server, query)) or not all(map(math.isfinite, values))
    ]


def unrecorded(server: Prometheus) -> set[str]:
    names = {str(rule["record"]) for rule in rules_of(RECORDING)}
    return {name for name in names if not server.ask(name)}


@needs_prometheus
async def test_rules_record_an_alert_fires_and_every_panel_shows_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    database = Hurt()
    with ExitStack() as stack:
        async with database.upstream() as upstream:
            proxy = stack.enter_context(
                command("serve", "--upstream", upstream.url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
            )
            urls = await asyncio.to_thread(proxy.addresses, 2)
            port = urlsplit(urls["serve"]).port
            assert port is not None
            server = await asyncio.to_thread(stack.enter_context, prometheus(tmp_path, urlsplit(urls["admin"]).netloc))
            load = asyncio.create_task(database.load(port))
            try:
                await nothing_lacks(lambda: unrecorded(server) - WITHOUT_A_LIMIT)
                assert "VecSieveFailOpenHigh" not in await asyncio.to_thread(server.firing)
                database.is_hurt = True
                await nothing_lacks(lambda: {"VecSieveFailOpenHigh"} - server.firing())
                await nothing_lacks(lambda: empty(server))
                await nothing_lacks(lambda: unrecorded(server) - WITHOUT_A_LIMIT)
                await nothing_lacks(lambda: {TRACE} - server.traces("vecsieve_added_latency_seconds"))
                firing = await asyncio.to_thread(server.firing)
            finally:
                load.cancel()
                await asyncio.gather(load, return_exceptions=True)
        assert not firing & {"VecSieveErrorBudgetBurnFast", "VecSieveBreakerOpen", "VecSieveShedding"}
        assert set(database.statuses) == {200, 400}, (
            "one kind of request of the round has headers that cannot be obeyed"
        )
        assert await asyncio.to_thread(proxy.close) == 0
        await nothing_lacks(lambda: {"VecSieveDown"} - server.firing())
    with capsys.disabled():
        panel_queries = sum(len(queries(board)) for board in DASHBOARDS.values())
        requests = sum(database.statuses.values())
        print(f"\n{panel_queries} panel queries, {requests} requests, {time.monotonic() - began:.1f} s")
