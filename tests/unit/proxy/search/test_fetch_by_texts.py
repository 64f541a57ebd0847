"""Where texts decide: no vectors, no more candidates than pages reach, and the page of the planned pool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.backends.searching import Run
from vecsieve.adapters.contract import Operation
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.paths import Reading
from vecsieve.proxy.search.collections.texts import WINDOW, CollectionTexts
from vecsieve.proxy.search.errors import RejectedReplyError
from vecsieve.proxy.search.fetch import LEAST, Depths, needs_of, plan
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.tracing import Stopwatch

ADAPTER = QdrantRest()
OPERATION = Operation(backend="qdrant", name="query", collection="c")
POLICY = Policies(Settings()).resolve("qdrant", "c").with_texts(("text",))
TOP_K, PLANNED = 4, 24
BODY = orjson.dumps({"query": [0.25] * 8, "limit": TOP_K, "with_payload": True})
WORDS = "valve pump seal motor shaft gauge hose tank filter lamp cable fuse plug rotor blade bolt".split()  # noqa: SIM905 - a sentence is easier to read
EXAMPLES = min(settings().max_examples, 400)  # each is up to thirteen searches


def sentence(number: int) -> str:
    """Sentences of different words, in different orders."""
    first = number % len(WORDS)
    turned = WORDS[first:] + WORDS[:first]
    return f"Part {number} has a " + " and a ".join(turned[number % 3 :: 1 + number % 2]) + "."


CLEAN = [sentence(number) for number in range(60)]


class Upstream:
    """A ranking of texts; None is a point without one. ``asked``: limits and whether vectors were requested. ``key``: of the texts.
    ``ties``: equal texts have equal scores.
    """

    def __init__(self, texts: Sequence[str | None], reads: int = 9, *, key: str = "text", ties: bool = False) -> None:
        self.texts, self.reads, self.key, self.ties = texts, reads, key, ties
        self.asked: list[tuple[int, bool]] = []

    async def fetch(self, body: bytes) -> bytes:
        if len(self.asked) == self.reads:
            raise RejectedReplyError(FailOpen.BUDGET)
        content = json.loads(body)
        has_vectors = bool(content.get("with_vector"))
        self.asked.append((content["limit"], has_vectors))
        points: list[dict[str, object]] = [
            {
                "id": rank,
                "version": 1,
                "score": 1.0 - (self.texts.index(text) if self.ties else rank) / 1000,
                "payload": {"page": rank} if text is None else {self.key: text},
            }
            for rank, text in enumerate(self.texts[: content["limit"]])
        ]
        if has_vectors:
            for rank, point in enumerate(points):
                point["vector"] = [float(axis == rank % 64) for axis in range(64)]
        return orjson.dumps({"result": {"points": points}, "status": "ok", "time": 0.001})


def answered(
    upstream: Upstream,
    depths: Depths | None = None,
    texts: CollectionTexts | None = None,
    policy: ResolvedPolicy = POLICY,
) -> list[int]:
    """The ids of a page."""

    async def run() -> bytes:
        needs = needs_of(policy, None, vectors=False)
        call = ADAPTER.parse_request(OPERATION, BODY, needs)
        planned = plan(call, policy, None)
        assert planned == (PLANNED,)
        known = Depths() if depths is None else depths
        attempt = Run(
            call=call,
            collection="c",
            spare=lambda: ADAPTER.parse_request(OPERATION, BODY, needs_of(policy, None)),
            is_by_texts=True,
            policy=policy,
            plan=planned,
            watch=Stopwatch(lambda: 0.0, 0.0),
            first=known.first(call, planned, policy, cap=None, room=10**9, is_by_texts=True),
        )
        answer = await attempt.improve(Searcher(ADAPTER, texts=texts), upstream.fetch)
        known.learn(attempt.selected, cap=None)
        return answer

    return [point["id"] for point in json.loads(asyncio.run(run()))["result"]["points"]]


def test_pages_without_copies_are_the_clients_own_request_once_that_is_known() -> None:
    depths, found = Depths(), []
    for _ in range(LEAST + 1):
        upstream = Upstream(CLEAN)
        assert answered(upstream, depths) == [0, 1, 2, 3]
        found += upstream.asked
    assert found == [(PLANNED, False)] * LEAST + [(TOP_K, False)]


def test_a_page_that_needs_more_than_the_last_ones_did_has_a_second_read() -> None:
    depths = Depths()
    for _ in range(LEAST):
        answered(Upstream(CLEAN), depths)
    flooded = Upstream([CLEAN[0]] * 9 + CLEAN[1:])
    assert answered(flooded, depths) == [0, 9, 10, 11]
    assert flooded.asked == [(TOP_K, False), (PLANNED, False)]
    again = Upstream([CLEAN[0]] * 9 + CLEAN[1:])
    assert answered(again, depths) == [0, 9, 10, 11]
    assert [limit for limit, _ in again.asked] == [16], "the next one asks for as many at once"


def test_without_a_budget_for_the_second_read_the_page_is_that_of_the_first() -> None:
    depths = Depths()
    for _ in range(LEAST):
        answered(Upstream(CLEAN), depths)
    assert answered(Upstream([CLEAN[0]] * 9 + CLEAN[1:], reads=1), depths) == [0]


def test_the_first_result_without_a_text_brings_the_vectors_once_and_for_all() -> None:
    texts, upstream = CollectionTexts(), Upstream([*CLEAN[:3], None, *CLEAN[3:]])
    assert answered(upstream, texts=texts) == [0, 1, 2, 3]
    assert upstream.asked == [(PLANNED, False), (PLANNED, True)]
    explicit = Policies(Settings.model_validate({"policy": {"text_fields": ("text",)}})).resolve("qdrant", "c")
    assert not texts.plan(explicit.with_texts(()), "c").is_by_texts


def test_without_a_budget_for_the_vectors_results_without_a_text_stay() -> None:
    upstream = Upstream([CLEAN[0], None, None, *CLEAN[:9]], reads=1)
    assert answered(upstream) == [0, 1, 2, 4]


PARTS = st.lists(st.integers(0, 11), min_size=1, max_size=4)
HEADERS = st.sampled_from(["", "Acme manual, chapter 1\n", "Acme manual, chapter 2\n", "Bolt manual\n"])
TEXTS = st.builds(lambda header, parts: header + " ".join(map(sentence, parts)), HEADERS, PARTS)


@given(texts=st.lists(TEXTS, min_size=10, max_size=70), earlier=st.lists(st.integers(0, 30), max_size=12))
@settings(max_examples=EXAMPLES)
def test_a_smaller_first_pool_gives_the_page_of_the_planned_one(texts: list[str], earlier: list[int]) -> None:
    """Invariant: whatever earlier pages needed, the page is that of the planned pool, byte for byte."""
    planned = answered(Upstream(texts))
    depths = Depths()
    for copies in earlier:
        answered(Upstream([CLEAN[0]] * copies + CLEAN), depths)
    assert answered(Upstream(texts), depths) == planned


# A key that other points of the collection, perhaps another tenant's, have shown to be the text. Here it names a subject.
SUBJECTS = ["an article of the help centre that is about " + subject for subject in ("bills", "accounts", "devices")]


def taught(key: str) -> tuple[CollectionTexts, ResolvedPolicy]:
    texts = CollectionTexts()
    for _ in range(WINDOW):
        texts.learn("c", Reading((key,), frozenset(), (key,), 10), is_look=False)
    return texts, texts.applied(Policies(Settings()).resolve("qdrant", "c"), "c")


def test_what_other_points_taught_removes_nothing_that_the_vectors_do_not_confirm() -> None:
    texts, policy = taught("kind")
    subjects = [SUBJECTS[rank % 3] for rank in range(60)]
    with pytest.raises(RejectedReplyError):  # no budget for a look: the plain answer
        answered(Upstream(subjects, reads=1, key="kind"), texts=texts, policy=policy)
    upstream = Upstream(subjects, key="kind")
    assert answered(upstream, texts=texts, policy=policy) == [0, 1, 2, 3]
    assert upstream.asked == [(PLANNED, False), (PLANNED, True)]
    assert texts.applied(Policies(Settings()).resolve("qdrant", "c"), "c").learned is None


def test_copies_of_a_text_under_any_key_need_no_vectors() -> None:
    texts, policy = taught("kind")
    upstream = Upstream([CLEAN[rank // 2] for rank in range(60)], key="kind", ties=True)
    assert answered(upstream, texts=texts, policy=policy) == [0, 2, 4, 6]
    assert upstream.asked == [(PLANNED, False)]
