"""The write gate on the embedded engine: upserts of 1,000 points and of one, through each mode, against a direct client's. Once as the engine
comes, where each query compares all points, and once with its index, which each upsert of 1,000 points then extends.

One side more asks the engine for the neighbours itself before it upserts, with a query made beforehand, and ignores the answer: what the
engine alone takes. No gate that waits for its query can be faster on this engine.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import orjson
from qdrant_client import QdrantClient, models

from bench.contenders import Database, Proxy, vecsieve
from bench.load import MeasurementFailedError
from bench.passages import drawn
from bench.processes import listening
from bench.report import Section, judged
from bench.rounds import Effort, interleave
from bench.stats import percentile, ratios, spread
from support.network.ports import free_port
from support.process.forked import TESTS

DIMENSIONS, WORDS = 384, 40
POINTS, UPSERTS = 1_000, 5  # of a round, into a collection of its own
SINGLE = 50  # upserts of one point, into the same collection
COPIED = 0.3
COPY_NOISE = 0.05  # a copy is a cosine of .999 from its original
MODES = ("off", "observe", "annotate", "skip")
WAITED_FOR = ("annotate", "skip")  # writes that wait for their judgement; observe leaves some out under load
TARGETS = {"annotate": 0.5}
SEARCHED_FIRST = "direct, neighbours asked for first"
INDEXED_KB = 1  # segments from this size on are indexed

Upsert = list[models.PointStruct]
Taken = tuple[list[float], list[float]]
"""Seconds of the upserts of many points, and of those of one."""


def bench_writes(effort: Effort) -> Iterator[Section]:
    """Without an index, and with one."""
    yield _compared(effort, "writes", None)
    yield _compared(effort, "writes-indexed", models.OptimizersConfigDiff(indexing_threshold=INDEXED_KB))


def _compared(effort: Effort, name: str, optimizers: models.OptimizersConfigDiff | None) -> Section:
    """Points per second, and the median of an upsert. All sides store the same points; the gate's two come with copies of points that are
    stored and of points in the same upsert.
    """
    made = upserts()
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(engine())
        gates = {mode: stack.enter_context(gate(upstream, mode)) for mode in MODES}
        numbers = itertools.count()
        queries = [query(item) for item in made]
        ports = {"direct": upstream.port, **{mode: item.port for mode, item in gates.items()}}
        sides: dict[str, Callable[[], Taken]] = {
            side: partial(stored, port, upstream.port, made, numbers, optimizers) for side, port in ports.items()
        }
        sides[SEARCHED_FIRST] = partial(stored, upstream.port, upstream.port, made, numbers, optimizers, queries)
        rounds = interleave(sides, rounds=effort.rounds)
        for mode in WAITED_FOR:
            _all_judged(gates[mode], effort.rounds * len(made))
    rates = {side: [POINTS * UPSERTS / sum(many) for many, _ in taken] for side, taken in rounds.items()}
    rows: list[dict[str, object]] = []
    for side, taken in rounds.items():
        share = spread(ratios(rates[side], rates["direct"]))
        rows.append(
            {
                "": side,
                "points per s": spread(rates[side]),
                "of direct": share,
                f"{POINTS:,} points, ms": spread([percentile(many, 0.5) * 1e3 for many, _ in taken]),
                "one point, ms": spread([percentile(single, 0.5) * 1e3 for _, single in taken]),
                "wanted": judged(share.median, TARGETS.get(side)),
            }
        )
    return Section(name, f"upserts of {POINTS:,} × {DIMENSIONS}, {COPIED:.0%} copies, one qdrant-client", rows)


def upserts() -> list[Upsert]:
    """UPSERTS of POINTS points and SINGLE of one. A copy is near a point before it, with the same text but for the case of its letters."""
    draw = np.random.default_rng(7)
    count = POINTS * UPSERTS + SINGLE
    vectors = draw.standard_normal((count, DIMENSIONS))
    words = drawn(count * WORDS, seed=7)
    texts = [" ".join(words[number * WORDS : (number + 1) * WORDS]) for number in range(count)]
    for row in np.flatnonzero(draw.random(count) < COPIED)[1:].tolist():
        original = int(draw.integers(row))
        vectors[row] = vectors[original] + COPY_NOISE * draw.standard_normal(DIMENSIONS)
        texts[row] = texts[original].capitalize()
    points = [
        models.PointStruct(id=row + 1, vector=vector, payload={"text": text, "page": row})
        for row, (vector, text) in enumerate(zip(vectors.astype(np.float32).tolist(), texts, strict=True))
    ]
    many = POINTS * UPSERTS
    return [points[start : start + POINTS] for start in range(0, many, POINTS)] + [[point] for point in points[many:]]


def query(points: Upsert) -> bytes:
    """What the gate asks for these points."""
    shared = {"limit": 5, "with_payload": ["text"], "with_vector": False, "score_threshold": 0.75}
    return orjson.dumps({"searches": [{"query": point.vector, **shared} for point in points]})


def stored(
    port: int,
    database: int,
    made: list[Upsert],
    numbers: Iterator[int],
    optimizers: models.OptimizersConfigDiff | None = None,
    queries: Sequence[bytes] | None = None,
) -> Taken:
    """Store all in a new collection through this port; ``queries``: queries of the database, one before each upsert."""
    name = f"round{next(numbers)}"
    parameters = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
    with contextlib.closing(_client(database)) as direct, contextlib.closing(_client(port)) as client:
        direct.create_collection(name, vectors_config=parameters, optimizers_config=optimizers)
        client.count(name)  # opens the connection
        with contextlib.closing(HTTPConnection("127.0.0.1", database, timeout=60)) as raw:
            taken = [
                (_query_ms(raw, name, queries[at]) if queries is not None else 0.0) + _timed(client, name, vector)
                for at, vector in enumerate(made)
            ]
    return taken[:UPSERTS], taken[UPSERTS:]


def _query_ms(raw: HTTPConnection, name: str, body: bytes) -> float:
    begun = time.perf_counter()
    raw.request("POST", f"/collections/{name}/points/query/batch", body, {"Content-Type": "application/json"})
    reply = raw.getresponse()
    content = reply.read()
    if reply.status != HTTPStatus.OK:
        raise MeasurementFailedError(f"wanted an answer to a batch query, seen {reply.status}: {content[:200]!r}")
    return time.perf_counter() - begun


def _client(port: int) -> QdrantClient:
    return QdrantClient(url=f"http://127.0.0.1:{port}", check_compatibility=False, timeout=60)


def _timed(client: QdrantClient, name: str, points: Upsert) -> float:
    begun = time.perf_counter()
    client.upsert(name, points=points, wait=True)
    return time.perf_counter() - begun


def _all_judged(proxy: Proxy, expected: int) -> None:
    """Raises MeasurementFailedError where the gate let writes pass: the figure would be one of something else."""
    seen = {at: value for at, value in proxy.metrics().items() if at.startswith("vecsieve_writes_total{")}
    passed = sum(value for at, value in seen.items() if 'outcome="judged"' not in at)
    if passed or sum(seen.values()) < expected:
        raise MeasurementFailedError(f"not all of {expected} writes were judged: {seen}")


@contextlib.contextmanager
def engine() -> Iterator[Database]:
    """The tests' Qdrant server over the embedded engine. Raises DidNotStartError."""
    port = free_port()
    command = [sys.executable, str(TESTS / "servers/qdrant"), "--listen", f"127.0.0.1:{port}"]
    with listening(command, port) as pid:
        yield Database(port, pid)


@contextlib.contextmanager
def gate(upstream: Database, mode: str) -> Iterator[Proxy]:
    """The proxy with its gate in this mode. Raises DidNotStartError."""
    with tempfile.TemporaryDirectory() as name:
        settings = Path(name) / "vecsieve.yaml"
        write = f"{{mode: {mode}, deadline_seconds: 10}}"
        settings.write_text(f"policy: {{write: {write}}}\njournal: {{path: {name}/journal.db}}\n", encoding="ascii")
        with vecsieve(upstream, "--config", str(settings)) as proxy:
            yield proxy
