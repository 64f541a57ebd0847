"""L: what the proxy adds to a request, what it sheds first when it has too much, how late its loop wakes."""

from __future__ import annotations

import asyncio
import re

from prove.finding import Finding, Scale
from prove.openload import RequestRecorder, capacity, open_load
from prove.stack import Administered, Stack, stack
from support.qdrant.scripted import search

GET = b"GET /collections HTTP/1.1\r\nHost: db\r\n\r\n"
BODY = search()
SEARCH = (
    b"POST /collections/c/points/query HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
)


async def prove(scale: Scale) -> list[Finding]:
    """Pass-through, then searches at twice what one process can do."""
    async with stack(workers=1) as running:
        return [*await added(running, scale), *await overload(running, scale)]


async def at(port: int, raw: bytes, *, rate: float, seconds: float) -> RequestRecorder:
    """Open loop for so long."""
    totals = RequestRecorder()
    await open_load(port, lambda _: raw, rate=rate, count=max(1, int(rate * seconds)), heard=totals.heard)
    return totals


async def added(running: Stack, scale: Scale) -> list[Finding]:
    """Direct and through the proxy at the same rate, half of what goes through it."""
    most = await capacity(running.port, GET, seconds=min(2.0, scale.load_seconds))
    rate = most / 2
    direct = await at(running.database.port, GET, rate=rate, seconds=scale.load_seconds)
    through = await at(running.port, GET, rate=rate, seconds=scale.load_seconds)
    p50, p99 = (1000 * (through.latency.percentile(q) - direct.latency.percentile(q)) for q in (0.5, 0.99))
    what = f"passed through at {rate:.0f}/s, half of {most:.0f}/s"
    return [
        Finding("L1", what, "0 failed", through.words(), not through.failed),
        Finding("L1", what, "p50 ≤ 1.0 ms added", f"{p50:.2f} ms", p50 <= 1.0),
        Finding("L1", what, "p99 ≤ 2.5 ms added", f"{p99:.2f} ms", p99 <= 2.5),
    ]


async def overload(running: Stack, scale: Scale) -> list[Finding]:
    """Searches at half of what one process can do, at twice, and at half again."""
    most = await capacity(running.port, SEARCH, seconds=min(2.0, scale.load_seconds))
    _, earlier = await running.get("/metrics")  # what the closed loop above did to the loop is not asked
    before = await at(running.port, SEARCH, rate=most / 2, seconds=scale.load_seconds)
    late = await lag(running, 0.99, since=earlier)
    over = await at(running.port, SEARCH, rate=2 * most, seconds=scale.overload_seconds)
    shed = await running.metric(r'fail_open_total\{[^}]*reason="overload"[^}]*\}')
    await asyncio.sleep(5.0)
    after = await at(running.port, SEARCH, rate=most / 2, seconds=scale.load_seconds)
    answered = over.statuses[200] / over.statuses.total()
    slowest = over.latency.percentile(1.0)
    is_alive = running.command.process.poll() is None
    what = f"searches at {2 * most:.0f}/s, twice {most:.0f}/s"
    p99, again = (1000 * totals.latency.percentile(0.99) for totals in (before, after))
    return [
        Finding(
            "L5", f"loop's lag at {most / 2:.0f} searches/s", "p99 ≤ 20 ms", f"≤ {1000 * late:.0f} ms", late <= 0.020
        ),
        Finding("L4", what, "no crash, every request answered", over.words(), is_alive and not over.statuses[0]),
        Finding("L4", what, "selection is shed first", f"{shed:.0f} shed, {100 * answered:.1f} % 200", shed > 0),
        Finding("L4", what, "answered ≤ 1.5 s after due", f"slowest {slowest:.2f} s", slowest <= 1.5),
        Finding("L4", "5 s later", "p99 as before ± 50 %", f"{again:.1f} ms, was {p99:.1f} ms", again <= 1.5 * p99),
    ]


async def lag(running: Administered, share: float, *, since: str = "") -> float:
    """The upper edge of the bucket in which this percentile of the loop's lag lies, in seconds. ``since``: an earlier page."""
    _, page = await running.get("/metrics")
    earlier = _buckets(since)
    buckets = {edge: count - earlier.get(edge, 0.0) for edge, count in _buckets(page).items()}
    total = max(buckets.values(), default=0.0)
    if not total:
        raise AssertionError("the loop's lag was never measured")
    return min(edge for edge, count in buckets.items() if count >= share * total)


def _buckets(page: str) -> dict[float, float]:
    """Counts up to each edge, of all workers."""
    buckets: dict[float, float] = {}
    for edge, count in re.findall(
        r'^vecsieve_event_loop_lag_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)$', page, re.MULTILINE
    ):
        buckets[float(edge)] = buckets.get(float(edge), 0.0) + float(count)
    return buckets
