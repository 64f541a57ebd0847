"""What a scrape of a real process costs and says after mixed traffic, alone and with two workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from support.deploy.expositions import Exposed, exposed, faults
from support.exchanges.mixed_load import ROUND, Hurt
from support.network.faulty_upstream import raw_exchange
from support.process.stack import command, exchange

ROUNDS = 5
MOST_BYTES = 100 * 1024
# Not what was asked, but when, where and how fast; or what one process has and several cannot.
OF_THE_MOMENT = (
    "_seconds",
    "_bytes",
    "connections",
    "process_",
    "python_",
    "config_info",
    "in_flight_limit",
    "_opened_",
    "vecsieve_memory_",  # of each process: which of the two a search comes to is chance
)


@dataclass(frozen=True, slots=True)
class Scraped:
    """The last of several scrapes, and how long the quickest took."""

    outcome: Exposed
    seconds: float

    @property
    def counted(self) -> Mapping[str, float]:
        """Every series that depends on nothing but what was asked."""
        return {
            sample.name + str(sorted(sample.labels.items())): sample.value
            for family in self.outcome.families
            for sample in family.samples
            if not any(word in sample.name for word in OF_THE_MOMENT)
        }


async def search(port: int) -> None:
    for _ in range(ROUNDS):
        for request in ROUND:
            await raw_exchange(port, request)


def scraped(admin: str) -> Scraped:
    """Once every request is counted: the last ones end a moment after their answers."""
    until = time.monotonic() + 10.0
    while True:
        took, last = [], Exposed("", ())
        for _ in range(5):
            began = time.perf_counter()
            body = exchange(admin, "GET", "/metrics").body
            took.append(time.perf_counter() - began)
            last = exposed(body)
        is_counted = last.total("vecsieve_requests_total") == ROUNDS * len(ROUND)
        is_at_rest = last.total("vecsieve_candidates_count") == ROUNDS * 4  # three improved, one measured beside
        if is_counted and is_at_rest:
            return Scraped(last, min(took))
        assert time.monotonic() < until, last.text
        time.sleep(0.05)


async def scrape_of(workers: int) -> Scraped:
    database = Hurt()
    async with database.upstream() as upstream:
        with command(
            *("serve", "--upstream", upstream.url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
            *("--workers", str(workers)),
            # Each worker learns how deep pages reach, so two ask for other pools than one does where texts decide.
            environment={
                "VECSIEVE_SHADOW_SAMPLE": "1.0",
                "VECSIEVE_POLICY_REWORDINGS": "0.36",
                "VECSIEVE_MEMORY_BYTES": "0",
            },
        ) as proxy:
            urls = await asyncio.to_thread(proxy.addresses, 2)
            port = urlsplit(urls["serve"]).port
            assert port is not None
            await search(port)
            return await asyncio.to_thread(scraped, urls["admin"])


async def test_one_process_and_two_workers_count_the_same_within_the_same_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone, together = await scrape_of(1), await scrape_of(2)
    assert together.counted == alone.counted
    for scrape in (alone, together):
        assert scrape.outcome.series <= 600
        assert len(scrape.outcome.text) <= MOST_BYTES
        assert faults(scrape.outcome.text.encode()) == []
    with capsys.disabled():
        for name, scrape in (("one process", alone), ("two workers", together)):
            size = len(scrape.outcome.text) / 1024
            print(f"\n{name}: {scrape.outcome.series} series, {size:.1f} KiB, {scrape.seconds * 1000:.1f} ms a scrape")
