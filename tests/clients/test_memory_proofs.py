"""The feature memory changes no byte: searches of the real engine, answered with it and without it, over REST and gRPC."""

from __future__ import annotations

import os

import numpy as np
import pytest

from support.backends.shadowed import Corpus, Shadowed, raw_points, shadowed, zipf
from vecsieve.adapters.wire.json import elements, members_of, whole
from vecsieve.adapters.wire.protobuf import fields
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.memory.points import FeatureMemory

TRANSPORTS = ("REST", "gRPC")
IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def question_body(question: list[float], number: int = 0) -> dict[str, object]:
    return {"query": question, "limit": (5, 8, 10)[number % 3], "with_payload": number % 2 == 0}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_popular_questions_are_answered_as_without_a_memory(transport: str) -> None:
    size, searches, different = (1000, 250, 100) if IS_DEEP else (400, 110, 45)
    corpus = Corpus(size)
    questions = corpus.questions(different)
    async with shadowed() as sides:
        await sides.load("c", corpus)
        for place, which in enumerate(zipf(searches, different)):
            warm, cold = await sides.both("c", question_body(questions[which], which), transport=transport)
            assert warm == cold, f"search {place}"
        counts = sides.recalls()
        assert counts["whole"] > searches // 5


POLICIES: dict[str, dict[str, object]] = {
    "default": {},
    "a distance": {"threshold": {"fixed": 0.1}},
    "of the pool": {"threshold": {"relative": 0.3}},
    "no texts": {"texts": "none"},
    "always, by centroid": {"threshold": {"relative": 0.2}, "when": "always", "representative": "centroid"},
    "newest first": {"chain": ("recency",)},
    "diverse": {"dpp": 0.5},
    "caps": {"caps": {"per_source": 1}, "short": "allow"},
    "tenants": {"tenant_keys": ("tenant",)},
    "cosine": {"distance": "cosine", "short": "fill"},
}
# (distance, dimension): rows of few dimensions are kept as they are, of more in 16 bits.
SPACES = [("Cosine", 300), ("Dot", 96), ("Euclid", 96), ("Manhattan", 65), ("Euclid", 12)]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
async def test_under_every_policy_and_metric_a_memory_changes_no_answer(policy: dict[str, object]) -> None:
    seed = list(POLICIES.values()).index(policy)
    async with shadowed(policy=policy) as sides:
        for place in range(2):
            distance, dimension = SPACES[(2 * seed + place) % len(SPACES)]
            corpus = Corpus(240, seed=10 * seed + place, dimension=dimension)
            await sides.load(distance, corpus, distance=distance)
            count = 12 if IS_DEEP else 4
            questions = corpus.questions(count, seed=seed)
            before = sides.recalls()
            for number in [*range(count), *range(count), *range(count)]:
                question = question_body(questions[number], number)
                transport = TRANSPORTS[number % 2]
                warm, cold = await sides.both(distance, question, transport=transport)
                assert warm == cold, (distance, number, transport)
            counts = sides.recalls()
            assert counts["whole"] - before["whole"] >= count, (before, counts)


def poison(memory: FeatureMemory, seed: int, *, is_proved: bool) -> None:
    """Give every point a random row. ``is_proved``: whether scores still are to prove rows."""
    draw = np.random.default_rng(seed)
    for shelf in memory._shelves.values():
        taken = [slot for slot, owner in enumerate(shelf.owners) if owner is not None]
        random = draw.integers(-32767, 32768, size=(len(taken), shelf.dimension))
        shelf.values[taken] = random.astype(shelf.values.dtype)
        shelf.serials[taken] += 1 << 40  # otherwise their pages would be known
    for table in [table for state in memory._collections.values() for table in state.tables.values()]:
        if not is_proved:
            table.scoring, table.is_plain = None, False


POOLS = (32, 40, 50, 128, 160, 200)  # candidates of 5, 8 and 10 results, and grown


def is_in_order(kept: list[bytes], offered: list[bytes]) -> bool:
    """Whether ``kept`` are some of ``offered``, in their order, each once."""
    rest = iter(offered)
    return all(name in rest for name in kept)


def slices(transport: str, answer: bytes) -> tuple[list[bytes], bytes]:
    """The points of an answer as they are written, and what stands around them."""
    if transport == "gRPC":
        slices_ = [answer[field.start : field.end] for field in fields(answer) if field.number == 1]
        around = b"".join(answer[field.start : field.end] for field in fields(answer) if field.number != 1)
        return slices_, around
    array = points_of(answer)
    return [answer[start:end] for start, end in elements(answer, array)], answer[: array[0]] + answer[array[1] :]


def points_of(answer: bytes) -> tuple[int, int]:
    result = members_of(answer, whole(answer))["result"]
    points = members_of(answer, (result.value, result.end))["points"]
    return points.value, points.end


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("is_proved", [True, False], ids=["scores prove", "scores prove nothing"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
async def test_a_poisoned_memory_only_chooses_among_the_database_s_own_points(
    transport: str, is_proved: bool, seed: int
) -> None:
    """Invariant: every kept point is a slice of the reply, in its order, with the bytes around them unchanged."""
    corpus = Corpus(200, seed=seed)
    questions = [question_body(question, number) for number, question in enumerate(corpus.questions(10, seed=seed))]
    async with shadowed() as sides:
        await sides.load("c", corpus)
        await sides.learn("c", questions, transport=transport)
        before = sides.recalls()
        poison(sides.memory, seed, is_proved=is_proved)
        for question in questions:
            answer = await sides.search(sides.warm.port, "c", question, transport=transport)
            kept, around = slices(transport, answer)
            assert len(kept) == question["limit"]
            replies = [
                slices(
                    transport,
                    await sides.search(sides.engine.port, "c", {**question, "limit": size}, transport=transport),
                )
                for size in POOLS  # equal scores have another order in each
            ]
            assert any(is_in_order(kept, offered) for offered, _ in replies)
            assert all(around == as_sent for _, as_sent in replies)
            if is_proved:
                assert answer == await sides.search(sides.cold.port, "c", question, transport=transport)
        assert sides.memory.score_failures == int(is_proved)
        counts = sides.recalls()
        assert counts["whole"] - before["whole"] == (0 if is_proved else len(questions))
        assert not sides.warm.failed_open()


@pytest.mark.parametrize("seed", range(2))
async def test_a_row_of_another_point_is_caught_by_its_score(seed: int) -> None:
    """One wrong row among all: the answers are those without a memory."""
    corpus = Corpus(200, seed=seed)
    questions = [question_body(question, number) for number, question in enumerate(corpus.questions(10, seed=seed))]
    async with shadowed() as sides:
        await sides.load("c", corpus)
        await sides.learn("c", questions)
        (shelf,) = sides.memory._shelves.values()
        best = raw_points(await sides.search(sides.engine.port, "c", questions[0]))[0]["id"]
        (slot,) = [slot for slot, name in enumerate(shelf.names) if name.startswith(b"%d@" % best)]
        shelf.values[slot] = np.roll(shelf.values[slot], 1)
        warm, cold = await sides.both("c", questions[0])
        assert warm == cold
        assert sides.memory.score_failures == 1


async def test_texts_that_changed_under_equal_vectors_and_versions_are_seen_at_once() -> None:
    """Made anew past the proxy: neither versions nor scores tell the old texts from the new ones. Texts always come with the reply."""
    old, new = Corpus(200), Corpus(200, texts=1)
    questions = [question_body(question) for question in old.questions(6)]
    async with shadowed() as sides:
        await sides.load("c", old)
        await sides.learn("c", questions)
        before = [await sides.both("c", question) for question in questions]
        await sides.submit(sides.engine.port, "DELETE", "/c")
        await sides.load("c", new)
        had = sides.recalls()["whole"]
        after = [await sides.both("c", question) for question in questions]
        assert after != before
        assert all(warm == cold for warm, cold in after)
        assert sides.recalls()["whole"] == had + len(questions), "its vectors are known"


@pytest.mark.parametrize("tenant_keys", [("tenant",), ("text",)])
async def test_tenants_that_a_reload_names_are_kept_apart_at_once(tenant_keys: tuple[str, ...]) -> None:
    """What was learnt before knows of no tenants."""
    corpus = Corpus(200)
    questions = [question_body(question) for question in corpus.questions(6)]
    policies: tuple[dict[str, object], ...] = ({}, {"texts": "none"})
    for policy in policies:
        async with shadowed(policy=policy) as sides:

            async def answer_alike(now: dict[str, object], sides: Shadowed = sides) -> None:
                made = {"mode": "on", "policy": now, "upstream": {"url": sides.engine.url}}
                for side in (sides.warm, sides.cold):
                    side.process.reload(Settings.model_validate(made))
                for question in questions:
                    warm, cold = await sides.both("c", question)
                    assert warm == cold

            await sides.load("c", corpus)
            await sides.learn("c", questions)
            await answer_alike({**policy, "tenant_keys": tenant_keys})
            await answer_alike(policy)


async def test_a_point_that_is_never_known_does_not_cost_two_reads_with_every_search() -> None:
    """A zero vector has no direction, so that no row of it is kept."""
    corpus = Corpus(40)
    async with shadowed() as sides:
        await sides.load("c", corpus, distance="Dot")
        points = [{"id": 0, "vector": [0.0] * corpus.dimension, "payload": {"text": "nothing"}}]
        await sides.put("c", points, port=sides.engine.port)
        questions = [question_body(question, 1) for question in corpus.questions(60)]
        for question in [*questions, *questions]:
            warm, cold = await sides.both("c", question)
            assert warm == cold
        assert sides.warm.count("own_reads_total", kind="recall") == 0


async def test_what_scores_prove_is_never_too_old() -> None:
    corpus = Corpus(200)
    async with shadowed(memory={"ttl_seconds": 100.0}) as sides:
        await sides.load("c", corpus)
        questions = [question_body(question) for question in corpus.questions(6)]
        await sides.learn("c", questions)
        sides.clock.advance(101.0)
        before = sides.recalls()
        for question in questions:
            warm, cold = await sides.both("c", question)
            assert warm == cold
        assert sides.recalls()["whole"] - before["whole"] == len(questions)
        assert sides.warm.count("own_reads_total", kind="recall") == 0
