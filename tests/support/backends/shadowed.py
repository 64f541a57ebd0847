"""The embedded engine behind two proxies, one with a feature memory and one without: their answers, with the time blanked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import grpc
import numpy as np
import numpy.typing as npt
import orjson
from servers.qdrant.server import QdrantServer

from support.grpc.calls import UNLIMITED, ask_on
from support.process.clocks import ManualClock
from support.process.running import Running, running
from support.process.stack import TIME
from support.qdrant.embedded import embedded_server
from support.qdrant.grpc_searches import grpc_search, timeless
from vecsieve.proxy.search.memory.points import FeatureMemory

DIMENSION = 96
Json = dict[str, Any]
Matrix = npt.NDArray[np.float32]

# An array: a choice among a list makes one of it each time.
WORDS = np.array([f"{letter}{number}" for letter in "bcdfghklmn" for number in range(40)])


@dataclass(slots=True)
class Corpus:
    """Families of near copies with texts: ``count`` points, the vectors (count, d) of which are drawn from ``seed``, and the
    payloads from it and ``texts``. ``nearest``: the noise of the best copies; of exact ones the engine chooses the order anew
    each time where it ranks what a prefetch found.
    """

    count: int
    seed: int = 0
    copies: int = 4
    dimension: int = DIMENSION
    texts: int = 0
    nearest: float = 0.0

    def vectors(self) -> Matrix:
        draw = np.random.default_rng(self.seed)
        bases = draw.normal(size=(-(-self.count // self.copies), self.dimension))
        # Some copies are exact, some near, some at the edge of what is one.
        noise = draw.choice([self.nearest, 0.01, 0.1, 0.3, 0.5], size=self.count)[:, None]
        vectors = np.repeat(bases, self.copies, axis=0)[: self.count] + noise * draw.normal(
            size=(self.count, self.dimension)
        )
        return vectors.astype(np.float32)

    def payloads(self) -> list[Json]:
        """Texts of a family share most words; some have dates, versions and negations, which guards look at."""
        draw = np.random.default_rng((self.seed, self.texts))
        payloads: list[Json] = []
        families = [
            np.random.default_rng((self.seed, self.texts, number)).choice(WORDS, size=40).tolist()
            for number in range(-(-self.count // self.copies))
        ]
        for number in range(self.count):
            family = list(families[number // self.copies])
            for place in draw.integers(0, 40, size=int(draw.choice([0, 0, 1, 8, 30]))):
                family[place] = str(draw.choice(WORDS))
            payload: Json = {"text": " ".join(family), "n": number, "tenant": f"t{number % 2}"}
            if number % 5 == 0:
                payload["text"] += f" release {draw.integers(1, 4)}.{draw.integers(0, 3)}"
            if number % 7 == 0:
                payload["updated_at"] = f"2024-0{draw.integers(1, 9)}-01"
            if number % 3 == 0:
                payload["source"] = f"page {number // self.copies}"
            payloads.append(payload)
        return payloads

    def points(self) -> list[Json]:
        pairs = zip(self.vectors().tolist(), self.payloads(), strict=True)
        return [{"id": number, "vector": vector, "payload": payload} for number, (vector, payload) in enumerate(pairs)]

    def questions(self, count: int, *, seed: int = 7) -> list[list[float]]:
        """Each near one of the families."""
        draw, vectors = np.random.default_rng(seed), self.vectors()
        near = vectors[draw.integers(0, self.count, size=count)]
        return [*(near + 0.6 * draw.normal(size=near.shape)).astype(np.float32).tolist()]


def zipf(count: int, among: int, *, seed: int = 3) -> list[int]:
    """So many draws among questions, popular ones often."""
    weights = 1.0 / np.arange(1, among + 1)
    return [*np.random.default_rng(seed).choice(among, size=count, p=weights / weights.sum()).tolist()]


@dataclass(slots=True)
class Shadowed:
    """``warm`` remembers, ``cold`` does not. ``clock``: that of warm's memory."""

    engine: QdrantServer
    warm: Running
    cold: Running
    clock: ManualClock
    session: aiohttp.ClientSession
    channels: dict[int, grpc.aio.Channel]

    @property
    def memory(self) -> FeatureMemory:
        """Warm's."""
        features = self.warm.process._services.features
        assert features is not None
        return features

    async def submit(self, port: int, method: str, path: str, body: object = None) -> bytes:
        """One request over REST, and its successful answer."""
        return (await self.answer(port, method, path, body))[1]

    async def answer(
        self, port: int, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of a successful answer."""
        url = f"http://127.0.0.1:{port}/collections{path}"
        async with self.session.request(method, url, json=body, headers=headers) as reply:
            content = await reply.read()
            assert reply.status == 200, content
            return reply.headers, content

    async def search(
        self,
        port: int,
        collection: str,
        body: Json,
        *,
        transport: str = "REST",
        operation: str = "query",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The answer without its time. A body with ``searches`` is a batch."""
        name, _, is_batch = operation.partition("_")
        if transport == "REST":
            path = f"/{collection}/points/{name}" + ("/batch" if is_batch else "")
            return TIME.sub(b'"time":0', (await self.answer(port, "POST", path, body, headers=headers))[1])
        items = tuple(body["searches"]) if is_batch else (body,)
        call = grpc_search(name, collection, items, is_batch=bool(is_batch))
        address = urlsplit(self.engine.grpc_url or "").netloc if port == self.engine.port else f"127.0.0.1:{port}"
        if port not in self.channels:
            self.channels[port] = grpc.aio.insecure_channel(
                address, options=[*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]
            )
        metadata = tuple((headers or {}).items())
        seen = await ask_on(
            self.channels[port], "unary_unary", (call.message,), method=call.method, metadata=metadata, timeout=60
        )
        assert seen.code is grpc.StatusCode.OK, seen.details
        return timeless(seen.messages[0])

    async def both(self, collection: str, body: Json, **how: Any) -> tuple[bytes, bytes]:
        """Warm's answer and cold's to one search."""
        warm = await self.search(self.warm.port, collection, body, **how)
        return warm, await self.search(self.cold.port, collection, body, **how)

    async def load(self, collection: str, corpus: Corpus, *, distance: str = "Cosine", port: int | None = None) -> None:
        """A new collection with these points, made past both proxies unless through ``port``."""
        there = self.engine.port if port is None else port
        settings = {"vectors": {"size": corpus.dimension, "distance": distance}}
        await self.submit(there, "PUT", f"/{collection}", settings)
        await self.put(collection, corpus.points(), port=there)

    async def put(self, collection: str, points: Sequence[Json], *, port: int) -> None:
        """Upsert points, in bodies that aiohttp takes without a warning."""
        for start in range(0, len(points), 100):
            await self.submit(port, "PUT", f"/{collection}/points?wait=true", {"points": points[start : start + 100]})

    def recalls(self) -> dict[str, float]:
        """How much warm's memory had, by searches."""
        return {recall: self.warm.count("memory_recalls_total", backend="qdrant", result=recall) for recall in RECALLS}

    async def learn(self, collection: str, questions: Sequence[Json], *, transport: str = "REST") -> None:
        """Ask warm until its memory is used."""
        for _ in range(3):
            for question in questions:
                await self.search(self.warm.port, collection, question, transport=transport)


RECALLS = ("whole", "none")


def serialized(body: object) -> str:
    """Long lists of numbers take the standard library most of a test's time."""
    return orjson.dumps(body).decode()


@asynccontextmanager
async def shadowed(*, memory: Json | None = None, **settings: object) -> AsyncIterator[Shadowed]:
    """Both proxies with these settings. Their own reads are not limited: a recall must not cost a page its growth. Rewordings are allowed unless a
    policy says otherwise: without them texts alone decide, and nobody asks memory for vectors.
    """
    clock = ManualClock()
    limits = {"own_reads_share": 1.0}
    async with embedded_server(with_grpc=True) as engine, aiohttp.ClientSession(json_serialize=serialized) as session:
        policy = settings.get("policy", {})
        assert isinstance(policy, dict)
        settings["policy"] = {"rewordings": 0.36, **policy}
        members = {"grpc": {"upstream": urlsplit(engine.grpc_url or "").netloc}, "mode": "on", **settings}
        async with (
            running(engine.url, memory=memory or {}, limits=dict(limits), **members) as warm,
            running(engine.url, memory={"bytes": 0}, limits=dict(limits), **members) as cold,
        ):
            made = Shadowed(engine, warm, cold, clock, session, {})
            made.memory._clock = clock
            try:
                yield made
            finally:
                await asyncio.gather(*(channel.close() for channel in made.channels.values()))


def raw_points(body: bytes) -> list[Json]:
    """The points of an answer over REST, read by another parser."""
    points: list[Json] = json.loads(body)["result"]["points"]
    return points
