"""A query through the proxy's own code: what comes back, what it was widened to, what is timed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.labelled_folders import BY_TEXT, BY_VECTORS, COPY, CORPUS, QUERIES, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, read_set
from vecsieve.proxy.jobs.evaluate.searching import Evidence, Found, Points, Trial, Upstream, contenders, neighbours
from vecsieve.proxy.search.policy import ResolvedPolicy

DISTINCT = [[1.0, 0.0, 0.0], [0.9, 0.0, 0.44], [0.8, 0.6, 0.0], [0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]


class Recorder(Upstream):
    """Remembers what it was asked, and what it said."""

    def __init__(self, labelled: LabelledSet, query: int) -> None:
        super().__init__(Points(labelled), dict(neighbours(labelled, every=1))[query])
        self.asked: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []

    async def answer(self, body: bytes) -> bytes:
        said = await super().answer(body)
        self.asked.append(json.loads(body))
        self.said.append(json.loads(said))
        return said


def ticking(step: float = 1.0) -> Callable[[], float]:
    """A clock that moves by a step each time it is read."""
    time = 0.0

    def clock() -> float:
        nonlocal time
        time += step
        return time

    return clock


def policy(text: str, pool: int | None = None) -> ResolvedPolicy:
    return contenders(given=[f"own={text}"], pool=pool)[0].policy


def searched(
    folder: Path, chosen: ResolvedPolicy, *, query: int = 0, top_k: int = 3, **members: Any
) -> tuple[Found, Recorder]:
    labelled = read_set(labelled_folder(folder / "tiny", **members))
    upstream = Recorder(labelled, query)
    trial = Trial(top_k=top_k, clock=ticking())
    return asyncio.run(trial.search(chosen, labelled.query_vectors[query], upstream)), upstream


def test_a_copy_gives_its_place_to_the_next_distinct_item(tmp_path: Path) -> None:
    assert searched(tmp_path, policy(BY_VECTORS))[0].rows == (A, B, C)


def test_a_policy_that_reads_texts_gets_them_through_the_adapter(tmp_path: Path) -> None:
    # `a` and `b` say the same word for word and stand far apart: nothing but the text can tell.
    corpus = [CORPUS[A], {**CORPUS[COPY], "text": "other"}, {**CORPUS[B], "text": "ALPHA"}, *CORPUS[C:]]
    found, upstream = searched(tmp_path, policy(BY_TEXT), corpus=corpus, vectors=DISTINCT)
    assert found.rows == (A, COPY, C)
    assert "text" in upstream.asked[0]["with_payload"]
    assert {"text": "alpha"}.items() <= upstream.said[0]["result"]["points"][0]["payload"].items()


def test_what_was_left_out_as_a_copy_is_told_with_its_evidence(tmp_path: Path) -> None:
    by_text = searched(tmp_path / "a", policy(BY_TEXT))[0]
    assert (by_text.rows, by_text.evidence) == ((A, B, C), {COPY: Evidence.SAME_TEXT})
    by_vectors = searched(tmp_path / "b", policy(BY_VECTORS))[0]
    assert (by_vectors.rows, by_vectors.evidence) == ((A, B, C), {COPY: Evidence.NEAR})


def test_a_contained_text_is_evidence_by_text(tmp_path: Path) -> None:
    words = " ".join(f"word{chr(97 + place)}" for place in range(24))
    corpus = [{**CORPUS[A], "text": words}, {**CORPUS[COPY], "text": f"{words} iota"}, *CORPUS[B:]]
    contained = BY_TEXT.replace("{reach: none}", "{reach: none, containment: 0.8}")
    found, _ = searched(tmp_path, policy(contained), corpus=corpus, vectors=DISTINCT)
    assert found.evidence == {COPY: Evidence.CONTAINED}


def test_where_nothing_was_left_out_there_is_no_evidence(tmp_path: Path) -> None:
    assert searched(tmp_path, policy(BY_VECTORS), vectors=DISTINCT)[0].evidence == {}


def test_the_pool_is_what_the_policy_fetches_or_exactly_what_was_said(tmp_path: Path) -> None:
    assert searched(tmp_path / "a", policy(BY_VECTORS))[1].asked[0]["limit"] == 24
    assert searched(tmp_path / "b", policy(BY_VECTORS, pool=4))[1].asked[0]["limit"] == 4
    assert searched(tmp_path / "c", policy(BY_VECTORS, pool=777))[1].asked[0]["limit"] == 777


def test_a_policy_that_grows_its_pool_is_answered_again(tmp_path: Path) -> None:
    growing = BY_VECTORS.replace("short: fill", "short: grow_then_fill, fetch: {factor: 1.0, floor: 4}")
    corpus = [{**CORPUS[0], "id": str(row), "atoms": ["x"]} for row in range(9)]
    vectors = [[1.0, 0.0, 0.0]] * 8 + [[0.0, 1.0, 0.0]]
    queries = [{"subtopics": {"x": ["0"]}}] * 2
    found, upstream = searched(tmp_path, policy(growing), corpus=corpus, vectors=vectors, queries=queries, top_k=2)
    assert [asked["limit"] for asked in upstream.asked] == [4, 16]
    assert found.rows == (0, 8)


def test_a_closed_list_is_all_that_can_come_back(tmp_path: Path) -> None:
    queries = [{**QUERIES[0], "candidates": ["a", "a2", "d"]}, QUERIES[1]]
    assert searched(tmp_path / "fill", policy(BY_VECTORS), queries=queries)[0].rows == (A, COPY, D)
    allowed = policy(BY_VECTORS.replace("short: fill", "short: allow"))
    assert searched(tmp_path / "allow", allowed, queries=queries)[0].rows == (A, D)


def test_what_the_proxy_would_not_widen_is_answered_plainly(tmp_path: Path) -> None:
    capped = policy(BY_VECTORS.replace("short: fill", "short: fill, fetch: {floor: 2, cap: 2}"))
    found, upstream = searched(tmp_path, capped)
    assert found == Found(rows=(A, COPY, B), choosing_seconds=0.0, added_seconds=0.0)
    assert upstream.asked[0]["limit"] == 3


def test_items_without_a_direction_are_answered_plainly(tmp_path: Path) -> None:
    # An empty pool of vectors: upstream's own order stands.
    found, _ = searched(tmp_path, policy(BY_VECTORS), vectors=[[0.0, 0.0, 0.0]] * 5)
    assert found.rows == (A, COPY, B)


def test_the_plain_answer_is_the_ranking_s_head(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    upstream = Recorder(labelled, 1)
    found = asyncio.run(Trial(top_k=2, clock=ticking()).plain(labelled.query_vectors[1], upstream))
    assert found == Found(rows=(D, B), choosing_seconds=0.0, added_seconds=0.0)
    assert (upstream.asked[0]["limit"], upstream.asked[0]["with_payload"]) == (2, False)


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_time_is_that_of_choosing_and_of_all_but_the_database(tmp_path: Path, step: float) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    trial = Trial(top_k=3, clock=ticking(step))
    found = asyncio.run(trial.search(policy(BY_VECTORS), labelled.query_vectors[0], Recorder(labelled, 0)))
    assert found.choosing_seconds == 3 * step  # three laps
    assert found.added_seconds > found.choosing_seconds
    assert found.added_seconds % step == 0.0
