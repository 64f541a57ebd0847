"""What another policy would do: the change as it is written, the counts, and a thousand pools in seconds."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from support.selection.inspections import inspector
from support.selection.kept_pools import CORPUS, TOP_K, demo_pool, kept, of_preset
from vecsieve.config.load import load
from vecsieve.config.presets import policy_of
from vecsieve.proxy.admin.inspector import InspectorRequest, RefusedError
from vecsieve.proxy.admin.pools import Sampled
from vecsieve.proxy.admin.recent import Recent
from vecsieve.proxy.admin.whatif import CHOICES, COUNTED, PRESET_NAMES, UNCHANGED, Change, ChangeError, in_one, judged
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Certain, Fixed, Linkage, Policy, Relative, Short, Strategy
from vecsieve.proxy.selection.single import select

DEFAULT, VECTORS = of_preset("default"), of_preset("vectors")


def sampled(count: int, collection: str = "docs") -> list[Sampled]:
    questions = len(CORPUS.questions)
    pools = [kept(demo_pool(question)) for question in range(min(count, questions))]
    return [Sampled(collection, 1000 + number, pools[number % questions]) for number in range(count)]


def page(question: int, policy: Policy = DEFAULT) -> list[int]:
    rows: list[int] = select(demo_pool(question), top_k=TOP_K, policy=policy).keep.tolist()
    return rows


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, DEFAULT),
        ({"preset": "vectors"}, VECTORS),
        ({"preset": "meaning"}, of_preset("meaning")),
        ({"threshold": "0.15"}, replace(DEFAULT, threshold=Fixed(value=0.15))),
        ({"preset": "vectors", "threshold": "0"}, replace(VECTORS, threshold=Fixed(value=0.0))),
        ({"relative": "0.5"}, replace(DEFAULT, threshold=Relative(factor=0.5, minimum=0.0, maximum=0.3))),
        ({"certainty": "0.9"}, replace(DEFAULT, threshold=Certain(first=0.9, last=0.9))),
        ({"representative": "longest"}, replace(DEFAULT, representative=Strategy.LONGEST)),
        ({"short": "allow"}, replace(DEFAULT, short=Short.ALLOW)),
    ],
)
def test_a_change_replaces_what_it_names_and_nothing_else(given: dict[str, str], changed: Policy) -> None:
    assert Change.of(given).applied()(DEFAULT) == changed


def test_a_linkage_has_a_cut_that_it_can_use_and_a_certainty_is_read_by_leaders() -> None:
    complete = Change.of({"preset": "vectors", "linkage": "complete"}).applied()(DEFAULT)
    assert (complete.linkage, isinstance(complete.threshold, Relative)) == (Linkage.COMPLETE, True)
    fixed = Change.of({"preset": "classical", "linkage": "single"}).applied()(DEFAULT)
    assert (fixed.linkage, fixed.threshold) == (Linkage.SINGLE, Fixed(value=0.15))
    certain = Change.of({"preset": "classical", "certainty": "0.5"}).applied()(DEFAULT)
    assert (certain.linkage, certain.threshold) == (Linkage.LEADER, Certain(first=0.5, last=0.5))


def test_lambda_brings_mmr() -> None:
    chooser = Change.of({"mmr_lambda": "0.25"}).applied()(DEFAULT).diversifier
    assert isinstance(chooser, Mmr)
    assert chooser.weight == 0.25


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHOICES.items() for value in values])
def test_every_choice_of_the_form_can_be_judged(name: str, value: str) -> None:
    (row,) = judged(sampled(2), Change.of({"preset": "vectors", name: value}))["rows"]
    assert row["searches"] == 2


def test_caps_are_changed_one_by_one_and_the_pools_that_know_their_names_are_counted() -> None:
    changed = Change.of({"per_document": "2"}).applied()(DEFAULT)
    assert changed == replace(DEFAULT, caps=replace(DEFAULT.caps, per_document=2))
    assert Change.of({"per_source": "1"}).applied()(changed).caps.per_document == 2
    (row,) = judged(sampled(3), Change.of({"per_document": "1"}))["rows"]
    assert (row["with_documents"], row["with_sources"], row["differ"]) == (0, 0, 0)


def test_a_page_by_offset_is_counted_against_the_databases_own_page() -> None:
    pool = kept(demo_pool(0, 50), offset=8)
    (row,) = judged([Sampled("docs", 1, pool)], UNCHANGED)["rows"]
    now = pool.now.keep.tolist()
    assert row["dropped_now"] == len(set(range(8, 16)) - set(now))
    assert row["changed_now"] == (now != list(range(8, 16)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"certanty": "1"}, "certanty: wanted one of preset, threshold"),
        ({"certainty": "2"}, "certainty: wanted none, a number from 0 to 1"),
        ({"certainty": "nan"}, "certainty: wanted none, a number from 0 to 1"),
        ({"threshold": "x"}, "threshold: wanted a number from 0 to 2"),
        ({"preset": "exactly"}, "preset: wanted one of default, exact, meaning, vectors, classical"),
        ({"linkage": ""}, "linkage: wanted one of single, complete, average, leader"),
        ({"representative": "chain"}, "representative: wanted one of rank, centroid"),
        ({"short": "fills"}, "short: wanted one of grow_then_fill"),
        ({"per_document": "0"}, "per_document: wanted a whole number from 1 to"),
        ({"per_source": "1e1"}, "per_source: wanted a whole number from 1 to"),
        ({"certainty": "1", "threshold": "1"}, "threshold and certainty: wanted one of them"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_in_words(given: dict[str, str], message: str) -> None:
    with pytest.raises(ChangeError, match=message):
        Change.of(given)


def test_the_same_policy_changes_nothing_and_its_counts_are_those_of_selection() -> None:
    judgement = judged(sampled(20), UNCHANGED)
    (row,) = judgement["rows"]
    assert judgement["examples"] == []
    assert (row["searches"], row["differ"]) == (20, 0)
    pages = [page(question) for question in range(20)]
    assert row["changed_now"] == row["changed_then"] == sum(page_rows != list(range(TOP_K)) for page_rows in pages)
    assert row["dropped_now"] == sum(len(set(range(TOP_K)) - set(page_rows)) for page_rows in pages)
    assert (row["with_texts"], row["with_vectors"], row["reworded_then"]) == (20, 20, 0)


def test_another_policy_is_counted_by_collection_with_the_searches_that_differ_most() -> None:
    pools = [*sampled(20), *sampled(5, "other")]
    change = {"preset": "vectors", "threshold": "0.3"}
    judgement = judged(pools, Change.of(change))
    assert {row["collection"]: row["searches"] for row in judgement["rows"]} == {"docs": 20, "other": 5}
    assert 0 < len(judgement["examples"]) <= sum(row["differ"] for row in judgement["rows"])
    sizes = [len(example["gone"]) + len(example["back"]) for example in judgement["examples"]]
    assert sizes == sorted(sizes, reverse=True)
    first = judgement["examples"][0]
    then = page(first["number"] - 1000, replace(VECTORS, threshold=Fixed(value=0.3)))
    assert not set(first["gone"]) & set(then)
    assert set(first["back"]) <= set(then)
    assert len(first["why"]) == len(first["gone"]) > 0
    assert all(reason.startswith("a vector near that of ") for reason in first["why"])
    only = judged(pools, Change.of({**change, "collection": "other"}))
    assert [row["collection"] for row in only["rows"]] == ["other"]


def test_the_outcomes_of_processes_are_added_up() -> None:
    one = {**judged(sampled(20), Change.of({"preset": "classical"})), "bytes": 10, "took_ms": 5.0}
    both = in_one([one, {**one, "took_ms": 7.0}])
    (row,), (of_one,) = both["collections"], one["rows"]
    assert all(row[name] == 2 * of_one[name] for name in COUNTED)
    assert {name: both["total"][name] for name in COUNTED} == {name: row[name] for name in COUNTED}
    assert (both["bytes"], both["took_ms"]) == (20, 7.0)
    assert in_one([])["total"] == dict.fromkeys(COUNTED, 0)


def test_as_many_pools_as_are_kept_are_judged_in_a_few_seconds_of_processor_time() -> None:
    pools = sampled(120)
    started = time.thread_time()
    judgement = judged(pools, Change.of({"preset": "meaning", "mmr_lambda": "0.7"}))
    assert time.thread_time() - started < 10.0
    assert judgement["rows"][0]["searches"] == 120


def request(query: str) -> InspectorRequest:
    return InspectorRequest(method="GET", path="/api/whatif", query=query, field=lambda _: None)


async def test_the_page_answers_and_names_what_is_wrong() -> None:
    made = inspector(Recent(5, now=time.time))
    assert b'"searches":0' in await made.answer(request("certainty=0.9"))
    with pytest.raises(RefusedError, match="threshold: wanted a number from 0 to 2") as caught:
        await made.answer(request("threshold=-1"))
    assert caught.value.status == 400


CUTS: tuple[dict[str, str], ...] = ({}, {"threshold": "0.15"}, {"relative": "0.2"}, {"certainty": "0.85"})
OTHERS: tuple[dict[str, str], ...] = (
    {},
    {"mmr_lambda": "0.5", "per_document": "2", "short": "allow"},
    {"collection": 'a"b: c', "representative": "longest"},
)


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("more", OTHERS, ids=str)
def test_what_was_tried_is_a_rule_for_the_settings(cut: dict[str, str], more: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    for preset in (None, *PRESET_NAMES):
        for linkage in ({}, {"linkage": "leader"}, {"linkage": "average"}):
            change = Change.of({**({} if preset is None else {"preset": preset}), **cut, **more, **linkage})
            file.write_text(change.as_yaml())
            settings = load(file=file, environment={}, flags={})
            (rule,) = settings.rules
            assert (rule.preset, rule.collection) == (preset, more.get("collection", "*"))
            selection = resolved(policy_of(settings.policy, rule), mode=None).selection
            expected = change.applied()(DEFAULT)
            assert (selection.threshold, selection.representative, selection.short, selection.caps) == (
                expected.threshold,
                expected.representative,
                expected.short,
                expected.caps,
            )
