"""C: bodies that are cheap to send and costly to read, from clients and from the database, hold the loop for nobody else"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from threading import Event, Thread
from typing import Self
from urllib.parse import urlsplit

from prove.finding import Finding, Scale
from prove.stack import Proxy, proxy
from support.faultup import FaultyUpstream, RawClient, Received, answering, reply
from support.hostile_bodies import VALUES

ROUNDS = 3
HELD_SECONDS = 0.050
PAGED_SECONDS = 0.020
JSON = (b"content-type", b"application/json")
DIMENSIONS = 128
LARGE_DIMENSIONS = 1500
REPLY_BYTES = 4 * 2**20
SMALL = b'{"query":[0.5,0.25],"limit":10,"with_payload":true}'


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

PAYLOADS: Mapping[str, Callable[[int], bytes]] = {
    "of 300,000 members": lambda size: b"{" + b",".join(b'"k%06d":1' % n for n in range(size // 12)) + b"}",
    "of a million empty objects": lambda size: b'{"a":[' + b",".join([b"{}"] * (size // 3)) + b"]}",
    "that look like vectors": lambda size: b'{"a":[' + b",".join([b'{"vector":[1]}'] * (size // 15)) + b"]}",
    "of surrogates": lambda size: b'{"a":"' + b"\\ud800" * (size // 6) + b'"}',
    "2,000 levels deep": lambda _: b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}",
    "of plain text": lambda size: b'{"text":"' + b"word " * (size // 5) + b'"}',
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
    return [*await requests(), *await replies(), *await pages(), *await large_pool()]


async def requests() -> list[Finding]:
    """What clients send."""
    waits: dict[tuple[str, str], float] = {}
    async with FaultyUpstream(answering(lambda _: reply(b"{}", headers=[JSON]))) as upstream:
        for mode in ("off", "on"):
            async with proxy(upstream.url, mode=mode) as running:
                for what, (path, made) in REQUESTS.items():
                    waits[mode, what] = await slowest(running, asked(path, made()))
    return [held(what, waits["off", what], waits["on", what], HELD_SECONDS) for what in REQUESTS]


async def replies() -> list[Finding]:
    """What the database has stored."""
    stored = {"": b""}
    found: list[Finding] = []

    def answer(received: Received) -> bytes:
        count = json.loads(received.content)["limit"]
        return reply(ranking([stored[""]] * count), headers=[JSON])

    async with (
        FaultyUpstream(answering(answer)) as upstream,
        proxy(upstream.url, mode="off") as off,
        proxy(upstream.url) as on,
    ):
        for what, made in PAYLOADS.items():
            stored[""] = made(REPLY_BYTES // 50)
            left, right = [await slowest(each, asked("query", SMALL)) for each in (off, on)]
            found.append(held(f"50 payloads {what}, 4 MB", left, right, HELD_SECONDS))
    return found


async def pages() -> list[Finding]:
    """The third page of a list full of copies: 1,000 candidates are read, each of ten passages a hundred times."""
    texts = [b'{"text":"%s"}' % (b"passage %d of the book, word for word " % (rank // 100) * 6) for rank in range(1000)]

    def answer(received: Received) -> bytes:
        said = json.loads(received.content)
        return reply(ranking(texts[: said["limit"]], copies=100), headers=[JSON])

    body = b'{"query":[0.5,0.25],"limit":10,"offset":20}'
    async with (
        FaultyUpstream(answering(answer)) as upstream,
        proxy(upstream.url, mode="off") as off,
        proxy(upstream.url) as on,
    ):
        left, right = [await slowest(each, asked("query", body)) for each in (off, on)]
    return [held(f"page 3 of a list of copies, {DIMENSIONS} dimensions", left, right, PAGED_SECONDS)]


async def large_pool() -> list[Finding]:
    """One page out of a thousand candidates without copies, in a reply near the bound of 16 MiB: it is read, and all pairs are compared."""
    made = ranking([b'{"text":"passage %d"}' % rank for rank in range(1000)], dimensions=LARGE_DIMENSIONS)
    body, wide = b'{"query":[0.5,0.25],"limit":200}', {"VECSIEVE_POLICY_FETCH_CAP": "1000"}
    async with (
        FaultyUpstream(answering(lambda _: reply(made, headers=[JSON]))) as upstream,
        proxy(upstream.url, mode="off") as off,
        proxy(upstream.url, environment=wide) as on,
    ):
        left, right = [await slowest(each, asked("query", body)) for each in (off, on)]
    what = f"200 of 1,000 candidates, {LARGE_DIMENSIONS:,} dimensions, {len(made) >> 20} MiB"
    return [held(what, left, right, HELD_SECONDS)]


def held(what: str, off: float, on: float, most: float) -> Finding:
    """How much longer somebody else waited at most."""
    measured = f"{1000 * on:.0f} ms, off {1000 * off:.0f} ms"
    return Finding("C1", what, f"/livez ≤ {1000 * most:.0f} ms slower than off", measured, on - off <= most)


def asked(path: str, body: bytes) -> bytes:
    """A raw request."""
    coding = b"Content-Encoding: gzip\r\n" if body[:2] == b"\x1f\x8b" else b""
    return (
        b"POST /collections/c/points/%s HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
        % (path.encode(), coding, len(body))
        + body
    )


def ranking(payloads: list[bytes], *, copies: int = 1, dimensions: int = DIMENSIONS) -> bytes:
    """A reply with a point for each payload; so many in a row have one vector."""
    points = []
    for rank, payload in enumerate(payloads):
        chance = random.Random(rank // copies)
        vector = b",".join(b"%.6f" % chance.gauss(0, 1) for _ in range(dimensions))
        point = b'{"id":%d,"version":1,"score":%.4f,"payload":%s,"vector":[%s]}'
        points.append(point % (rank, 1 - rank / 2000, payload, vector))
    return b'{"result":{"points":[' + b",".join(points) + b']},"status":"ok","time":0.001}'


async def slowest(running: Proxy, raw: bytes) -> float:
    """The slowest answer of the admin listener while the request is answered; of some rounds the least, which chance has not made."""
    waits = []
    for _ in range(ROUNDS):
        client = await RawClient.connect(running.port)
        with Watch(running.admin) as watch:
            await client.send(raw)
            answer = await client.reply()
            await asyncio.to_thread(time.sleep, 0.05)
        assert answer.status == 200, answer.line
        waits.append(watch.slowest)
        await client.close()
    return min(waits)
