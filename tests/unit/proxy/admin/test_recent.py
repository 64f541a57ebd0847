"""A record says of every candidate what became of it, and holds identifiers alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.inspections import CHOSEN, seen
from support.selection.policies import CLASSICAL
from support.selection.pools import planted, pool
from support.selection.selections import selection
from vecsieve.adapters.contract import Operation, Pool, Search
from vecsieve.proxy.admin.recent import (
    NOTHING,
    PLACES,
    WORDS_CHARACTERS,
    Copy,
    Kept,
    LeftOut,
    LeftOutBy,
    Recent,
    Record,
    Seen,
    seen_of,
)
from vecsieve.proxy.search.pools.values import PoolSet, Selected
from vecsieve.proxy.search.report import figures
from vecsieve.proxy.selection.policy import Caps
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Fate, FloatMatrix, Link, Selection
from vecsieve.proxy.telemetry.labels import Collapse, Outcome
from vecsieve.proxy.telemetry.reports import Report

OPERATION = Operation(backend="qdrant", name="query", collection="docs")
SEARCH = Search(top_k=3, offset=0, pages=False, query=np.ones(2, dtype=np.float32))
CANARY = b"CANARY-77aa1"


def explained(chosen: Selection, *ids: bytes, why: Mapping[int, str] = NOTHING) -> Record:
    n = len(chosen.representative)
    fetched = Pool(
        scores=np.linspace(1, 0, n),
        vectors=np.ones((n, 2), dtype=np.float32),
        fields=((CANARY,),) * n,
        ids=ids,
        vector_name="CANARY-77aa1",
    )
    call = SimpleNamespace(operation=OPERATION, searches=(SEARCH,))
    pools = SimpleNamespace(
        call=call, reply=SimpleNamespace(pools=(fetched,)), planned=SimpleNamespace(plan=(8,)), policy=None
    )
    report = Report("qdrant", "query", Outcome.DEDUP, 0.0, 0.0, 0.0, figures=(figures(SEARCH, fetched, chosen),))
    [seen] = seen_of(Selected(cast(PoolSet, pools), (chosen,), (chosen,)), report, texts=False)
    return seen.record(why)


CHOSEN_POOL = selection(
    keep=[0, 2, 4],
    representative=[0, 0, 2, 2, 0, 5, 6, 0],
    fates=[Fate.KEPT, Fate.COLLAPSED, Fate.KEPT, Fate.COLLAPSED, Fate.FILLED, Fate.CAPPED, Fate.NOT_CHOSEN, Fate.COLLAPSED],
    links=[0, Link.EQUAL, 0, Link.JOINED, Link.DISTANCE, 0, 0, Link.EDITED],
    similarities=[np.nan, 1.0, np.nan, 1.0, np.nan, np.nan, np.nan, 0.962345],
    cuts=[np.nan, np.nan, np.nan, np.nan, 0.85, np.nan, np.nan, np.nan],
    also=[-1, -1, -1, 0, -1, -1, -1, -1],
    threshold=0.123456,
)  # fmt: skip
IDS = (b"1", b'"b"', b"18446744073709551615", b"4", b"5", b"6", b"7", b"8")


def test_every_result_names_whom_it_stands_for_and_why_it_fills_the_page() -> None:
    first, second, third = explained(CHOSEN_POOL, *IDS).kept
    assert first == Kept(id=1, rank=0, score=1.0, collapsed_ids=("b", 8), copy=None)
    assert second == Kept(id=18446744073709551615, rank=2, score=0.7143, collapsed_ids=(4,), copy=None)
    assert third.copy == Copy(
        of=1,
        rank=0,
        also=None,
        reason=Collapse.VECTORS,
        similarity=None,
        cut=0.85,
        why="in one cluster with 1 by their vectors",
    )


def test_every_candidate_left_out_has_its_reason() -> None:
    left_out = explained(CHOSEN_POOL, *IDS).left_out
    assert [(candidate.id, candidate.rank, candidate.reason) for candidate in left_out] == [
        ("b", 1, Collapse.EQUAL_TEXT),
        (4, 3, Collapse.JOINED),
        (6, 5, LeftOutBy.CAPPED),
        (7, 6, LeftOutBy.NOT_CHOSEN),
        (8, 7, Collapse.EDITED),
    ]
    assert left_out[1].copy == Copy(
        of=18446744073709551615,
        rank=2,
        also=0,
        reason=Collapse.JOINED,
        similarity=1.0,
        cut=None,
        why="all of it is in 3 and 1",
    )
    assert [candidate.copy.why for candidate in (left_out[0], left_out[4]) if candidate.copy is not None] == [
        "says the same as 1",
        "an edited copy of 1",
    ]
    assert [candidate.copy for candidate in left_out[2:4]] == [None, None]
    assert left_out[3] == LeftOut(id=7, rank=6, score=0.1429, reason=LeftOutBy.NOT_CHOSEN, copy=None)


def test_words_of_the_texts_replace_the_kind_of_a_reason_and_say_why_a_result_stays() -> None:
    why = {
        2: "stays: adds 'x' to 1",
        4: "not shown: it is a copy",
        6: "not shown: it is no result",
        7: "an edited copy of 1: 'that' left out",
    }
    record = explained(CHOSEN_POOL, *IDS, why=why)
    assert [result.stays for result in record.kept] == [None, "stays: adds 'x' to 1", None]
    assert [candidate.copy.why for candidate in record.left_out if candidate.copy is not None][-1] == why[7]
    assert "is no result" not in str(record)


def test_a_cut_is_named_only_where_vectors_decided() -> None:
    assert explained(selection([0], [0], [Fate.KEPT], threshold=np.nan)).threshold is None


def test_the_record_says_what_was_asked_and_how_it_was_decided() -> None:
    record = explained(CHOSEN_POOL, *IDS)
    assert (record.backend, record.operation, record.collection) == ("qdrant", "query", "docs")
    assert (record.top_k, record.offset, record.candidates, record.clusters) == (3, 0, 8, 4)
    assert (record.acted, record.restrained, record.threshold) == (True, False, 0.1235)
    assert (record.outcome, record.added_ms) == (Outcome.DEDUP, 0.0)


def test_a_record_holds_no_payload_no_vector_and_no_query() -> None:
    written = orjson.dumps(explained(CHOSEN_POOL, *IDS))
    assert CANARY not in written
    assert set(json.loads(written)) == {
        "backend", "operation", "collection", "outcome", "added_ms", "top_k", "offset", "candidates", "clusters", "acted",
        "restrained", "short", "threshold", "kept", "left_out",
    }  # fmt: skip


def test_a_record_is_json_with_the_databases_own_identifiers() -> None:
    written = json.loads(orjson.dumps(explained(CHOSEN_POOL, *IDS)))
    assert [result["id"] for result in written["kept"]] == [1, 18446744073709551615, 5]
    assert written["left_out"][1]["copy"] == {
        "of": 18446744073709551615, "rank": 2, "also": 0, "reason": "joined", "similarity": 1.0, "cut": None,
        "why": "all of it is in 3 and 1",
    }  # fmt: skip


@pytest.mark.parametrize("raw", [b"", b"1.5", b"null", b"true", b"[1]", b'"\\ud800"', b"{", b"\xff"])
def test_an_identifier_that_is_neither_number_nor_text_is_unknown(raw: bytes) -> None:
    record = explained(selection([0], [0], [Fate.KEPT]), raw)
    assert record.kept[0].id is None
    assert json.loads(orjson.dumps(record))["kept"][0]["rank"] == 0


def test_an_adapter_that_knows_no_identifiers_is_explained_by_ranks() -> None:
    left_out = explained(CHOSEN_POOL).left_out
    assert [(candidate.id, candidate.rank) for candidate in left_out] == [
        (None, 1),
        (None, 3),
        (None, 5),
        (None, 6),
        (None, 7),
    ]


@given(planted(), st.integers(0, 12), st.sampled_from([1, 2]))
def test_the_record_of_any_selection_accounts_for_every_candidate(
    vectors: FloatMatrix, top_k: int, per_cluster: int
) -> None:
    """Invariant: results and left-out are the pool, each once; a collapsed one is listed where its representative is kept."""
    policy = replace(CLASSICAL, caps=Caps(per_cluster=per_cluster, per_document=None, per_source=None))
    chosen = select(pool(vectors), top_k=top_k, policy=policy)
    record = explained(chosen, *(b"%d" % row for row in range(len(vectors))))
    assert [result.id for result in record.kept] == chosen.keep.tolist()
    assert sorted([result.rank for result in record.kept] + [candidate.rank for candidate in record.left_out]) == list(
        range(len(vectors))
    )
    listed = {(result.id, copy) for result in record.kept for copy in result.collapsed_ids}
    kept = {result.id for result in record.kept}
    assert listed == {
        (candidate.copy.of, candidate.id)
        for candidate in record.left_out
        if candidate.copy and candidate.copy.of in kept
    }
    assert json.loads(orjson.dumps(record))["candidates"] == len(vectors)


# The ring holds the newest searches, and never more than it may; their numbers grow with time and differ between workers.


def search(size: int = 1) -> Seen:
    places = list(range(size))
    return seen(selection(places, places, [Fate.KEPT] * size))


def visible(recent: Recent) -> list[object]:
    return [record.seen.summary()["candidates"] for record in recent.newest()]


def test_the_newest_comes_first_with_its_number_and_time() -> None:
    times = iter([1000.0, 1001.23449])
    recent = Recent(5, now=lambda: next(times), place=3)
    recent.add(search())
    recent.add(search())
    records = [(record.number, record.at) for record in recent.newest()]
    assert records == [(1001234 * PLACES + 3, 1001.234), (1000000 * PLACES + 3, 1000.0)]


def test_nothing_is_held_where_nothing_is_requested() -> None:
    recent = Recent(0, now=lambda: 0.0)
    recent.add(search())
    assert recent.newest() == []


def test_a_search_larger_than_all_room_is_not_held() -> None:
    recent = Recent(5, now=lambda: 0.0, most_bytes=5000)
    recent.add(search(100))
    recent.add(search())
    assert visible(recent) == [1]


def test_a_smaller_ring_forgets_the_oldest_at_once() -> None:
    recent = Recent(3, now=lambda: 0.0)
    for size in (1, 2, 3):
        recent.add(search(size))
    recent.resize(2, texts=False)
    assert visible(recent) == [3, 2]
    recent.resize(0, texts=False)
    assert visible(recent) == []
    recent.resize(1, texts=False)
    recent.add(search(4))
    assert visible(recent) == [4]


def test_searches_with_texts_go_at_once_when_texts_are_switched_off() -> None:
    recent = Recent(3, now=lambda: 0.0, texts=True)
    recent.add(seen(CHOSEN, texts=("CANARY",) * 5))
    recent.resize(3, texts=False)
    assert recent.newest() == []


COUNTED = ("results", "repeats", "collapsed", "changed")


def test_a_summary_counts_what_the_databases_own_page_repeats() -> None:
    summary = seen().summary()
    assert [summary[name] for name in COUNTED] == [3, 1, 2, True]
    alone = search(3).summary()
    assert [alone[name] for name in COUNTED] == [3, 0, 0, False]


def test_what_is_held_counts_its_texts() -> None:
    assert seen(CHOSEN, texts=("x" * 600,) * 5).size_bytes > seen().size_bytes + 3000


@given(st.integers(0, 4), st.integers(0, 9000), st.lists(st.integers(1, 99), max_size=12))
def test_it_holds_the_newest_that_fit(keep: int, most_bytes: int, sizes: list[int]) -> None:
    """Invariant: what is held is an unbroken run of the newest searches, as long as number and bytes allow."""
    recent = Recent(keep, now=lambda: 0.0, most_bytes=most_bytes)
    for size in sizes:
        recent.add(search(size))
    counts = visible(recent)
    assert len(counts) <= keep
    assert sum(record.seen.size_bytes for record in recent.newest()) <= most_bytes
    assert counts == sizes[::-1][: len(counts)]


@given(st.lists(st.floats(0, 2e9), min_size=1, max_size=20), st.integers(0, PLACES - 1))
def test_numbers_only_grow_and_tell_the_worker(times: list[float], place: int) -> None:
    """Invariant: each number is larger than all before it and than what was reached, whatever the clock does; its rest is the place."""
    clock = [0.0]
    recent = Recent(100, now=lambda: clock[0], place=place)
    last = -1
    for at in times:
        clock[0] = at
        reached = recent.reached
        recent.add(search())
        number = recent.newest()[0].number
        assert number > last
        assert number > reached
        assert number % PLACES == place
        assert number < 2**53
        last = number


def test_a_search_is_recognised_by_the_first_words_of_its_first_result() -> None:
    texts = ("  Where \n the fridge  was bought. " + "x" * 200, None, "b", "c", "d")
    assert str(seen(CHOSEN, texts=texts).summary()["words"]).startswith("Where the fridge was bought. xxx")
    assert len(str(seen(CHOSEN, texts=texts).summary()["words"])) == WORDS_CHARACTERS
    assert seen(CHOSEN).summary()["words"] is None
    assert seen(CHOSEN, texts=(None, "a", "b", "c", "d")).summary()["words"] is None
