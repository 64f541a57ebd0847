"""An application that sends a search for each sub-question and collection, all at once and with one key: what one answer has, the others do not repeat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from support.network.faulty_upstream import raw_exchange
from support.process.running import Running, running
from support.process.stack import exchange
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from support.qdrant.scripted import request

LIMIT, FAMILIES, COPIES = 4, 24, 3
COLLECTIONS = ("docs", "more")
QUESTIONS = [(collection, seed) for seed in (1, 2) for collection in COLLECTIONS]  # a question of two parts, in both


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Two collections with the same texts."""
    with start_embedded_process() as url:
        points = [
            {"id": base * 10 + copy, "vector": (vector + 0.003 * copy).tolist(), "payload": {"text": f"text {base}"}}
            for base, vector in enumerate(planted.bases()[:FAMILIES])
            for copy in range(COPIES)
        ]
        shape = {"vectors": {"size": planted.DIMENSION, "distance": "Cosine"}}
        for collection in COLLECTIONS:
            assert exchange(url, "PUT", f"/collections/{collection}", json.dumps(shape).encode()).status == 200
            body = json.dumps({"points": points}).encode()
            assert exchange(url, "PUT", f"/collections/{collection}/points?wait=true", body).status == 200
        yield url


@asynccontextmanager
async def proxy(engine: str, **session: object) -> AsyncIterator[Running]:
    """With the longest time, because the machine may be slow."""
    policy = {"fetch": {"floor": 80}, "session": {"question_seconds": 10.0, **session}}
    async with running(engine, policy=policy) as made:
        await texts(made, "docs", 1, key="warm")  # where its texts are
        await texts(made, "more", 1, key="warmer")
        yield made


async def texts(made: Running, collection: str, seed: int, *, key: str, headers: str = "") -> list[str]:
    body = {"query": planted.query_vector(seed), "limit": LIMIT, "with_payload": True}
    target = f"/collections/{collection}/points/query".encode()
    fields = f"api-key: {key}\r\n{headers}".encode()
    answer = await raw_exchange(made.port, request(json.dumps(body).encode(), headers=fields, target=target))
    points = json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["points"]
    return [point["payload"]["text"] for point in points]


async def at_once(made: Running, keys: Sequence[str]) -> list[list[str]]:
    searches = zip(QUESTIONS, keys, strict=True)
    return list(await asyncio.gather(*[texts(made, *query, key=key) for query, key in searches]))


async def test_searches_of_one_key_at_once_do_not_repeat_one_another(engine: str) -> None:
    async with proxy(engine, keeps=0.0) as made:
        apart = await at_once(made, ["a", "b", "c", "d"])
        together = await at_once(made, ["one"] * 4)
    assert apart[0] == apart[1], "of other keys nothing is known"
    assert apart[2] == apart[3]
    given = [text for page in together for text in page]
    assert len(given) == len(set(given)) == len(QUESTIONS) * LIMIT


async def test_the_best_results_stay_on_each_page_by_default(engine: str) -> None:
    async with proxy(engine) as made:
        apart = await at_once(made, ["a", "b", "c", "d"])
        together = await at_once(made, ["one"] * 4)
    assert len({text for page in together for text in page}) > len({text for page in apart for text in page})
    assert all(page[0] in other for page, other in zip(apart, together, strict=True))
    assert all(len(page) == LIMIT for page in together)


async def test_other_credentials_and_the_header_are_other_sessions_and_mode_shadow_has_none(engine: str) -> None:
    async with proxy(engine, keeps=0.0) as made:
        first = await texts(made, "docs", 3, key="k")
        for other in (
            {"key": "l"},
            {"key": "k", "headers": "x-forwarded-user: somebody\r\n"},
            {"key": "k", "headers": "x-vecsieve-session: named\r\n"},
        ):
            assert await texts(made, "docs", 3, **other) == first, other
        shadow = "x-vecsieve-mode: shadow\r\n"
        assert await texts(made, "docs", 3, key="k", headers=shadow) == await texts(
            made, "docs", 3, key="new", headers=shadow
        )
        assert set(first).isdisjoint(await texts(made, "docs", 3, key="k"))


async def test_without_the_setting_every_search_is_a_question_of_its_own(engine: str) -> None:
    async with running(engine, policy={"fetch": {"floor": 80}}) as made:
        assert len({tuple(await texts(made, "docs", 1, key="k")) for _ in range(3)}) == 1
