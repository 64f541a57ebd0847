"""A database that is never the bottleneck: stored points, serialised once, and for every search a pool that is put together from them.

What a search finds is decided by its collection's name and its question; scores are the real products of question and vector.

    newDIM       50 of the question's 80 nearest points, other 50 for every request: points recur, pools do not
    sameDIM      the question's nearest 50, always
    coldDIM      as newDIM, but every point has an id, a version and a text that were never seen before
    halfDIM      as coldDIM, for every second point of a pool
    fewDIM       as coldDIM, for every tenth point of a pool

A collection PREFIX-newDIM is the same; where the prefix is "bare", payloads have no text.

limit, with_vector, with_payload (true or a list of members) and a has_id filter are honoured; a lookup by has_id finds the points of
earlier pools, new ids too. Beside searches: GET of a collection and of one point, scroll, and GET /moved: what was sent so far.

Usage: python -m bench.database PORT DIMENSIONS     (both transports: bench.grpc_database)
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import orjson

from bench.bodies import point_reply
from bench.loops import run
from bench.store import NEIGHBOURS, Store, store

POOL = 50
# Of so many points of a pool one is new.
FRESH = {"cold": 1, "half": 2, "few": 10}
FRESH_IDS = 1_000_000  # a fresh id is generation * FRESH_IDS + row + 1
HEAD = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
SHAPES = 997  # subsets of the 80 nearest, prime so that questions asked in turn do not meet the same subset
_NUMBERS = re.compile(rb'"(?:nearest|query|vector)":\s*\[')


class Hit(NamedTuple):
    """A stored point as it is found: its row, its generation (0: as it was stored), its score."""

    row: int
    generation: int
    score: np.float32

    @property
    def id(self) -> int:
        """What clients call it."""
        return self.generation * FRESH_IDS + self.row + 1

    @property
    def version(self) -> int:
        """Rises with the generation."""
        return self.row // 7 + self.generation


@dataclass
class Moved:
    """What went out: replies and their bytes, searches for pools, lookups by id."""

    replies: int = 0
    bytes: int = 0
    searches: int = 0
    lookups: int = 0


@dataclass
class Ranking:
    """Who is found. ``dimensions``: of the store; a collection's name is a kind and this number."""

    stored: Store
    moved: Moved = field(default_factory=Moved)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(7)
        subsets = [np.sort(generator.permutation(NEIGHBOURS)[:POOL]) for _ in range(SHAPES)]
        self._subsets: list[list[int]] = [subset.tolist() for subset in subsets]
        self._turn = itertools.count()
        self._known = {key(question[:3].tolist()): number for number, question in enumerate(self.stored.questions)}
        self._rows: list[list[int]] = self.stored.neighbours.tolist()
        self._generation = itertools.count(1)

    def pool(self, kind: str, beginning: Iterable[float], *, limit: int) -> list[Hit]:
        """The best ``limit`` of a question's pool. Raises KeyError for a question that is not the store's."""
        self.moved.searches += 1
        question = self._known[key(beginning)]
        rows, scores = self._rows[question], self.stored.scores[question]
        places = range(POOL) if kind == "same" else self._subsets[next(self._turn) % SHAPES]
        step = FRESH.get(kind, 1)
        generation = next(self._generation) if kind in FRESH else 0
        return [
            Hit(rows[place], generation if rank % step == 0 else 0, scores[place])
            for rank, place in enumerate(places[:limit])
        ]

    def lookup(self, ids: Iterable[int], beginning: Iterable[float], *, limit: int) -> list[Hit]:
        """Those points, best first."""
        self.moved.lookups += 1
        question = self._known[key(beginning)]
        near = dict(zip(self._rows[question], self.stored.scores[question], strict=True))
        places = [divmod(identifier - 1, FRESH_IDS) for identifier in ids]
        hits = [Hit(row, generation, near.get(row, self._score(row, question))) for generation, row in places]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def _score(self, row: int, question: int) -> np.float32:
        return np.float32(self.stored.vectors[row] @ self.stored.questions[question])

    def count(self, sent: bytes) -> bytes:
        """The same bytes, counted."""
        self.moved.replies += 1
        self.moved.bytes += len(sent)
        return sent


def kind_of(collection: str) -> str:
    """The kind in a collection's name."""
    return collection.rpartition("-")[2].rstrip("0123456789")


def key(beginning: Iterable[float]) -> tuple[float, ...]:
    """The first three numbers of a question, as float32: in whatever digits they came."""
    return tuple(np.array(list(beginning), dtype=np.float32).tolist())


class Rest:
    """The store's points as pieces of JSON."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking, stored = ranking, ranking.stored
        self._vectors = [
            b',"vector":' + orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"}" for row in stored.vectors
        ]
        self._payloads = [payload(row, text) for row, text in enumerate(stored.texts)]
        self._cut: dict[tuple[str, ...], list[bytes]] = {}

    def answer(self, method: bytes, path: bytes, body: bytes) -> bytes:
        """A whole reply, its head included."""
        parts = path.split(b"/")
        if path == b"/moved":
            content = b'{"moved":%s}' % orjson.dumps(self._ranking.moved)
            return HEAD % (200, len(content)) + content
        if parts[-2:] == [b"points", b"query"] and len(parts) == 5:
            result = b'{"points":[%s]}' % self._matches(parts[2].decode(), body)
        elif parts[-2:] == [b"points", b"scroll"]:
            result = self._page(orjson.loads(body))
        elif parts[-2:] == [b"points", b"1"] and method == b"GET":
            return self._ranking.count(HEAD % (200, len(POINT)) + POINT)
        elif len(parts) == 3 and parts[1] == b"collections":
            result = self._described()
        else:
            return HEAD % (404, 0)
        content = b'{"result":%s,"status":"ok","time":0.001234567}' % result
        return self._ranking.count(HEAD % (200, len(content)) + content)

    def _matches(self, collection: str, body: bytes) -> bytes:
        opened = _NUMBERS.search(body)
        if opened is None:
            raise ValueError(f"a search without a question: {body[:200]!r}")
        begins = opened.end()
        ends = body.index(b"]", begins)
        content = orjson.loads(body[:begins] + body[ends:])  # all but the numbers
        beginning = [float(number) for number in body[begins:ends].split(b",", 3)[:3]]
        ids, limit = _ids(content.get("filter")), content.get("limit", 10)
        if ids is None:
            hits = self._ranking.pool(kind_of(collection), beginning, limit=limit)
        else:
            hits = self._ranking.lookup(ids, beginning, limit=limit)
        with_payload = content.get("with_payload", True)
        if with_payload is True and collection.startswith("bare-"):
            with_payload = BARE
        return self._points(hits, with_payload, bool(content.get("with_vector")))

    def _points(self, hits: list[Hit], with_payload: object, has_vectors: bool) -> bytes:
        """``with_payload``: as the request says it."""
        if isinstance(with_payload, Mapping):
            with_payload = with_payload["include"]
        payloads = self._members(tuple(with_payload)) if isinstance(with_payload, list) else self._payloads
        points: list[bytes] = []
        for hit in hits:
            head = b'{"id":%d,"version":%d,"score":%s' % (hit.id, hit.version, _digits(hit.score))
            body = _renewed(payloads[hit.row], hit.generation) if with_payload else b""
            points.append(head + body + (self._vectors[hit.row] if has_vectors else b"}"))
        return b",".join(points)

    def _members(self, names: tuple[str, ...]) -> list[bytes]:
        """Payloads of these members alone, made once."""
        made = self._cut.get(names)
        if made is None:
            whole = (orjson.loads(item.partition(b":")[2]) for item in self._payloads)
            made = [b',"payload":' + orjson.dumps({name: one[name] for name in names if name in one}) for one in whole]
            self._cut[names] = made
        return made

    def _page(self, query: Mapping[str, Any]) -> bytes:
        """Points in the order of their ids; a scroll has no versions and no scores."""
        begins, size = (query.get("offset") or 1) - 1, query.get("limit", 10)
        rows = range(begins, min(begins + size, len(self._payloads)))
        points = [
            b'{"id":%d%s%s' % (row + 1, self._payloads[row], self._vectors[row] if query.get("with_vector") else b"}")
            for row in rows
        ]
        following = b"%d" % (rows.stop + 1) if rows.stop < len(self._payloads) else b"null"
        return b'{"points":[%s],"next_page_offset":%s}' % (b",".join(points), following)

    def _described(self) -> bytes:
        stored = self._ranking.stored
        parameters = {"vectors": {"size": stored.vectors.shape[1], "distance": "Cosine"}}
        config = {"params": parameters, "hnsw_config": {}, "optimizer_config": {}}
        return orjson.dumps({"status": "green", "points_count": len(stored.texts), "config": config})


POINT = point_reply()
BARE = ["source", "chunk", "published"]
_TEXT = b',"payload":{"text":"'


def payload(row: int, text: str) -> bytes:
    """The member ``payload`` of a point. Its text comes first."""
    members = {
        "text": text,
        "source": f"guide/chapter-{row % 9}/section-{row}.md",
        "title": f"Section {row}",
        "chunk": row,
        "published": "2026-03-01T12:00:00Z",
    }
    return b',"payload":' + orjson.dumps(members)


def _renewed(piece: bytes, generation: int) -> bytes:
    """A text that was never seen before: its generation is its first word."""
    return piece.replace(_TEXT, b"%s%x " % (_TEXT, generation), 1) if generation else piece


def _digits(score: np.float32) -> bytes:
    return orjson.dumps(score, option=orjson.OPT_SERIALIZE_NUMPY)


def _ids(condition: Any) -> list[int] | None:
    """The ids of a has_id condition, however deep it lies."""
    if isinstance(condition, Mapping):
        if "has_id" in condition:
            return list(condition["has_id"])
        condition = list(condition.values())
    for clause in condition if isinstance(condition, list) else ():
        if (ids := _ids(clause)) is not None:
            return ids
    return None


class Connection(asyncio.Protocol):
    """One connection of HTTP/1.1. Bodies are framed by Content-Length."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        assert self._transport is not None
        for method, path, body in requests(self._received):
            self._transport.write(self._rest.answer(method, path, body))


_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


def requests(received: bytearray) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Take every whole request from the front: its method, its path, its body."""
    while (end := received.find(b"\r\n\r\n")) >= 0:
        length = _LENGTH.search(received, 0, end)
        size = end + 4 + (int(length[1]) if length else 0)
        if len(received) < size:
            return
        method, target, _ = bytes(received[:end]).split(b" ", 2)
        body = bytes(received[end + 4 : size])
        del received[:size]
        yield method, target.partition(b"?")[0], body


async def serve(port: int, rest: Rest) -> None:
    """Serve until cancelled."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(rest), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), Rest(Ranking(store(int(sys.argv[2]))))))
