"""Q: a database that limits reads refuses nobody because of us: the embedded engine with strict mode's read_rate_limit

Mode shadow measures the first searches of a collection at once, which such a small limit has no room for: it is looked at behind them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from unittest import mock
from urllib.parse import urlsplit

from qdrant_client import grpc as pb
from servers.qdrant.server import QdrantServer

from prove.finding import Finding, Scale
from support.grpc.calls import ask
from support.network.faulty_upstream import raw_exchange
from support.process.running import Running, running
from support.qdrant.embedded import embedded_server
from support.qdrant.limited import DIRECTIONS
from support.qdrant.scripted import request
from vecsieve.proxy.search import exchange
from vecsieve.proxy.search.hedge import HEDGE_TIMES

LIMIT = 100  # reads a minute
SEARCHES = (80, 90)
COPIES = {"distinct": 1, "ten copies of each": 10}
NEAREST = [1.0 - axis / (2 * DIRECTIONS) for axis in range(DIRECTIONS)]  # direction by direction, copies together
OK, REFUSED = 200, 429
GRPC_QUERY = "/qdrant.Points/Query"

Ask = Callable[[str], Awaitable[bool]]
"""Searches a collection; whether the search was refused for want of quota. Any other failure raises."""


async def prove(scale: Scale) -> list[Finding]:
    """A row for each way of asking, kind of data and number of searches."""
    findings: list[Finding] = []
    async with embedded_server(with_grpc=True) as engine:
        grpc_at = urlsplit(engine.grpc_url or "").netloc
        for mode in ("direct", "off", "shadow", "on"):
            if mode == "direct":
                findings += await findings_of(engine, mode, by_rest(urlsplit(engine.url).port or 0), by_grpc(grpc_at))
                continue
            proxies = running(engine.url, hedge_times=HEDGE_TIMES, mode=mode, grpc={"upstream": grpc_at})
            with mock.patch.object(exchange, "FIRST", 0):
                async with proxies as proxy:
                    findings += await findings_of(
                        engine, mode, by_rest(proxy.port), by_grpc(f"127.0.0.1:{proxy.port}"), proxy
                    )
    return findings


async def findings_of(
    engine: QdrantServer, mode: str, rest: Ask, grpc: Ask, proxy: Running | None = None
) -> list[Finding]:
    """Every kind of data and number of searches, on a collection of its own each: a limit is a collection's."""
    findings = []
    for transport, search in {"REST": rest, "gRPC": grpc}.items():
        for data, copies in COPIES.items():
            for searches in SEARCHES:
                name = f"{mode}-{transport}-{copies}-{searches}"
                await made(engine, name, copies)
                before = proxy_reads(proxy)
                seen = Counter([await search(name) for _ in range(searches)])
                reads = proxy_reads(proxy) - before
                measured = f"{seen[True]} of {searches} refused, {reads:.0f} reads of ours"
                what = f"{searches} searches, {data}, {mode}, {transport}, {LIMIT} reads a minute"
                findings.append(Finding("H4", what, "0 refused", measured, met=not seen[True]))
    return findings


def proxy_reads(proxy: Running | None) -> float:
    """What was counted of all kinds."""
    if proxy is None:
        return 0.0
    return sum(proxy.count("own_reads_total", kind=kind) for kind in ("grow", "recall", "lookup", "replay", "shadow"))


async def made(engine: QdrantServer, name: str, copies: int) -> None:
    """A collection with a limit; its points come in runs of so many equal ones."""
    vectors = [
        [float(axis == rank // copies) + 0.01 for axis in range(DIRECTIONS)] for rank in range(DIRECTIONS * copies)
    ]
    await send(engine, b"PUT", name, {"vectors": {"size": DIRECTIONS, "distance": "Cosine"}})
    points = [{"id": rank, "vector": vector} for rank, vector in enumerate(vectors)]
    await send(engine, b"PUT", f"{name}/points?wait=true", {"points": points})
    await send(engine, b"PATCH", name, {"strict_mode_config": {"enabled": True, "read_rate_limit": LIMIT}})


async def send(engine: QdrantServer, method: bytes, path: str, body: object) -> None:
    """One request to the engine itself. Raises ValueError where it is refused."""
    data = json.dumps(body).encode()
    head = b"%s /collections/%s HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nConnection: close\r\n" % (
        method,
        path.encode(),
    )
    answer = await raw_exchange(urlsplit(engine.url).port or 0, head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ValueError(answer[:300])


def by_rest(port: int) -> Ask:
    """Over REST."""
    body = json.dumps({"query": NEAREST, "limit": 10}).encode()

    async def search(name: str) -> bool:
        answer = await raw_exchange(port, request(body, target=b"/collections/%s/points/query" % name.encode()))
        status = int(answer[9:12])
        if status not in {OK, REFUSED}:
            raise ValueError(answer[:300])
        return status == REFUSED

    return search


def by_grpc(address: str) -> Ask:
    """Over gRPC."""

    async def search(name: str) -> bool:
        query = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=NEAREST)))
        message = pb.QueryPoints(collection_name=name, limit=10, query=query).SerializeToString()
        seen = await ask(address, "unary_unary", (message,), method=GRPC_QUERY)
        if seen.code.name not in {"OK", "RESOURCE_EXHAUSTED"}:
            raise ValueError(f"{seen.code.name}: {seen.details}")
        return seen.code.name == "RESOURCE_EXHAUSTED"

    return search
