"""M: the feature memory for a long time, under writes, deletions, recreations and alias switches: the answers of a process without one

Alone: `make memory-soak`, ten minutes, or `make memory-soak SECONDS=60`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import orjson
from bench.machine import machine

from prove.finding import Finding, Scale
from prove.stack import Proxy, proxy
from prove.usage import MIB, usage
from support.backends.searching import Run
from support.backends.shadowed import Corpus, Json, Matrix, zipf
from support.process.stack import TIME
from support.qdrant.embedded import start_embedded_process
from vecsieve.adapters.contract import Operation
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.fetch import needs_of, plan
from vecsieve.proxy.search.memory.points import FeatureMemory
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.tracing import Stopwatch

POINTS, QUESTIONS, TTL_SECONDS = 2000, 150, 20.0
BURST = 8  # judged searches, then one write among as many that are not judged
STEADY, CHANGING, SWITCHED = "steady", "changing", "switched"
# Of every so many writes one makes a collection anew or switches an alias: the memory keeps nothing of it for a minute.
SHAPING = 60
REWORDINGS = 0.36
# Small enough that points must leave.
MEMORY_BYTES = 2**20
SETTINGS = {
    "VECSIEVE_LIMITS_OWN_READS_SHARE": "1.0",
    "VECSIEVE_LIMITS_LAG_SECONDS": "60",  # a busy machine is no reason for a plain answer
    "VECSIEVE_MEMORY_TTL_SECONDS": str(TTL_SECONDS),
    "VECSIEVE_POLICY_REWORDINGS": str(
        REWORDINGS
    ),  # without them texts alone decide, and nobody asks memory for vectors
}
# Below this, caches are still being filled.
LONG_SECONDS = 300.0
UNSTABLE = "the database answers otherwise when it is asked again"
PACKED = "rows of 16 bits at the rule's edge: a search that only learns answers so, too"
TIED = "of equal scores the database puts another first when it is asked for fewer"


@dataclass
class Totals:
    """Searches that were judged; differences by their explanation; the first strays. ``stored``, ``cold``: MiB of the processes, at half way and
    at the end.
    """

    searches: int = 0
    raced: int = 0
    differences: Counter[str] = field(default_factory=Counter)
    strays: list[str] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)
    stored: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    recalls: dict[str, float] = field(default_factory=dict)


@dataclass
class Soak:
    """The engine, and a proxy with and one without a memory."""

    engine: int
    warm: Proxy
    cold: Proxy
    session: aiohttp.ClientSession
    totals: Totals = field(default_factory=Totals)
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    corpora: dict[str, Corpus] = field(default_factory=dict)
    vectors: Matrix = field(default_factory=Corpus(POINTS).vectors)
    target: str = CHANGING

    async def submit(self, port: int, method: str, path: str, body: Json | None = None) -> bytes:
        """One request, and its successful answer without the time."""
        url = f"http://127.0.0.1:{port}/collections{path}"
        async with self.session.request(method, url, json=body) as reply:
            content = await reply.read()
            if reply.status != 200:
                raise RuntimeError(f"{method} {path}: {reply.status} {content[:300]!r}")
            return TIME.sub(b'"time":0', content)

    async def load(self, port: int, name: str, corpus: Corpus) -> None:
        """A collection made anew."""
        await self.submit(port, "DELETE", f"/{name}")
        await self.submit(port, "PUT", f"/{name}", {"vectors": {"size": corpus.dimension, "distance": "Cosine"}})
        points = corpus.points()
        for start in range(0, len(points), 100):
            await self.submit(port, "PUT", f"/{name}/points?wait=true", {"points": points[start : start + 100]})
        self.corpora[name] = corpus

    async def point(self, port: int) -> None:
        """The alias, at its target."""
        actions = [{"create_alias": {"alias_name": SWITCHED, "collection_name": self.target}}]
        await self.submit(port, "POST", "/aliases", {"actions": actions})

    async def judge(self, name: str, question: Json) -> None:
        """The same search of both."""
        path = f"/{name}/points/query"
        warm = await self.submit(self.warm.port, "POST", path, question)
        cold = await self.submit(self.cold.port, "POST", path, question)
        self.totals.searches += 1
        if warm == cold:
            return
        again = await self.submit(self.cold.port, "POST", path, question)
        if again != cold:
            self.totals.differences[UNSTABLE] += 1
        elif warm == await self.learning(name, question):
            self.totals.differences[PACKED] += 1
        elif await self.are_tied(path, question, warm, cold):
            self.totals.differences[TIED] += 1
        else:
            self.totals.differences["unexplained"] += 1
            self.totals.strays.append(
                f"{name}: {str(question)[:120]}\nwith:    {warm[:600]!r}\nwithout: {cold[:600]!r}"
            )

    async def are_tied(self, path: str, question: Json, warm: bytes, cold: bytes) -> bool:
        """Whether both answers have the same scores at every place, and several points of the database have each score whose point differs."""
        pages = [orjson.loads(raw)["result"]["points"] for raw in (warm, cold)]
        if [page["score"] for page in pages[0]] != [page["score"] for page in pages[1]]:
            return False
        ranking = orjson.loads(await self.submit(self.engine, "POST", path, {**question, "limit": POINTS}))
        having = Counter(point["score"] for point in ranking["result"]["points"])
        rows = zip(*pages, strict=True)
        return all(one["id"] == other["id"] or having[one["score"]] > 1 for one, other in rows)

    async def learning(self, name: str, question: Json) -> bytes:
        """The answer of a memory that knows nothing yet, and compares the rows that it will recall."""

        async def fetch(body: bytes) -> bytes:
            return await self.submit(self.engine, "POST", f"/{name}/points/query", orjson.loads(body))

        operation = Operation(backend="qdrant", name="query", collection=name)
        policy = Policies(Settings.model_validate({"policy": {"rewordings": REWORDINGS}})).resolve("qdrant", name)
        clock = asyncio.get_running_loop().time
        memory = FeatureMemory(2**22, ttl_seconds=TTL_SECONDS, clock=clock)
        call = QdrantRest().parse_request(operation, orjson.dumps(question), needs_of(policy, None))
        planned = plan(call, policy, None)
        assert planned is not None
        attempt = Run(call=call, policy=policy, plan=planned, watch=Stopwatch(clock, clock()))
        return await attempt.improve(Searcher(QdrantRest(), memory=memory), fetch)

    async def write(self, number: int) -> None:
        """One write, through the proxy or past it."""
        draw = self.draw
        port = (self.warm.port, self.engine)[int(draw.integers(0, 2))]
        if number % SHAPING == SHAPING - 1:
            await self.shape(port, is_past=port == self.engine)
            return
        name = (STEADY, CHANGING)[int(draw.integers(0, 2))]
        point, other = (int(integer) for integer in draw.integers(1, POINTS, size=2))
        vector = (self.vectors[other] + draw.normal(scale=0.1, size=self.vectors.shape[1])).tolist()
        kind = ("upsert", "payload", "vectors", "delete")[int(draw.integers(0, 4))]
        self.totals.writes[kind] += 1
        points: Json = {"points": [{"id": point, "vector": vector, "payload": {"text": f"written {number}"}}]}
        bodies: dict[str, tuple[str, str, Json]] = {
            "upsert": ("PUT", "", points),
            "payload": ("POST", "/payload", {"payload": {"text": f"changed {number}"}, "points": [point // 2]}),
            "vectors": ("PUT", "/vectors", {"points": [{"id": point // 2, "vector": vector}]}),
            "delete": ("POST", "/delete", {"points": [-(-POINTS // 2) + point // 2]}),
        }
        method, path, body = bodies[kind]
        await self.submit(port, method, f"/{name}/points{path}?wait=true", body)

    async def shape(self, port: int, *, is_past: bool) -> None:
        """The changing collection made anew with other vectors or other texts, or the alias switched."""
        kind = ("other vectors", "other texts", "alias")[int(self.draw.integers(0, 3))]
        self.totals.writes[f"{kind}, {'past' if is_past else 'through'}"] += 1
        if kind == "alias":
            self.target = STEADY if self.target == CHANGING else CHANGING
        else:
            corpus, number = self.corpora[CHANGING], int(self.draw.integers(1, 1000))
            await self.load(
                port,
                CHANGING,
                replace(corpus, seed=number) if kind == "other vectors" else replace(corpus, texts=number),
            )
        await self.point(port)


async def soaked(seconds: float, heard: Callable[[str], None] = lambda _: None) -> Totals:
    """Searches and writes for so long."""
    async with opened() as soak:
        loop, totals = asyncio.get_running_loop(), soak.totals
        questions: list[Json] = [
            {"query": question, "limit": 8, "with_payload": number % 2 == 0}
            for number, question in enumerate(Corpus(POINTS).questions(QUESTIONS))
        ]
        (pid,) = [soak.warm.command.process.pid]
        begun, reported, number = loop.time(), 0.0, 0
        while (passed := loop.time() - begun) < seconds:
            if not totals.stored and passed > seconds / 2:
                totals.stored.append(usage([pid]).resident / MIB)
                totals.cold.append(usage([soak.cold.command.process.pid]).resident / MIB)
            if passed > reported + 30:
                reported = passed
                heard(f"{passed:.0f} s: {totals.searches} searches, {dict(totals.differences) or 'no differences'}")
            which = zipf(2 * BURST, QUESTIONS, seed=number)
            names = [(STEADY, STEADY, CHANGING, SWITCHED)[place % 4] for place in range(BURST)]
            await asyncio.gather(
                *(soak.judge(name, questions[result]) for name, result in zip(names, which[:BURST], strict=True))
            )
            raced = [
                soak.submit(soak.warm.port, "POST", f"/{STEADY}/points/query", questions[result])
                for result in which[BURST:]
            ]
            await asyncio.gather(soak.write(number), *raced)
            totals.raced += len(raced)
            number += 1
        totals.stored.append(usage([pid]).resident / MIB)
        totals.cold.append(usage([soak.cold.command.process.pid]).resident / MIB)
        for result in ("whole", "none"):
            totals.recalls[result] = await soak.warm.metric(f'memory_recalls_total{{[^}}]*result="{result}"[^}}]*}}')
        for result in ("evicted", "score_failures"):
            totals.recalls[result] = await soak.warm.metric(f"memory_{result}_total")
        failed = await soak.warm.failed_open()
        totals.differences.update({f"answered plainly: {reason}": count for reason, count in failed.items()})
    return totals


@asynccontextmanager
async def opened() -> AsyncIterator[Soak]:
    """All processes, and the collections."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(start_embedded_process())
        sides = [
            await stack.enter_async_context(
                proxy(
                    url,
                    module="support.process.unhurried",
                    environment={**SETTINGS, "VECSIEVE_MEMORY_BYTES": str(size)},
                )
            )
            for size in (MEMORY_BYTES, 0)
        ]
        session = await stack.enter_async_context(aiohttp.ClientSession())
        soak = Soak(urlsplit(url).port or 0, sides[0], sides[1], session)
        for name, seed in ((STEADY, 0), (CHANGING, 5)):
            await soak.load(soak.engine, name, Corpus(POINTS, seed=seed))
        await soak.point(soak.engine)
        yield soak


def judged(seconds: float, totals: Totals) -> list[Finding]:
    """What came of it."""
    what = f"soak {seconds:.0f} s, {totals.searches} searches judged, {totals.raced} beside {sum(totals.writes.values())} writes"
    summary = "; ".join(f"{count} {why}" for why, count in sorted(totals.differences.items())) or "none"
    recalls = ", ".join(f"{count:.0f} {name}" for name, count in totals.recalls.items())
    # Both keep what they read of texts, up to a bound of its own, and each write brings new ones.
    risen, without = (samples[-1] - samples[0] for samples in (totals.stored, totals.cold))
    return [
        Finding("M", what, "0 unexplained differences", summary, met=not set(totals.differences) - {UNSTABLE, PACKED, TIED}),
        Finding("M", what, "the memory is used, and too small", recalls, met=min(totals.recalls["whole"], totals.recalls["evicted"]) > 0),
        Finding("M", what, "RSS from half way to the end: at most 16 MiB more than without a memory", f"{risen:+.1f} MiB to {totals.stored[-1]:.1f}; without a memory {without:+.1f} to {totals.cold[-1]:.1f}", risen - without <= 16 if seconds >= LONG_SECONDS else None),
    ]  # fmt: skip


async def prove(scale: Scale) -> list[Finding]:
    """A tenth of the other soak, and a minute at least."""
    seconds = max(60.0, scale.soak_seconds / 10)
    return judged(seconds, await soaked(seconds))


def main() -> int:
    """The command line. Returns 1 when a criterion is unmet."""
    parser = argparse.ArgumentParser(prog="python -m prove.memory_soak", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=600.0)
    seconds = parser.parse_args().seconds
    print(machine())
    totals = asyncio.run(soaked(seconds, print))
    findings = judged(seconds, totals)
    for finding in findings:
        print(f"{'unmet' if finding.met is False else 'met'}: {finding.criterion}: {finding.measured} ({finding.what})")
    print(f"writes: {dict(sorted(totals.writes.items()))}")
    print("\n".join(totals.strays[:5]))
    return int(any(finding.met is False for finding in findings))


if __name__ == "__main__":
    raise SystemExit(main())
