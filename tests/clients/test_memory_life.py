"""Whatever is written, deleted, made anew, aliased or forgotten, through the proxy or past it: the answers are those without a memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from support.backends.shadowed import Corpus, Json, Shadowed, shadowed
from vecsieve.proxy.search.memory.points import QUIET_SECONDS, WINDOW

POINTS, QUESTIONS, TTL_SECONDS = 120, 4, 600.0
THROUGH = st.booleans()
WHICH = st.integers(0, POINTS - 1)
NUMBERS = count()


class Life(RuleBasedStateMachine):
    """One alias and two collections with the same ids. ``sides`` and ``runner`` are given by the test.

    After every step the process with a memory must answer as the one without.
    """

    sides: Shadowed
    runner: asyncio.Runner

    @initialize(seed=st.integers(0, 3), distance=st.sampled_from(["Cosine", "Dot", "Euclid"]))
    def begin(self, seed: int, distance: str) -> None:
        number = next(NUMBERS)
        self.names, self.alias = (f"one{number}", f"two{number}"), f"alias{number}"
        self.corpora = [Corpus(POINTS, seed=seed), Corpus(POINTS, seed=seed + 10)]
        self.distance, self.target, self.transport = distance, 0, "REST"
        for name, corpus in zip(self.names, self.corpora, strict=True):
            self.run(self.sides.load(name, corpus, distance=distance))
        self.point(through=True)
        self.questions = [
            {"query": question, "limit": 5, "with_payload": True} for question in self.corpora[0].questions(QUESTIONS)
        ]
        self.quieten()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def port(self, *, through: bool) -> int:
        return self.sides.warm.port if through else self.sides.engine.port

    def point(self, *, through: bool) -> None:
        actions: list[Json] = [{"create_alias": {"alias_name": self.alias, "collection_name": self.names[self.target]}}]
        self.submit("POST", "/aliases", {"actions": actions}, through=through)

    def submit(self, method: str, path: str, body: object = None, *, through: bool) -> None:
        self.run(self.sides.submit(self.port(through=through), method, path, body))

    @rule(transport=st.sampled_from(["REST", "gRPC"]))
    def search_over(self, transport: str) -> None:
        self.transport = transport

    @rule()
    def quieten(self) -> None:
        """The quiet period passes, and the memory learns until it is used."""
        self.sides.clock.advance(QUIET_SECONDS)
        for _ in range(-(-WINDOW // QUESTIONS) + 1):
            self.answers_are_those_without_a_memory()

    @rule()
    def expire(self) -> None:
        self.sides.clock.advance(TTL_SECONDS + 1)

    @rule()
    def evict(self) -> None:
        """Another collection needs the room."""
        memory = self.sides.memory
        for shelf in memory._shelves.values():
            shelf.evict()

    @rule(which=WHICH, other=WHICH, through=THROUGH)
    def upsert(self, which: int, other: int, through: bool) -> None:
        point = {**self.corpora[1].points()[other], "id": which}
        self.submit("PUT", f"/{self.alias}/points?wait=true", {"points": [point]}, through=through)

    @rule(which=WHICH, text=st.sampled_from(["changed", "not changed", "changed 2.0"]), through=THROUGH)
    def set_payload(self, which: int, text: str, through: bool) -> None:
        body = {"payload": {"text": text}, "points": [which, (which + 1) % POINTS]}
        self.submit("POST", f"/{self.alias}/points/payload?wait=true", body, through=through)

    @rule(which=WHICH, other=WHICH, through=THROUGH)
    def update_vector(self, which: int, other: int, through: bool) -> None:
        body = {"points": [{"id": which, "vector": self.corpora[0].vectors()[other].tolist()}]}
        self.submit("PUT", f"/{self.alias}/points/vectors?wait=true", body, through=through)

    @rule(which=WHICH, through=THROUGH)
    def delete_points(self, which: int, through: bool) -> None:
        body = {"points": [*range(which, min(which + 5, POINTS))]}
        self.submit("POST", f"/{self.alias}/points/delete?wait=true", body, through=through)

    @rule(place=st.integers(0, 1), seed=st.integers(0, 3), through=THROUGH)
    def make_anew(self, place: int, seed: int, through: bool) -> None:
        """The same ids, and the same versions, with other vectors."""
        self.replaced(place, Corpus(POINTS, seed=100 + seed), through=through)

    @rule(place=st.integers(0, 1), texts=st.integers(0, 3), through=THROUGH)
    def make_anew_with_other_texts(self, place: int, texts: int, through: bool) -> None:
        """The same ids, versions and vectors."""
        self.replaced(place, replace(self.corpora[place], texts=texts), through=through)

    def replaced(self, place: int, corpus: Corpus, *, through: bool) -> None:
        name = self.names[place]
        self.submit("DELETE", f"/{name}", through=through)
        self.corpora[place] = corpus
        self.run(self.sides.load(name, self.corpora[place], distance=self.distance, port=self.port(through=through)))
        self.point(through=through)

    @rule(through=THROUGH)
    def switch_alias(self, through: bool) -> None:
        self.target = 1 - self.target
        self.point(through=through)

    @rule(which=WHICH, through=THROUGH)
    def write_while_searches_run(self, which: int, through: bool) -> None:
        """Nobody sees an error, and what is answered meanwhile is not judged."""
        vectors = self.corpora[1].vectors()
        points = [
            {"id": number, "vector": vectors[number].tolist(), "payload": {"text": f"raced {number}"}}
            for number in range(which, min(which + 20, POINTS))
        ]

        async def race() -> None:
            sides = self.sides
            searches = [
                sides.search(sides.warm.port, self.alias, question, transport=self.transport)
                for question in self.questions * 3
            ]
            port = self.port(through=through)
            await asyncio.gather(
                sides.submit(port, "PUT", f"/{self.alias}/points?wait=true", {"points": points}),
                sides.submit(port, "POST", f"/{self.alias}/points/delete?wait=true", {"points": [which]}),
                *searches,
            )

        self.run(race())

    @invariant()
    def answers_are_those_without_a_memory(self) -> None:
        if not hasattr(self, "questions"):
            return
        for question in self.questions:
            warm, cold = self.run(self.sides.both(self.alias, question, transport=self.transport))
            assert warm == cold


@pytest.fixture(scope="module")
def life() -> Iterator[type[Life]]:
    with asyncio.Runner() as runner:
        opened = shadowed(memory={"ttl_seconds": TTL_SECONDS})
        sides = runner.run(opened.__aenter__())
        try:
            yield type("Given", (Life,), {"sides": sides, "runner": runner})
            counts = sides.recalls()
            assert counts["whole"] > 100, counts
            assert not sides.warm.failed_open()
        finally:
            runner.run(opened.__aexit__(None, None, None))


def test_the_life_of_a_collection(life: type[Life]) -> None:
    """Invariant: after any steps, a search is answered byte for byte as without a memory."""
    examples = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 3
    run_state_machine_as_test(life, settings=settings(max_examples=examples, stateful_step_count=15))
