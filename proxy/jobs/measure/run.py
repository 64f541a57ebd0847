"""Every search in every way, one after the other, so that none slows another. What was measured is kept in a file after each search.

The proxies run in this process, before the user's database, with the user's settings. Their ports are free ones of this machine; writes, webhook and journal
are off, because nothing is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import aiohttp
import msgspec
import typer
from prometheus_client import CollectorRegistry

from vecsieve.config.schema import Settings, ShadowSettings

from ...http.tls import upstream_context
from ...process.assembly import Process
from ...runtime.addresses import data_ports_of
from ...runtime.files import Advance, bounded
from ...search.exchange import Shadow
from ...telemetry.metrics import Metrics
from ...telemetry.verdict import Measured
from ..databases import RateOption
from .queries import JSON, Query

ANY_PORT = "127.0.0.1:0"
LARGEST_BYTES = 64 << 20
SECONDS = 60.0  # for one search


class Pace(NamedTuple):
    """Seconds, and how to wait for some."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


REAL = Pace(time.perf_counter, asyncio.sleep)


class Way(StrEnum):
    PLAIN = "plain"
    SHADOW = "shadow"
    ON = "on"
    THROUGH = "through"  # the user's own VecSieve


class MeasureError(Exception):
    """Why a search cannot be measured, in one sentence that shows no key."""


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """``seconds``: that the client waited. ``size``: bytes of the answer."""

    seconds: float
    size: int
    status: int


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One search in all ways. ``rows``: what mode shadow measured of it."""

    turn: int
    line: int
    sent: dict[str, Sent]
    rows: list[Measured]


@dataclass(slots=True)
class State:
    """The entries so far, kept in a file: its first line names what was measured, so that no other run is continued."""

    path: Path
    digest: str
    entries: list[Entry] = field(default_factory=list)

    def load(self) -> None:
        """Raises MeasureError for the file of another run."""
        if not self.path.is_file():
            self.path.write_text(self.digest + "\n", encoding="utf-8")
            return
        first, *lines = self.path.read_bytes().split(b"\n")
        if first.decode("utf-8", "replace") != self.digest:
            raise MeasureError(
                f"{self.path} is of another file of searches, database or setting: remove it to begin again"
            )
        whole = lines[:-1]  # a line without its end was cut when the run was killed
        self.entries = [msgspec.json.decode(line, type=Entry) for line in whole]
        self.path.write_bytes(b"\n".join([first, *whole, b""]))

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """``through``: None for proxies of its own."""

    through: Annotated[
        str | None, typer.Option(help="URL of a running VecSieve to measure, instead of modes shadow and on.")
    ] = None
    turns: Annotated[int, typer.Option(help="How often each search is sent in every way.", min=1, max=1000)] = 3
    requests_per_second: RateOption = 20.0


@asynccontextmanager
async def proxied(settings: Settings, mode: Way) -> AsyncIterator[tuple[str, Shadow]]:
    """A proxy of this process in this mode: its URL, and what its shadow measures."""
    default = Settings()
    off = {name: getattr(default, name) for name in ("grpc", "api", "webhook", "journal", "tls", "tracing", "canary")}
    changed = {"mode": mode.value, "listen": ANY_PORT, "workers": 1, "shadow": ShadowSettings(sample=1.0), **off}
    changed_settings = settings.model_copy(update=changed)
    metrics = Metrics(CollectorRegistry(), backend=changed_settings.backend, rules=changed_settings.rule_names)
    process = Process(changed_settings, metrics=metrics, log=lambda _: None)  # these searches are the user's own
    try:
        port, *_ = await process.listen(*data_ports_of(changed_settings))
        yield f"http://127.0.0.1:{port}{changed_settings.upstream.path_prefix}", process.shadow
    finally:
        await process.close()


async def measure(
    queries: Sequence[Query],
    options: MeasureOptions,
    settings: Settings,
    headers: Mapping[str, str],
    state: State,
    advance: Advance,
    *,
    pace: Pace = REAL,
) -> None:
    """Send what the state lacks. ``headers``: of every request, with the key. Raises MeasureError."""
    upstream, indexes = settings.upstream, settings.indexes
    plain = upstream.origin + upstream.prefix
    if indexes is not None and indexes.index_host is not None:
        plain = indexes.index_host
    known = {(entry.turn, entry.line) for entry in state.entries}
    async with AsyncExitStack() as stack:
        urls = {Way.PLAIN: plain}
        shadow: Shadow | None = None
        if options.through is None:
            urls[Way.SHADOW], shadow = await stack.enter_async_context(proxied(settings, Way.SHADOW))
            urls[Way.ON], _ = await stack.enter_async_context(proxied(settings, Way.ON))
        else:
            urls[Way.THROUGH] = options.through.rstrip("/")
        tls = upstream_context(upstream) if upstream.url.startswith("https:") else True
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": JSON, **headers},
            auto_decompress=False,  # the size on the wire counts, as in the verdict
        )
        client = _Client(await stack.enter_async_context(session), 1.0 / options.requests_per_second, pace)
        for turn in range(options.turns):
            for query in queries:
                if (turn, query.line) not in known:
                    state.add(await _entry(turn, query, urls, client, shadow))
                advance(1)


async def _entry(turn: int, query: Query, urls: Mapping[Way, str], client: _Client, shadow: Shadow | None) -> Entry:
    """One search in every way, in an order that changes with each: the first one warms the database's caches."""
    ways = list(urls)
    first = (turn + query.line) % len(ways)
    sent: dict[str, Sent] = {}
    for way in (*ways[first:], *ways[:first]):
        answer = await client.sent(urls[way], query, requests=2 if way is Way.SHADOW else 1)
        if way is Way.PLAIN and answer.status != 200:
            raise MeasureError(f"line {query.line}: the database answered with status {answer.status}")
        sent[way.value] = answer
        if shadow is not None:
            await shadow.settled()  # a measurement must not slow the next search
    rows: list[Measured] = []
    if shadow is not None:
        rows = list(shadow.rows)
        shadow.rows.clear()
    return Entry(turn, query.line, sent, rows)


class _Client:
    """Sends searches, at most so many requests a second. Unused time is not saved: bursts are what slows a live database."""

    def __init__(self, session: aiohttp.ClientSession, interval: float, pace: Pace) -> None:
        self._session, self._interval, self._pace, self._next = session, interval, pace, 0.0

    async def sent(self, url: str, query: Query, *, requests: int) -> Sent:
        """``requests``: how many the database gets for it. Raises MeasureError."""
        if (wait := self._next - self._pace.clock()) > 0:
            await self._pace.sleep(wait)
        since = self._pace.clock()
        self._next = since + requests * self._interval
        try:
            async with self._session.post(url + query.target, data=query.body, allow_redirects=False) as response:
                size = len(await bounded(response.content, LARGEST_BYTES))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise MeasureError(f"line {query.line}: no answer ({type(error).__name__})") from None
        return Sent(self._pace.clock() - since, size, response.status)
