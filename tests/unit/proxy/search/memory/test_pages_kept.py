"""Kept pages: one is given again only where everything on which it depends is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from support.backends.text_rankings import DATABASES, QUERY, TOP_K
from support.backends.toy_exchange import ToyExchange, Toys, toys
from support.qdrant import model as qdrant_model
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.texts import WINDOW
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.service import SearchService

PARTS = "valve pump seal motor shaft gauge hose tank filter lamp cable fuse plug rotor blade bolt".split()  # noqa: SIM905 - a sentence is easier to read
DATABASE = DATABASES["qdrant"]


def sentence(number: int) -> str:
    turned = PARTS[number % 16 :] + PARTS[: number % 16]
    return f"Part {number} has a " + " and a ".join(turned[:: 1 + number % 2]) + "."


def policy_of(**policy: object) -> ResolvedPolicy:
    return Policies(Settings.model_validate({"policy": policy})).resolve("qdrant", "c")


Point = tuple[Mapping[str, object], Sequence[float]]


def spread(number: int) -> list[float]:
    """Vectors far apart."""
    return [1.0 + (number * place * 7) % 11 for place in range(1, 9)]


@dataclass(slots=True)
class Client:
    around: Toys = field(default_factory=toys)
    service: SearchService = field(init=False)

    def __post_init__(self) -> None:
        self.service = SearchService(DATABASE.adapter, DATABASE.dialect, self.around.services, number_bytes=4)

    async def ids(self, points: Sequence[Point], policy: ResolvedPolicy) -> list[int]:
        """The ids of the answer."""
        stored = tuple(
            qdrant_model.Stored(
                id=str(number),
                score=str(0.9375 - number / 128),
                payload=tuple((key, json.dumps(value)) for key, value in payload.items()),
                vectors=(("", json.dumps(vector)),),
            )
            for number, (payload, vector) in enumerate(points)
        )
        exchange = ToyExchange(
            policy=policy,
            plain=json.dumps({"query": QUERY, "limit": TOP_K, "with_payload": True}).encode(),
            operation=DATABASE.operation,
            answering=partial(qdrant_model.Server(points=stored).answer, "query"),
        )
        attempt = self.service.prepare(exchange, DATABASE.known)
        assert isinstance(attempt, Source), attempt
        answer, _ = await self.service.best_answer(exchange, attempt)
        return [point["id"] for point in json.loads(answer.body)["result"]["points"]]


async def test_a_page_by_another_text_below_the_same_key_is_another() -> None:
    """A reload may change where the text is; the values that were fetched are the same."""
    points = [
        ({"meta": {"title": sentence(number // 2), "body": sentence(100 + number)}}, spread(number))
        for number in range(24)
    ]
    titles, bodies = (
        policy_of(text_fields=("meta.title",), ignore=("meta.body",)),
        policy_of(text_fields=("meta.body",), ignore=("meta.body",)),
    )
    client = Client()
    for _ in range(WINDOW + 4):
        assert await client.ids(points, titles) == [0, 2, 4, 6]
    assert await client.ids(points, bodies) == [0, 1, 2, 3]


async def test_a_page_by_other_tenants_is_another() -> None:
    points = [({"text": sentence(number // 2), "source_id": number % 2}, spread(number // 2)) for number in range(24)]
    client = Client()
    for _ in range(WINDOW + 4):
        assert await client.ids(points, policy_of()) == [0, 2, 4, 6]
    assert await client.ids(points, policy_of(tenant_keys=("source_id",))) == [0, 1, 2, 3]
