"""On the embedded Qdrant engine with 20,000 points: what a search takes plain, over-fetched by the client, and through the proxy."""

from __future__ import annotations

import contextlib
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import orjson

from bench.contenders import Database, unselected, vecsieve
from bench.database import payload
from bench.load import Outcome, Script, ask
from bench.processes import listening
from bench.report import Section, judged_most
from bench.rounds import Effort, interleave, turns
from bench.stats import differences, spread
from bench.store import QUESTIONS, Store, store
from bench.traffic import searches
from support.network.ports import free_port

DIMENSIONS, COLLECTION = 384, "new384"
BATCH = 500
WARM_SEARCHES = 1_000
MOST_ADDED_MS = 1.0
ROUND_SEARCHES = 100
SERVER = Path(__file__).resolve().parent.parent / "servers" / "qdrant"


def bench_engine(effort: Effort) -> Iterator[Section]:
    """p50 and p99 with one client, questions by Zipf's law: a proxy that has just started, and one that has seen 1,000 searches."""
    stored = store(DIMENSIONS)
    new = [searches(stored, "new", questions=QUESTIONS, order="zipf", widened=widened) for widened in (False, True)]
    plain, widened = (Script(requests=run.requests, order="zipf", connections=1) for run in new)
    rows: list[dict[str, object]] = []
    with engine(stored) as upstream:
        ask(plain, upstream.port, count=ROUND_SEARCHES)
        with vecsieve(upstream) as warm:
            ask(plain, warm.port, count=WARM_SEARCHES)
            before, begins = warm.improved(), turns()

            def cold() -> Outcome:
                with vecsieve(upstream) as started:
                    ask(
                        Script(requests=plain.requests[-1:]), started.port, count=1
                    )  # opens its connection, loads its libraries
                    return ask(plain, started.port, count=ROUND_SEARCHES, seed=next(begins))

            def direct(script: Script) -> Outcome:
                return ask(script, upstream.port, count=ROUND_SEARCHES, seed=next(begins))

            def warmed() -> Outcome:
                return ask(plain, warm.port, count=ROUND_SEARCHES, seed=next(begins), pid=warm.pid)

            sides: dict[str, Callable[[], Outcome]] = {
                "plain top 10": partial(direct, plain),
                "50 with vectors, no selection": partial(direct, widened),
                "through, first 100 searches": cold,
                "through, warm": warmed,
            }
            rounds = interleave(sides, rounds=2 * effort.rounds)
            unselected(before, warm.improved())
    base = [run.p50 for run in rounds["plain top 10"]]
    for name, outcomes in rounds.items():
        added = spread(differences([outcome.p50 for outcome in outcomes], base))
        rows.append(
            {
                "": name,
                "p50 ms": spread([outcome.p50 for outcome in outcomes]),
                "p99 ms": spread([outcome.p99 for outcome in outcomes]),
                "added p50 ms": added,
                "CPU ms": spread([outcome.cpu_ms for outcome in outcomes]) if name == "through, warm" else "",
                "wanted": judged_most(added.median, MOST_ADDED_MS) if name == "through, warm" else "",
            }
        )
    yield Section("engine", f"a search of 10 in {len(stored.texts):,} × {DIMENSIONS}, one connection, Zipf's law", rows)


@contextlib.contextmanager
def engine(stored: Store) -> Iterator[Database]:
    """The engine with the store's points. Raises DidNotStartError."""
    port = free_port()
    with listening([sys.executable, str(SERVER), "--listen", f"127.0.0.1:{port}"], port) as pid:
        _put(port, "", b'{"vectors":{"size":%d,"distance":"Cosine"}}' % DIMENSIONS)
        for begins in range(0, len(stored.texts), BATCH):
            _put(port, "/points?wait=true", b'{"points":[%s]}' % b",".join(_points(stored, begins)))
        yield Database(port, pid)


def _points(stored: Store, begins: int) -> Iterator[bytes]:
    for row in range(begins, min(begins + BATCH, len(stored.texts))):
        vector = orjson.dumps(stored.vectors[row], option=orjson.OPT_SERIALIZE_NUMPY)
        yield b'{"id":%d%s,"vector":%s}' % (row + 1, payload(row, stored.texts[row]), vector)


def _put(port: int, below: str, body: bytes) -> None:
    url = f"http://127.0.0.1:{port}/collections/{COLLECTION}{below}"
    put = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(put, timeout=120.0) as answer:
        answer.read()
