"""Collections that `memory.preload` names are known before the first search, and the answers are those without a memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from support.embedded import embedded_server
from support.running import Running, running
from support.shadowed import Corpus, Json, Shadowed, shadowed
from vecsieve.proxy.search.memory.points import WINDOW, FeatureMemory

POINTS = 130  # two pages and a part of one


@asynccontextmanager
async def preloaded(sides: Shadowed, *collections: str, **memory: object) -> AsyncIterator[Running]:
    """A proxy before the same engine that has read these collections."""
    own: Json = {"preload": {"collections": collections, "points_per_second": 100_000.0}, **memory}
    async with running(
        sides.engine.url, memory=own, limits={"own_reads_share": 1.0}, policy={"rewordings": 0.36}
    ) as proxy:
        preload = proxy.process._preload
        assert preload is not None
        assert preload._task is not None
        await preload._task
        yield proxy


def features(proxy: Running) -> FeatureMemory:
    found = proxy.process._services.features
    assert found is not None
    return found


async def named(sides: Shadowed, name: str, corpus: Corpus) -> None:
    """A collection of two dense vectors and one of many rows."""
    vectors: Json = {each: {"size": corpus.dimension, "distance": "Cosine"} for each in ("a", "b")}
    vectors["many"] = {"size": 4, "distance": "Cosine", "multivector_config": {"comparator": "max_sim"}}
    await sides.tell(sides.engine.port, "PUT", f"/{name}", {"vectors": vectors})
    points = [
        {**each, "vector": {"a": each["vector"], "b": each["vector"][::-1], "many": [[1.0, 2.0, 3.0, 4.0]]}}
        for each in corpus.points()
    ]
    await sides.put(name, points, port=sides.engine.port)


@pytest.mark.parametrize("payload", [True, False])
async def test_a_search_of_a_preloaded_collection_needs_no_vectors(payload: bool) -> None:
    corpus = Corpus(POINTS)
    questions = [{"query": each, "limit": 8, "with_payload": payload} for each in corpus.questions(2 * WINDOW)]
    async with shadowed() as sides:
        await sides.load("c d", corpus)
        async with preloaded(sides, "c d") as proxy:
            assert features(proxy).points == POINTS
            for question in questions:
                cold = await sides.search(sides.cold.port, "c%20d", question)
                assert await sides.search(proxy.port, "c%20d", question) == cold
            recalls = {
                each: proxy.count("memory_recalls_total", backend="qdrant", result=each) for each in ("whole", "none")
            }
            assert recalls == {"whole": len(questions) - 1, "none": 0.0}, "the first search shows where the texts are"


async def test_each_dense_vector_is_read_and_a_policy_s_own_alone_where_it_names_one() -> None:
    corpus = Corpus(60)
    async with shadowed() as sides:
        await named(sides, "c", corpus)
        async with preloaded(sides, "c") as proxy:
            assert features(proxy).points == 2 * 60
            for using, recalled in (("b", 0.0), ("a", 1.0)):  # the first search shows where the texts are
                question = {"query": corpus.questions(1)[0], "using": using, "limit": 8}
                cold = await sides.search(sides.cold.port, "c", question)
                assert await sides.search(proxy.port, "c", question) == cold
                assert proxy.count("memory_recalls_total", backend="qdrant", result="whole") == recalled


async def test_a_collection_that_cannot_be_read_leaves_the_others_to_be_read() -> None:
    async with shadowed() as sides:
        await sides.load("c", Corpus(60))
        async with preloaded(sides, "missing", "c") as proxy:
            assert features(proxy).points == 60


async def test_reading_ends_where_memory_is_nearly_full() -> None:
    async with shadowed() as sides:
        await sides.load("c", Corpus(POINTS))
        async with preloaded(sides, "c", bytes=64 * 1024) as proxy:
            memory = features(proxy)
            assert 0 < memory.points < POINTS
            assert memory.evicted < 50


async def test_what_was_written_since_comes_anew() -> None:
    corpus, other = Corpus(60), Corpus(60, seed=1)
    question = {"query": corpus.questions(1)[0], "limit": 8, "with_payload": True}
    async with shadowed() as sides:
        await sides.load("c", corpus)
        async with preloaded(sides, "c") as proxy:
            for each in (corpus.points()[:3], other.points()):
                await sides.put("c", each, port=sides.engine.port)
                for _ in range(3):
                    cold = await sides.search(sides.cold.port, "c", question)
                    assert await sides.search(proxy.port, "c", question) == cold


@pytest.mark.parametrize(("written", "known"), [("secret\n", 60), ("another", 0)])
async def test_points_are_read_with_the_key_in_the_file(tmp_path: Path, written: str, known: int) -> None:
    key = tmp_path / "key"
    key.write_text(written)
    corpus = Corpus(60)
    own = {"preload": {"collections": ("c",), "api_key_file": str(key)}}
    async with (
        embedded_server(api_key="secret") as engine,
        aiohttp.ClientSession(engine.url, headers={"api-key": "secret"}) as session,
    ):
        made = {"vectors": {"size": corpus.dimension, "distance": "Cosine"}}
        for path, body in (("", made), ("/points?wait=true", {"points": corpus.points()})):
            async with session.put(f"/collections/c{path}", json=body) as reply:
                assert reply.status == 200
        async with running(engine.url, memory=own) as proxy:
            preload = proxy.process._preload
            assert preload is not None
            assert preload._task is not None
            await preload._task
            assert features(proxy).points == known
            async with session.post(f"http://127.0.0.1:{proxy.port}/collections/c/points/scroll", json={}) as reply:
                assert reply.status == 200, "a client's own key is its own"


async def test_a_process_ends_while_it_reads() -> None:
    async with shadowed() as sides:
        await sides.load("c", Corpus(POINTS))
        own = {"preload": {"collections": ("c",), "points_per_second": 1.0}}
        async with running(sides.engine.url, memory=own) as proxy:
            while not features(proxy).points:
                await asyncio.sleep(0.01)
        preload = proxy.process._preload
        assert preload is not None
        assert preload._task is not None
        assert preload._task.cancelled()
