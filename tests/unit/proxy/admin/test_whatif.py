"""What another policy would do: the change as it is written, the counts, and a thousand pools in seconds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import orjson
import pytest
from unit.proxy.admin.test_rejudging import CORPUS, DEFAULT, TOP_K, demo_pool, kept

from support.inspected import inspector, no_pools, seen
from vecsieve.proxy.admin.inspector import Asked, RefusedError
from vecsieve.proxy.admin.pools import Sampled
from vecsieve.proxy.admin.recent import Recent
from vecsieve.proxy.admin.rejudging import keeping, rejudged
from vecsieve.proxy.admin.whatif import COUNTED, PRESET_NAMES, UNCHANGED, Change, ChangeError, in_one, judged
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Certain, Fixed, Linkage, Relative
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import finished


def sampled(count: int, collection: str = "docs") -> list[Sampled]:
    each = len(CORPUS.questions)
    pools = [kept(demo_pool(question)) for question in range(min(count, each))]
    return [Sampled(collection, 1000 + number, pools[number % each]) for number in range(count)]


@pytest.mark.parametrize(
    ("given", "threshold"),
    [
        ({"certainty": "0.9"}, Certain(first=0.9, last=0.9)),
        ({"certainty": "0.9", "last": "0"}, Certain(first=0.9, last=0.0)),
        ({"threshold": "0.15"}, Fixed(value=0.15)),
        ({"relative": "0.5"}, Relative(factor=0.5, minimum=0.0, maximum=0.3)),
        ({}, DEFAULT.threshold),
    ],
)
def test_a_change_replaces_what_decides_and_nothing_else(given: dict[str, str], threshold: object) -> None:
    changed = Change.of(given).applied()(DEFAULT)
    assert changed == replace(DEFAULT, threshold=threshold)  # type: ignore[arg-type]  # - of every kind


def test_a_certainty_is_read_by_leaders_and_lambda_brings_mmr() -> None:
    other = replace(DEFAULT, threshold=Fixed(value=0.1), linkage=Linkage.AVERAGE)
    assert Change.of({"certainty": "0.5"}).applied()(other).linkage is Linkage.LEADER
    chooser = Change.of({"mmr_lambda": "0.25"}).applied()(other).diversifier
    assert isinstance(chooser, Mmr)
    assert chooser.weight == 0.25


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_can_be_asked_about(name: str) -> None:
    found = judged(sampled(3), Change.of({"preset": name}))
    assert found["rows"][0]["searches"] == 3


def test_caps_are_changed_one_by_one_and_the_pools_that_know_their_names_are_counted() -> None:
    changed = Change.of({"per_document": "2"}).applied()(DEFAULT)
    assert changed == replace(DEFAULT, caps=replace(DEFAULT.caps, per_document=2))
    assert Change.of({"per_source": "1"}).applied()(changed).caps.per_document == 2
    (row,) = judged(sampled(3), Change.of({"per_document": "1"}))["rows"]
    assert (row["with_documents"], row["with_sources"], row["differ"]) == (0, 0, 0)


def test_a_page_by_offset_is_counted_against_the_databases_own_page() -> None:
    pool = kept(demo_pool(0, 50), offset=8)
    (row,) = judged([Sampled("docs", 1, pool)], UNCHANGED)["rows"]
    page = rejudged(pool, DEFAULT).keep.tolist()
    assert row["dropped_now"] == len(set(range(8, 16)) - set(page))
    assert row["changed_now"] == (page != list(range(8, 16)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"certanty": "1"}, "certanty: wanted one of preset, certainty"),
        ({"certainty": "2"}, "certainty: wanted a number from 0 to 1"),
        ({"certainty": "nan"}, "certainty: wanted a number from 0 to 1"),
        ({"threshold": "x"}, "threshold: wanted a number from 0 to 2"),
        ({"preset": "exactly"}, "preset: wanted one of exact, careful"),
        ({"per_document": "0"}, "per_document: wanted a whole number from 1 to 100"),
        ({"per_source": "1e1"}, "per_source: wanted a whole number from 1 to 100"),
        ({"certainty": "1", "threshold": "1"}, "certainty and threshold: wanted one of them"),
        ({"last": "1"}, "last: wanted certainty beside it"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_in_words(given: dict[str, str], said: str) -> None:
    with pytest.raises(ChangeError, match=said):
        Change.of(given)


def test_the_same_policy_changes_nothing_and_its_counts_are_those_of_selection() -> None:
    found = judged(sampled(20), Change())
    (row,) = found["rows"]
    assert found["examples"] == []
    assert (row["searches"], row["differ"]) == (20, 0)
    pages = [select(demo_pool(question), top_k=TOP_K, policy=DEFAULT).keep.tolist() for question in range(20)]
    assert row["changed_now"] == row["changed_then"] == sum(page != list(range(TOP_K)) for page in pages)
    assert row["dropped_now"] == sum(len(set(range(TOP_K)) - set(page)) for page in pages)


def test_another_policy_is_counted_by_collection_with_the_searches_that_differ_most() -> None:
    pools = [*sampled(20), *sampled(5, "other")]
    found = judged(pools, Change.of({"certainty": "0.05"}))
    assert {row["collection"]: row["searches"] for row in found["rows"]} == {"docs": 20, "other": 5}
    assert sum(row["differ"] for row in found["rows"]) == sum(bool(each) for each in found["examples"]) > 0
    sizes = [len(each["gone"]) + len(each["back"]) for each in found["examples"]]
    assert sizes == sorted(sizes, reverse=True)
    first = found["examples"][0]
    pool = next(each.pool for each in pools if (each.number, each.collection) == (first["number"], first["collection"]))
    then = rejudged(pool, Change.of({"certainty": "0.05"}).applied()(pool.policy)).keep.tolist()
    assert not set(first["gone"]) & set(then)
    assert set(first["back"]) <= set(then)
    only = judged(pools, Change.of({"certainty": "0.05", "collection": "other"}))
    assert [row["collection"] for row in only["rows"]] == ["other"]


def test_the_outcomes_of_processes_are_added_up() -> None:
    one = {**judged(sampled(20), Change.of({"certainty": "0.05"})), "bytes": 10, "took_ms": 5.0}
    both = in_one([one, {**one, "took_ms": 7.0}])
    (row,), (of_one,) = both["collections"], one["rows"]
    assert all(row[name] == 2 * of_one[name] for name in COUNTED)
    assert {name: both["total"][name] for name in COUNTED} == {name: row[name] for name in COUNTED}
    assert (both["bytes"], both["took_ms"]) == (20, 7.0)
    assert in_one([])["total"] == dict.fromkeys(COUNTED, 0)


def test_a_thousand_pools_are_judged_anew_in_less_than_five_seconds_of_processor_time() -> None:
    pools = sampled(1000)
    started = time.thread_time()
    found = judged(pools, Change.of({"preset": "careful", "mmr_lambda": "0.7"}))
    assert time.thread_time() - started < 5.0
    assert found["rows"][0]["searches"] == 1000
    assert sum(each.pool.size_bytes for each in pools) < 8 * 1024 * 1024


def asked(query: str) -> Asked:
    return Asked(method="GET", path="/api/whatif", query=query, field=lambda _: None)


async def test_the_page_answers_and_names_what_is_wrong() -> None:
    made = inspector(Recent(5, now=time.time))
    assert b'"searches":0' in await made.answer(asked("certainty=0.9"))
    with pytest.raises(RefusedError, match="threshold: wanted a number from 0 to 2") as caught:
        await made.answer(asked("threshold=-1"))
    assert caught.value.status == 400


async def test_beside_a_probability_stand_the_two_subjects_that_weighed_most() -> None:
    """In the search, in the doubtful pairs and in /explain, as soon as the pool is kept; nothing where it never is."""
    eager = replace(DEFAULT, threshold=Certain(first=0.5, last=0.2))
    selections = (
        (question, select(demo_pool(question), top_k=TOP_K, policy=eager))
        for question in range(len(CORPUS.question_vectors))
    )
    question, chosen = next((number, each) for number, each in selections if np.isfinite(each.cuts).any())
    pool = finished(keeping(demo_pool(question), top_k=TOP_K, policy=eager))
    recent, pools = Recent(5, now=lambda: 1e9), no_pools()
    recent.add(replace(seen(chosen), scores=pool.scores))
    number = recent.last
    recent.add(seen(chosen, collection="other"))
    asked = inspector(recent, pools)
    doubtful = Asked(method="GET", path="/api/doubtful", query="", field={"Host": "localhost"}.get)
    before = orjson.loads(await asked.answer(doubtful))["pairs"]
    assert [pair["weighed"] for pair in before] == [[]] * len(before)
    pools._add(Sampled("docs", number, pool))  # pools are worked out beside the loop, after their searches
    other, told = orjson.loads(await asked.explain())["records"]
    by_rule = [
        each["copy"] for each in told["left_out"] if each["copy"] is not None and each["copy"]["cut"] is not None
    ]
    assert by_rule
    assert all(1 <= len(copy["weighed"]) <= 2 for copy in by_rule)
    assert {"subject", "weight", "words"} == by_rule[0]["weighed"][0].keys()
    assert all(each["copy"]["weighed"] == [] for each in other["left_out"] if each["copy"] is not None)
    pairs = orjson.loads(await asked.answer(doubtful))["pairs"]
    assert any(pair["weighed"] for pair in pairs)
