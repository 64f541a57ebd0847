"""L: what a search of 10 results among 30 candidates of 768 dimensions costs over the same over-fetch made directly"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench import bodies
from bench.pools import sample
from bench.upstream import serving

from prove.finding import Finding, Scale
from prove.histogram import Histogram
from prove.load import at, lag
from prove.openload import capacity
from prove.stack import proxy
from support.network.faulty_upstream import RawClient

CANDIDATES, DIMENSIONS, TOP_K = 30, 768, 10
PATH = "/collections/c/points/query"


def search_request(body: bytes) -> bytes:
    """The search; the proxy is told how many candidates to fetch, the upstream has no more."""
    head = (
        b"POST %s HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nx-vecsieve-fetch-k: %d\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    return head % (PATH.encode(), CANDIDATES, len(body)) + body


async def prove(scale: Scale) -> list[Finding]:
    """One client at a time, direct and through in turn; then as many as half of what one process can do."""
    pool = sample(CANDIDATES, DIMENSIONS, seed=DIMENSIONS)
    raw = search_request(bodies.query_request(pool, limit=TOP_K))
    replies = {PATH: bodies.query_reply(pool, seed=DIMENSIONS)}
    with tempfile.TemporaryDirectory() as folder, serving(replies, Path(folder)) as upstream:
        async with proxy(f"http://127.0.0.1:{upstream.port}") as running:
            await in_turn(upstream.port, running.port, raw, 50)
            direct, through = await in_turn(upstream.port, running.port, raw, int(50 * scale.load_seconds))
            most = await capacity(running.port, raw, seconds=min(2.0, scale.load_seconds))
            under = await at(running.port, raw, rate=most / 2, seconds=scale.load_seconds)
            late, latest = await lag(running, 0.99), await lag(running, 1.0)
            improved = await running.metric(r'searches_total\{[^}]*outcome="dedup"[^}]*\}')
    p50, p99 = (1000 * (through.percentile(q) - direct.percentile(q)) for q in (0.5, 0.99))
    what = f"k=10 of {CANDIDATES} × {DIMENSIONS}, one at a time, {through.count} times; upstream: {upstream.kind}"
    load = f"the same, {most / 2:.0f}/s, half of {most:.0f}/s"
    return [
        Finding(
            "L2", what, "p50 ≤ 4 ms added", f"{p50:.2f} ms, direct {1000 * direct.percentile(0.5):.2f} ms", p50 <= 4
        ),
        Finding(
            "L2", what, "p99 ≤ 15 ms added", f"{p99:.2f} ms, direct {1000 * direct.percentile(0.99):.2f} ms", p99 <= 15
        ),
        Finding(
            "L2",
            load,
            "0 failed, all improved",
            f"{under.words()}; {improved:.0f} improved",
            not under.failed and improved >= under.statuses[200],
        ),
        Finding("L5", load, "loop's lag: p99 ≤ 20 ms", f"≤ {1000 * late:.0f} ms", late <= 0.020),
        Finding("L5", load, "loop's lag: at most 250 ms", f"≤ {1000 * latest:.0f} ms", latest <= 0.250),
    ]


async def in_turn(direct: int, through: int, raw: bytes, times: int) -> tuple[Histogram, Histogram]:
    """Seconds of the same search at one port and at the other, one after the other."""
    loop_time = asyncio.get_running_loop().time
    clients, taken = [await RawClient.connect(port) for port in (direct, through)], (Histogram(), Histogram())
    for _ in range(times):
        for client, histogram in zip(clients, taken, strict=True):
            begun = loop_time()
            await client.send(raw)
            answer = await client.reply()
            histogram.record(loop_time() - begun)
            assert answer.status == 200, answer.line
    for client in clients:
        await client.close()
    return taken
