"""Pool sizes: enough, in steps, never more than allowed, never less than the client asked for."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
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
from vecsieve.proxy.search.fetch import (
    LEAST,
    Depths,
    bucket,
    fetch_k,
    grown_fetch_k,
    grown_page_fetch_k,
    needs_of,
    page_fetch_k,
    plan,
)
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.selection.paged import BLOCK
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.tracing import Stopwatch


def policy(*, exact: int | None = None, **fetch: object) -> ResolvedPolicy:
    made = Policies(Settings.model_validate({"policy": {"fetch": fetch}})).resolve("qdrant", "c")
    return dataclasses.replace(made, exact_fetch=exact)


@pytest.mark.parametrize(
    ("top_k", "size"),
    [(1, 24), (4, 24), (5, 32), (8, 40), (10, 50), (11, 64), (20, 100), (21, 128), (40, 200), (41, 256), (200, 256)],
)
def test_a_default_pool_is_five_times_top_k_in_steps_from_24_to_256(top_k: int, size: int) -> None:
    assert fetch_k(top_k, policy=policy(), cap=None) == size


def test_a_pool_in_which_chunks_are_exchanged_is_a_block() -> None:
    made = Policies(Settings.model_validate({"policy": {"overlap": "exchange"}})).resolve("qdrant", "c")
    assert [fetch_k(top_k, policy=made, cap=None) for top_k in (1, 5, 10, 11)] == [BLOCK, BLOCK, BLOCK, 64]
    assert not made.is_by_rank  # a chunk from behind the page may stand on it, so a smaller pool is another page


def test_a_pool_is_never_smaller_than_what_the_client_asked_for() -> None:
    assert fetch_k(500, policy=policy(), cap=None) == 500
    assert fetch_k(50, policy=policy(), cap=30) == 50


def test_the_classical_recipe_fetches_fifty() -> None:
    assert [fetch_k(top_k, policy=policy(factor=1.0, floor=50), cap=None) for top_k in (1, 10, 50)] == [50, 50, 50]


def test_a_fraction_of_a_candidate_is_a_candidate() -> None:
    assert fetch_k(21, policy=policy(factor=1.55, floor=1), cap=None) == 40  # 32.55 does not fit into 32


def test_the_backends_own_limit_bounds_the_pool() -> None:
    assert fetch_k(10, policy=policy(), cap=45) == 45
    assert grown_fetch_k(24, policy=policy(), cap=45) == 45
    assert page_fetch_k(10, 30, policy=policy(), cap=70) == 50
    assert page_fetch_k(10, 50, policy=policy(), cap=70) is None
    assert grown_page_fetch_k(50, policy=policy(), cap=120) == 100


def test_a_number_the_client_named_is_used_as_it_is_and_does_not_grow() -> None:
    assert fetch_k(10, policy=policy(exact=33), cap=None) == 33
    assert fetch_k(10, policy=policy(exact=33), cap=20) == 20
    assert fetch_k(10, policy=policy(exact=5), cap=None) == 10
    assert grown_fetch_k(33, policy=policy(exact=33), cap=None) == 33


def test_where_it_is_known_how_many_will_do_a_pool_grows_to_that_step() -> None:
    assert [grown_fetch_k(50, policy=policy(), cap=None, needed=needed) for needed in (40, 71, 190, 999)] == [
        50,
        80,
        200,
        256,
    ]
    assert grown_fetch_k(50, policy=policy(), cap=70, needed=71) == 70
    assert grown_fetch_k(33, policy=policy(exact=33), cap=None, needed=71) == 33
    assert [grown_page_fetch_k(50, policy=policy(), cap=None, needed=needed) for needed in (40, 71, 9999)] == [
        50,
        100,
        1000,
    ]


@pytest.mark.parametrize(("size", "grown"), [(24, 100), (32, 128), (50, 200), (100, 256), (256, 256), (500, 500)])
def test_a_pool_grows_fourfold_up_to_the_cap(size: int, grown: int) -> None:
    assert grown_fetch_k(size, policy=policy(), cap=None) == grown


@pytest.mark.parametrize(
    ("top_k", "offset", "size"),
    [
        (10, 0, 50),
        (25, 0, 50),
        (26, 0, 100),
        (10, 90, 200),
        (10, 490, 1000),
        (10, 491, 1000),
        (10, 990, 1000),
        (10, 991, None),
        (2000, 0, None),
    ],
)
def test_a_paged_pool_is_twice_the_page_in_whole_blocks(top_k: int, offset: int, size: int | None) -> None:
    assert page_fetch_k(top_k, offset, policy=policy(), cap=None) == size


def test_a_page_cap_that_is_no_whole_block_is_rounded_down() -> None:
    assert page_fetch_k(10, 100, policy=policy(page_cap=240), cap=None) == 200
    assert page_fetch_k(10, 195, policy=policy(page_cap=240), cap=None) is None
    assert grown_page_fetch_k(100, policy=policy(page_cap=240), cap=None) == 200


def test_a_number_the_client_named_is_a_least_size_for_pages() -> None:
    assert page_fetch_k(10, 0, policy=policy(exact=120), cap=None) == 150
    assert page_fetch_k(10, 190, policy=policy(exact=120), cap=None) == 400
    assert grown_page_fetch_k(150, policy=policy(exact=120), cap=None) == 600


def test_a_paged_pool_grows_fourfold_to_the_page_cap_and_stops() -> None:
    sizes = [50]
    while (grown := grown_page_fetch_k(sizes[-1], policy=policy(), cap=None)) != sizes[-1]:
        sizes.append(grown)
    assert sizes == [50, 200, 800, 1000]


def test_the_steps_are_those_of_the_measurements_and_go_on_by_decades() -> None:
    steps = sorted({bucket(count) for count in range(21, 2001)})
    assert steps == [24, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1000, 1280, 1600, 2000]
    assert bucket(8001) == 10_000
    assert bucket(10**7 - 1) == 10**7


@given(needed=st.integers(1, 10**9))
def test_a_step_holds_what_is_requested_with_little_waste(needed: int) -> None:
    """Invariant: bucket(w) is the smallest step >= w, and steps lie at most a third apart from five on."""
    step = bucket(needed)
    assert step >= needed
    assert bucket(step) == step
    assert needed < 5 or step <= needed * 4 / 3


@given(
    top_k=st.integers(1, 3000),
    offset=st.integers(0, 3000),
    factor=st.floats(1.0, 50.0),
    floor=st.integers(1, 100),
    room=st.integers(0, 1900),
    cap=st.none() | st.integers(1, 3000),
)
def test_sizes_stay_between_what_was_asked_for_and_what_is_allowed(
    top_k: int, offset: int, factor: float, floor: int, room: int, cap: int | None
) -> None:
    """Invariant: top_k <= fetch_k <= max(top_k, caps), likewise for pages; growing never shrinks and comes to an end."""
    made = policy(factor=factor, floor=floor, cap=floor + room, page_cap=floor + room)
    most = min(floor + room, 10**9 if cap is None else cap)
    size = fetch_k(top_k, policy=made, cap=cap)
    assert top_k <= size <= max(top_k, most)
    paged = page_fetch_k(top_k, offset, policy=made, cap=cap)
    assert paged is None or (top_k + offset <= paged <= most and paged % BLOCK == 0)
    for first, grow in ((size, grown_fetch_k), (paged, grown_page_fetch_k)):
        if first is not None:
            sizes = [first]
            for _ in range(6):
                sizes.append(grow(sizes[-1], policy=made, cap=cap))
            assert all(before <= after for before, after in itertools.pairwise(sizes))
            assert sizes[-1] == sizes[-2] <= max(first, most)


# Where texts decide: no vectors, no more candidates than pages reach, and the page of the planned pool.

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
    """A ranking of texts; None is a point without one. ``requested``: limits and whether vectors were requested. ``key``: of the texts.
    ``ties``: equal texts have equal scores.
    """

    def __init__(self, texts: Sequence[str | None], reads: int = 9, *, key: str = "text", ties: bool = False) -> None:
        self.texts, self.reads, self.key, self.ties = texts, reads, key, ties
        self.requested: list[tuple[int, bool]] = []

    async def fetch(self, body: bytes) -> bytes:
        if len(self.requested) == self.reads:
            raise RejectedReplyError(FailOpen.BUDGET)
        content = json.loads(body)
        has_vectors = bool(content.get("with_vector"))
        self.requested.append((content["limit"], has_vectors))
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
    depths, requests = Depths(), []
    for _ in range(LEAST + 1):
        upstream = Upstream(CLEAN)
        assert answered(upstream, depths) == [0, 1, 2, 3]
        requests += upstream.requested
    assert requests == [(PLANNED, False)] * LEAST + [(TOP_K, False)]


def test_a_page_that_needs_more_than_the_last_ones_did_has_a_second_read() -> None:
    depths = Depths()
    for _ in range(LEAST):
        answered(Upstream(CLEAN), depths)
    flooded = Upstream([CLEAN[0]] * 9 + CLEAN[1:])
    assert answered(flooded, depths) == [0, 9, 10, 11]
    assert flooded.requested == [(TOP_K, False), (PLANNED, False)]
    again = Upstream([CLEAN[0]] * 9 + CLEAN[1:])
    assert answered(again, depths) == [0, 9, 10, 11]
    assert [limit for limit, _ in again.requested] == [16], "the next one asks for as many at once"


def test_without_a_budget_for_the_second_read_the_page_is_that_of_the_first() -> None:
    depths = Depths()
    for _ in range(LEAST):
        answered(Upstream(CLEAN), depths)
    assert answered(Upstream([CLEAN[0]] * 9 + CLEAN[1:], reads=1), depths) == [0]


def test_the_first_result_without_a_text_brings_the_vectors_once_and_for_all() -> None:
    texts, upstream = CollectionTexts(), Upstream([*CLEAN[:3], None, *CLEAN[3:]])
    assert answered(upstream, texts=texts) == [0, 1, 2, 3]
    assert upstream.requested == [(PLANNED, False), (PLANNED, True)]
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
    assert upstream.requested == [(PLANNED, False), (PLANNED, True)]
    assert texts.applied(Policies(Settings()).resolve("qdrant", "c"), "c").learned is None


def test_copies_of_a_text_under_any_key_need_no_vectors() -> None:
    texts, policy = taught("kind")
    upstream = Upstream([CLEAN[rank // 2] for rank in range(60)], key="kind", ties=True)
    assert answered(upstream, texts=texts, policy=policy) == [0, 2, 4, 6]
    assert upstream.requested == [(PLANNED, False)]
