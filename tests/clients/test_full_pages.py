"""One chunk of boilerplate that is stored many times beside other texts: pages are full of different results from the second search on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from support.process.running import Running, running
from support.qdrant.embedded import embedded_server
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.fetch import RECENT
from vecsieve.proxy.telemetry.labels import ReadKind

BOILERPLATE = "This page is for information only and is no offer; see the terms of use."
OTHERS, DIMENSION, LIMIT = 44, 24, 10
TRANSPORTS = ("REST", "gRPC")
WORDS = [
    f"{first}{second}{third}" for first in "bdfgkl" for second in ("ano", "eri", "uta", "ilo") for third in "mnrst"
]


@dataclass(frozen=True, slots=True)
class World:
    proxy: Running
    client: AsyncQdrantClient
    direct: AsyncQdrantClient

    async def page(self, question: int, *, offset: int | None = None, limit: int = LIMIT) -> list[str]:
        response = await self.client.query_points("c", query=nearest(question), limit=limit, offset=offset)
        return [str((point.payload or {})["text"]) for point in response.points]

    @property
    def received(self) -> float:
        """Bytes of widened replies."""
        return self.proxy.count("overfetch_bytes_total", backend="qdrant")

    @property
    def extra_reads(self) -> float:
        return sum(self.proxy.count("own_reads_total", kind=kind) for kind in ("grow", "recall", "replay", "hedge"))


def nearest(question: int) -> list[float]:
    """Nearest to the boilerplate, whatever the question."""
    noise = np.random.default_rng(1_000 + question).normal(scale=0.05, size=DIMENSION)
    noise[0] += 3.0
    return [float(number) for number in noise]


@asynccontextmanager
async def world(copies: int, transport: str = "REST", **settings: object) -> AsyncIterator[World]:
    async with embedded_server(with_grpc=True) as engine:
        grpc_at = urlsplit(engine.grpc_url or "").netloc
        async with running(engine.url, grpc={"upstream": grpc_at}, **settings) as proxy:
            at = f"http://127.0.0.1:{proxy.port}"
            client = AsyncQdrantClient(
                url=at, grpc_port=proxy.port, prefer_grpc=transport == "gRPC", check_compatibility=False, timeout=60
            )
            direct = AsyncQdrantClient(url=engine.url, check_compatibility=False, timeout=60)
            await fill(direct, copies)
            try:
                yield World(proxy, client, direct)
            finally:
                await client.close()
                await direct.close()


async def fill(client: AsyncQdrantClient, copies: int) -> None:
    draw = np.random.default_rng(5)
    vectors = draw.normal(size=(OTHERS, DIMENSION))
    vectors[:, 0] = 0.5
    texts = [" ".join(draw.choice(WORDS, size=12, replace=False)) for _ in range(OTHERS)]
    rows = [(BOILERPLATE, [1.0] + [0.0] * (DIMENSION - 1))] * copies
    rows += list(zip(texts, vectors.tolist(), strict=True))
    await client.create_collection(
        "c", vectors_config=models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    )
    points = [
        models.PointStruct(id=number, vector=vector, payload={"text": text})
        for number, (text, vector) in enumerate(rows)
    ]
    await client.upsert("c", points, wait=True)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("copies", [45, 120, 200])
async def test_ten_questions_have_ten_full_pages(copies: int, transport: str) -> None:
    async with world(copies, transport) as around:
        pages = [await around.page(question) for question in range(10)]
        assert [len(set(page)) for page in pages[1:]] == [LIMIT] * 9
        assert [len(page) for page in pages[1:]] == [LIMIT] * 9
        assert around.extra_reads <= 1 + 1, "one pool grew; the others were asked for at once"


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("copies", [45, 120, 200])
async def test_ten_pages_by_offset_are_full_while_there_are_different_results(copies: int, transport: str) -> None:
    async with world(copies, transport) as around:
        pages = [await around.page(0, offset=offset) for offset in range(0, 100, LIMIT)]
        different = [
            len(set(page) - {text for before in pages[:place] for text in before}) for place, page in enumerate(pages)
        ]
        assert different == [10, 10, 10, 10, 5, 0, 0, 0, 0, 0]
        assert [len(page) for page in pages] == [
            min(LIMIT, max(0, copies + OTHERS - offset)) for offset in range(0, 100, LIMIT)
        ]
        again = [await around.page(1, offset=offset) for offset in range(0, 50, LIMIT)]
        assert [len(set(page)) for page in again] == [10, 10, 10, 10, 6]


async def test_batches_are_full_from_the_second_search_on() -> None:
    async with world(120) as around:
        await around.page(0)
        requests = [
            models.QueryRequest(query=nearest(page), limit=limit, with_payload=True)
            for page, limit in ((1, 10), (2, 4), (3, 20))
        ]
        pages = await around.client.query_batch_points("c", requests)
        assert [len({(point.payload or {})["text"] for point in page.points}) for page in pages] == [10, 4, 20]
        assert around.extra_reads == 1


async def test_fusions_are_full_from_the_second_search_on() -> None:
    async with world(60) as around:
        for question in range(4):
            lists = [models.Prefetch(query=nearest(question + place), limit=200) for place in range(2)]
            response = await around.client.query_points(
                "c", prefetch=lists, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=LIMIT
            )
            texts = [(point.payload or {})["text"] for point in response.points]
            assert question == 0 or len(set(texts)) == len(texts) == LIMIT
        assert around.extra_reads <= 1


async def test_the_depth_falls_again_when_pages_need_less() -> None:
    async with world(60) as around:
        await around.page(0)
        await around.page(1)
        before = around.received
        await around.page(2)
        deep = around.received - before
        await around.direct.delete(
            "c",
            models.FilterSelector(filter=models.Filter(must=[models.HasIdCondition(has_id=list(range(59)))])),
            wait=True,
        )
        for question in range(RECENT):
            await around.page(100 + question)
        before = around.received
        assert len(set(await around.page(200))) == LIMIT
        assert around.received - before < deep


@pytest.mark.parametrize("share", [0.0, 1.0])
async def test_without_reads_to_spare_the_second_page_is_full_too(share: float) -> None:
    """The reads of others have used up the budget: the first page stays short, and the second is not."""
    async with world(60, limits={"own_reads_share": share}) as around:
        operation = Operation(backend="qdrant", name="query", collection="c")
        around.proxy.process._services.governor.reads.spend(operation, ReadKind.GROW)
        first, second = await around.page(0), await around.page(1)
        assert len(set(first)) == (LIMIT if share else 1)
        assert len(set(second)) == LIMIT


async def test_shadow_measures_with_one_read_more_from_the_second_search_on() -> None:
    async with world(60, mode="shadow", shadow={"sample": 1.0}) as around:
        for question in range(6):
            assert set(await around.page(question)) == {BOILERPLATE}
            while around.proxy.process.in_flight or around.proxy.process.shadow.running:
                await asyncio.sleep(0.01)
        assert around.proxy.count("own_reads_total", kind="shadow") == 6
        assert around.proxy.count("own_reads_total", kind="grow") == 1
