"""C: bodies that are cheap to send and costly to read, from clients and from the database, hold the loop for nobody else"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from threading import Event, Thread
from typing import Self
from urllib.parse import urlsplit

from prove.finding import Finding, Scale
from prove.stack import Proxy, proxy
from support.exchanges.hostile_bodies import VALUES
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, answering, reply

ROUNDS = 3
LATENCY_SECONDS = 0.050
PAGED_SECONDS = 0.020
JSON = (b"content-type", b"application/json")
DIMENSIONS = 128
LARGE_DIMENSIONS = 1500
REPLY_BYTES = 4 * 2**20


def _batch(count: int, search: Mapping[str, object]) -> bytes:
    one = json.dumps(search).encode()
    return b'{"searches":[' + b",".join([one] * count) + b"]}"


def _vector(dimensions: int) -> list[float]:
    return [round(random.Random(axis).gauss(0, 1), 6) for axis in range(dimensions)]


# Path's end and body; a body that begins with a gzip header is sent with its coding.
REQUESTS: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "180,000 searches in a batch": ("query/batch", lambda: b'{"searches":%s}' % VALUES["searches"]()),
    "the same as gzip": ("query/batch", lambda: gzip.compress(b'{"searches":%s}' % VALUES["searches"]())),
    "180,000 searches of one result": (
        "query/batch",
        lambda: b'{"searches":%s}' % VALUES["searches of one result"](),
    ),
    "400 searches of 10 results, 768 dimensions": (
        "query/batch",
        lambda: _batch(400, {"query": _vector(768), "limit": 10}),
    ),
    "100 searches of 10 results, 768 dimensions": (
        "query/batch",
        lambda: _batch(100, {"query": _vector(768), "limit": 10}),
    ),
    "with_payload of 420,000 names": ("query", lambda: b'{"query":[1],"with_payload":%s}' % VALUES["names"]()),
    "with_vector of 420,000 names": ("query", lambda: b'{"query":[1],"with_vector":%s}' % VALUES["names"]()),
    "prefetches nested 60 deep": ("query", VALUES["nested prefetches of filters"]),
    "a filter of 180,000 conditions": ("query", lambda: b'{"query":[1],"filter":%s}' % VALUES["conditions"]()),
    "4 MB of opened lists": ("query", lambda: b'{"query":%s}' % VALUES["opened lists"]()),
    "4 MB of blanks": ("query", lambda: b'{"query":%s}' % VALUES["blanks in a list"]()),
    "a number of 4 MB": ("query", lambda: b'{"query":%s}' % VALUES["digits in a list"]()),
    "a text of 4 MB of escapes": ("query", lambda: b'{"query":[1],"using":%s}' % VALUES["a text of escapes"]()),
    "a vector of 2 million numbers": ("query", lambda: b'{"query":%s}' % VALUES["a vector of small numbers"]()),
    "350,000 members": ("query", VALUES["members"]),
    "380,000 equal members": ("query", VALUES["equal members"]),
}

# By size, and a number that makes a payload another one: what was read of a text once is not read again.
PAYLOADS: Mapping[str, Callable[[int, int], bytes]] = {
    "of 300,000 members": lambda size, n: (
        b'{"n":%d,' % n + b",".join(b'"k%06d":1' % n for n in range(size // 12)) + b"}"
    ),
    "of a million empty objects": lambda size, n: b'{"n":%d,"a":[' % n + b",".join([b"{}"] * (size // 3)) + b"]}",
    "that look like vectors": lambda size, n: (
        b'{"n":%d,"a":[' % n + b",".join([b'{"vector":[1]}'] * (size // 15)) + b"]}"
    ),
    "of surrogates": lambda size, n: b'{"text":"%d ' % n + b"\\ud800" * (size // 6) + b'"}',
    "2,000 levels deep": lambda _, n: b'{"n":%d,"a":' % n + b"[" * 2000 + b"]" * 2000 + b"}",
    "of plain text": lambda size, n: b'{"text":"%d ' % n + b"word " * (size // 5) + b'"}',
}


class Watch:
    """Asks the admin listener over and over from a thread of its own. ``slowest``: seconds of the slowest answer."""

    def __init__(self, admin: str) -> None:
        self._admin = urlsplit(admin)
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self.slowest = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        connection = HTTPConnection(self._admin.hostname or "", self._admin.port)
        while not self._ended.is_set():
            begun = time.monotonic()
            connection.request("GET", "/livez")
            connection.getresponse().read()
            self.slowest = max(self.slowest, time.monotonic() - begun)
            time.sleep(0.001)
        connection.close()


async def prove(_scale: Scale) -> list[Finding]:
    """Each body with selection off and on: off, bytes are passed through and nothing is read."""
    return [*await requests(), *await replies(), *await pages(), *await large_pool(), await neighbours()]


@dataclass
class Stored:
    """A database that answers each search with the first of these points. ``widened``: the number of widened searches among them."""

    points: list[bytes] = field(default_factory=list)
    widened: int = 0

    def answer(self, received: Received) -> bytes:
        """As many as are asked for."""
        content = json.loads(received.content)
        self.widened += bool(content.get("with_vector"))
        return reply(ranking(self.points[: content["limit"]]), headers=[JSON])


async def requests() -> list[Finding]:
    """What clients send."""
    waits: dict[tuple[str, str], float] = {}
    refusal = reply(b'{"status":{"error":"no"},"time":0.001}', status=b"400 Bad Request", headers=[JSON])
    async with FaultyUpstream(answering(lambda _: refusal)) as upstream:
        for mode in ("off", "on"):
            async with proxy(upstream.url, mode=mode) as running:
                for place, (what, (path, made)) in enumerate(REQUESTS.items()):
                    raws = [query(path, made(), collection=ROUNDS * place + number) for number in range(ROUNDS)]
                    waits[mode, what] = min([await slowest(running, raw) for raw in raws])
    return [bounded(what, waits["off", what], waits["on", what], LATENCY_SECONDS) for what in REQUESTS]


async def compared(
    what: str,
    made: Callable[[int], list[bytes]],
    most: float,
    *,
    environment: Mapping[str, str] | None = None,
    **search: object,
) -> Finding:
    """Searches of points of the database, which ``made`` makes from the number of a round. Each round has a collection, a query and texts of
    its own: with those of the round before nothing would be read. Of the rounds the least counts, which chance has not made.
    """
    stored, waits = Stored(), dict[str, list[float]]()
    async with FaultyUpstream(answering(stored.answer)) as upstream:
        for mode in ("off", "on"):
            async with proxy(upstream.url, mode=mode, environment=environment) as running:
                stored.widened = 0
                for number in range(ROUNDS):
                    stored.points = made(number)
                    body = json.dumps({"query": [0.5, number + 1.0], **search}).encode()
                    waits.setdefault(mode, []).append(await slowest(running, query("query", body, collection=number)))
    finding = bounded(what, min(waits["off"]), min(waits["on"]), most)
    if stored.widened >= ROUNDS:
        return finding
    return replace(finding, measured=f"{finding.measured}; only {stored.widened} searches were widened", met=False)


async def replies() -> list[Finding]:
    """What the database has stored."""
    vectors = vectors_of(50, DIMENSIONS)

    def of(made: Callable[[int, int], bytes]) -> Callable[[int], list[bytes]]:
        return lambda number: points([made(REPLY_BYTES // 50, number)] * 50, vectors)

    return [
        await compared(f"50 payloads {what}, 4 MB", of(made), LATENCY_SECONDS, limit=10, with_payload=True)
        for what, made in PAYLOADS.items()
    ]


async def pages() -> list[Finding]:
    """The third page of a list full of copies: 1,000 candidates are read, each of ten passages a hundred times."""
    vectors = [vector for vector in vectors_of(10, DIMENSIONS) for _ in range(100)]

    def made(number: int) -> list[bytes]:
        word = b"passage %d of the book %d, word for word "
        return points([b'{"text":"%s"}' % (word % (rank // 100, number) * 6) for rank in range(1000)], vectors)

    what = f"page 3 of a list of copies, {DIMENSIONS} dimensions"
    return [await compared(what, made, PAGED_SECONDS, limit=10, offset=20)]


async def large_pool() -> list[Finding]:
    """One page out of a thousand candidates without copies, in a reply near the bound of 16 MiB: it is read, and all pairs are compared."""
    vectors = vectors_of(1000, LARGE_DIMENSIONS)

    def made(number: int) -> list[bytes]:
        return points([b'{"text":"passage %d of %d"}' % (rank, number) for rank in range(1000)], vectors)

    what = f"200 of 1,000 candidates, {LARGE_DIMENSIONS:,} dimensions, {len(ranking(made(0))) >> 20} MiB"
    wide = {"VECSIEVE_POLICY_FETCH_CAP": "1000"}
    return [await compared(what, made, LATENCY_SECONDS, environment=wide, limit=200)]


async def neighbours() -> Finding:
    """A small write whose neighbours are large."""
    near = points([b'{"text":"%d %s"}' % (rank, b'\\"' * 650_000) for rank in range(11)], vectors_of(11, 4))
    grown = b'{"result":[{"points":[' + b",".join(near) + b']}],"status":"ok","time":0.001}'
    described = {"result": {"config": {"params": {"vectors": {"size": 4, "distance": "Cosine"}}}}, "status": "ok"}
    stored = b'{"result":{"operation_id":1,"status":"completed"},"status":"ok","time":0.001}'

    def answer(received: Received) -> bytes:
        if received.line.startswith(b"GET "):
            return reply(json.dumps(described).encode(), headers=[JSON])
        return reply(grown if b"/query" in received.line else stored, headers=[JSON])

    waits, judged = dict[str, float](), 0.0
    async with FaultyUpstream(answering(answer)) as upstream:
        for mode in ("off", "annotate"):
            async with proxy(upstream.url, environment={"VECSIEVE_POLICY_WRITE_MODE": mode}) as running:
                waits[mode] = min([await slowest(running, written(number)) for number in range(ROUNDS)])
                judged = await running.metric(r'writes_total\{[^}]*outcome="judged"\}')
    what = f"a write whose neighbours have {len(grown) >> 20} MiB of texts"
    finding = bounded(what, waits["off"], waits["annotate"], LATENCY_SECONDS)
    return finding if judged == ROUNDS else replace(finding, measured=f"{judged:.0f} writes were judged", met=False)


def written(number: int) -> bytes:
    """A write of one point."""
    point = {"id": number, "vector": [1, 2, 3, number], "payload": {"text": f"a text {number}"}}
    body = json.dumps({"points": [point]}).encode()
    head = b"PUT /collections/c%d/points?wait=true HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\n" % number
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def bounded(what: str, off: float, on: float, most: float) -> Finding:
    """How much longer somebody else waited at most."""
    measured = f"{1000 * on:.0f} ms, off {1000 * off:.0f} ms"
    return Finding("C1", what, f"/livez ≤ {1000 * most:.0f} ms slower than off", measured, on - off <= most)


def query(path: str, body: bytes, *, collection: int = 0) -> bytes:
    """A raw request."""
    coding = b"Content-Encoding: gzip\r\n" if body[:2] == b"\x1f\x8b" else b""
    head = b"POST /collections/c%d/points/%s HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\n" % (
        collection,
        path.encode(),
    )
    return head + b"%sContent-Length: %d\r\n\r\n" % (coding, len(body)) + body


def vectors_of(count: int, dimensions: int) -> list[bytes]:
    """So many, as JSON."""
    chance = random.Random(0)
    return [b",".join([b"%.6f" % chance.gauss(0, 1) for _ in range(dimensions)]) for _ in range(count)]


def points(payloads: list[bytes], vectors: list[bytes]) -> list[bytes]:
    """A point for each payload, as JSON."""
    point = b'{"id":%d,"version":1,"score":%.4f,"payload":%s,"vector":[%s]}'
    pairs = enumerate(zip(payloads, vectors, strict=True))
    return [point % (rank, 1 - rank / 2000, payload, vector) for rank, (payload, vector) in pairs]


def ranking(ranked: list[bytes]) -> bytes:
    """A reply of these points."""
    return b'{"result":{"points":[' + b",".join(ranked) + b']},"status":"ok","time":0.001}'


async def slowest(running: Proxy, raw: bytes) -> float:
    """The slowest answer of the admin listener while the request is answered."""
    client = await RawClient.connect(running.port)
    with Watch(running.admin) as watch:
        await client.send(raw)
        answer = await client.reply()
        await asyncio.to_thread(time.sleep, 0.05)
    assert answer.status in {200, 400}, answer.line
    await client.close()
    return watch.slowest
