"""One query's answers judged: every figure of the hand-worked set."""

from __future__ import annotations

import math
import time
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.labelled_folders import BY_VECTORS, COPY, CORPUS, QUERIES, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate.judging import (
    FIRST_ALONE,
    AlphaNdcg,
    Judge,
    Judged,
    SetOutcome,
    evaluated,
    met,
    ndcg,
    redundant,
)
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, read_set
from vecsieve.proxy.jobs.evaluate.searching import PLAIN, TrialOutcome, contenders
from vecsieve.proxy.jobs.evaluate.wording import Wordings

SECOND = 1.0 / math.log2(3)


def trial_outcome(*rows: int, dropped: tuple[int, ...] = ()) -> TrialOutcome:
    return TrialOutcome(rows=rows, added_seconds=0.002, dropped=dropped)


def judge(labelled: LabelledSet, query: int, plain: TrialOutcome) -> Judge:
    return Judge(labelled, Wordings([item.text for item in labelled.items]), query, plain, top_k=3)


def judged(folder: Path, query: int, plain: TrialOutcome, answer: TrialOutcome) -> Judged:
    return judge(read_set(labelled_folder(folder / "tiny")), query, plain).judged(answer)


def test_the_plain_answer_by_hand(tmp_path: Path) -> None:
    plain = judged(tmp_path, 0, trial_outcome(A, COPY, B), trial_outcome(A, COPY, B))
    assert (plain.returned, plain.redundancy, plain.collapsed) == pytest.approx((3.0, 1 / 3, 0.0))
    assert (plain.documents, plain.recall) == pytest.approx((2 / 3, 0.5))
    assert plain.ndcg == pytest.approx((1.0 + SECOND) / (1.5 + SECOND))
    assert plain.alpha_ndcg == pytest.approx((1.0 + 0.5 * SECOND) / (2.125 + 0.5 * SECOND))
    assert (plain.hit, plain.retained, plain.kept, plain.lost) == (1.0, 1.0, 1, 0)
    # The ideal list begins with C, which meets both needs.
    assert (plain.perfect, plain.group_ndcg) == pytest.approx((0.0, 0.5))
    assert plain.added_seconds == 0.002


def test_a_distinct_answer_by_hand(tmp_path: Path) -> None:
    judgement = judged(tmp_path, 0, trial_outcome(A, COPY, B), trial_outcome(A, B, C))
    assert (judgement.redundancy, judgement.collapsed, judgement.documents, judgement.recall) == pytest.approx(
        (0.0, 1.0, 2 / 3, 1.0)
    )
    assert judgement.ndcg == pytest.approx(1.5 / (1.5 + SECOND))
    assert judgement.alpha_ndcg == pytest.approx(1.75 / (2.125 + 0.5 * SECOND))
    assert (judgement.perfect, judgement.group_ndcg) == pytest.approx((1.0, 0.75))
    assert (judgement.hit, judgement.retained, judgement.kept, judgement.lost) == (1.0, 1.0, 1, 0)


def test_an_answer_that_was_lost_is_counted(tmp_path: Path) -> None:
    judgement = judged(tmp_path, 0, trial_outcome(A, COPY, B), trial_outcome(B, D))
    assert (
        judgement.returned,
        judgement.hit,
        judgement.retained,
        judgement.kept,
        judgement.lost,
        judgement.recall,
    ) == (2, 0.0, 0.0, 0, 1, 0.0)


def test_an_answer_that_was_never_there_cannot_be_retained(tmp_path: Path) -> None:
    judgement = judged(tmp_path, 1, trial_outcome(A, B), trial_outcome(D, B))
    assert (judgement.hit, judgement.kept, judgement.lost) == (1.0, 0, 0)
    assert math.isnan(judgement.retained)
    assert math.isnan(judgement.collapsed)


@pytest.mark.parametrize(
    ("dropped", "answer", "on_page", "walked"),
    [
        ((), (A, COPY, B), (0, 0), (0, 0)),
        ((COPY,), (A, B, C), (1, 0), (1, 0)),  # the copy's one label stands with `a`
        ((B,), (A, COPY, C), (1, 1), (1, 1)),  # nothing else states what `b` does
        ((C,), (A, B, D), (0, 0), (1, 0)),  # one of the two labels of `c` stands: half is enough
        ((C,), (B, D), (0, 0), (1, 1)),  # none of the two stands
        ((A, COPY), (), (2, 2), (2, 2)),  # they repeat each other, but nothing stands
        ((A, COPY, D), (C,), (2, 0), (3, 1)),  # what stands may be new in the answer
    ],
)
def test_an_item_is_dropped_wrongly_if_fewer_than_half_of_its_labels_stand(
    tmp_path: Path,
    dropped: tuple[int, ...],
    answer: tuple[int, ...],
    on_page: tuple[int, int],
    walked: tuple[int, int],
) -> None:
    judgement = judged(tmp_path, 0, trial_outcome(A, COPY, B), trial_outcome(*answer, dropped=dropped))
    assert (judgement.dropped, judgement.wrong_label) == on_page
    assert (judgement.walked, judgement.walked_wrong_label) == walked


def test_an_item_without_labels_is_never_dropped_wrongly_by_label(tmp_path: Path) -> None:
    corpus = [*CORPUS[:D], {**CORPUS[D], "atoms": []}]
    queries: list[dict[str, object]] = [QUERIES[0], {"qid": "q1", "text": "?", "subtopics": {"y": ["b"]}}]
    labelled = read_set(labelled_folder(tmp_path / "tiny", corpus=corpus, queries=queries))
    judgement = judge(labelled, 0, trial_outcome(A, D)).judged(trial_outcome(A, dropped=(D,)))
    assert (judgement.dropped, judgement.wrong_label, judgement.wrong_text) == (1, 0, 1)


def test_an_item_is_dropped_wrongly_by_text_if_the_answer_lacks_its_words(tmp_path: Path) -> None:
    """`a2` says "Alpha"; `a` says "alpha", and `c`, which has the same label, "gamma"."""
    judgement = judged(tmp_path, 0, trial_outcome(A, COPY, B), trial_outcome(A, B, dropped=(COPY,)))
    assert (judgement.wrong_label, judgement.wrong_text, judgement.walked_wrong_text) == (0, 0, 0)
    judgement = judged(tmp_path / "other", 0, trial_outcome(A, COPY, B), trial_outcome(C, B, dropped=(COPY,)))
    assert (judgement.wrong_label, judgement.wrong_text, judgement.walked_wrong_text) == (0, 1, 1)


@pytest.mark.parametrize(
    ("rows", "old", "strict"),
    [
        ((A, COPY), 1, 1),
        ((A, C), 0, 0),  # half of the labels of `c` are new
        ((C, A, COPY), 2, 2),
        ((B, C, D), 0, 0),
        ((), 0, 0),
    ],
)
def test_a_strict_repeat_has_no_label_of_its_own(tmp_path: Path, rows: tuple[int, ...], old: int, strict: int) -> None:
    judgement = judged(tmp_path, 0, trial_outcome(A), trial_outcome(*rows))
    assert judgement.redundancy * max(len(rows), 1) == pytest.approx(old)
    assert judgement.strict == strict


# Alpha-nDCG against hand-worked lists, and against the ideal found by trying everything.

TOPICS = st.dictionaries(
    st.sampled_from("pqrs"), st.frozensets(st.integers(0, 4), min_size=1), min_size=1
)  # fmt: skip


def gain(rows: tuple[int, ...], subtopics: dict[str, frozenset[int]]) -> float:
    """The definition, word for word: a subtopic met for the n-th time earns a half to the power of n - 1."""
    return sum(
        sum(0.5 ** sum(above in items for above in rows[:rank]) for items in subtopics.values() if row in items)
        / math.log2(rank + 2)
        for rank, row in enumerate(rows)
    )


def test_a_list_worked_out_by_hand() -> None:
    measure = AlphaNdcg({"x": frozenset({0, 1, 3}), "z": frozenset({3})}, 3)
    ideal = 2.0 + 0.5 * SECOND + 0.25 * 0.5  # 3 meets both, 0 meets x for the second time, 1 for the third
    assert measure.of([0, 1, 2]) == pytest.approx((1.0 + 0.5 * SECOND) / ideal)
    assert measure.of([0, 2, 3]) == pytest.approx((1.0 + 1.5 * 0.5) / ideal)
    assert measure.of([3, 0, 1]) == pytest.approx(1.0)
    assert measure.of([3, 1, 0]) == pytest.approx(1.0)


def test_the_group_measure_worked_out_by_hand() -> None:
    # Three groups: x is said by 0, 1 and 3, y by 2, z by 3. Best: 3 says two of them, then 2 the third.
    measure = AlphaNdcg(
        {"x": frozenset({0, 1, 3}), "y": frozenset({2}), "z": frozenset({3})}, 3, alpha=FIRST_ALONE
    )  # fmt: skip
    ideal = 2.0 + SECOND
    assert measure.of([3, 2, 0]) == pytest.approx(1.0)
    assert measure.of([0, 1, 2]) == pytest.approx((1.0 + 0.5) / ideal)  # 1 says what 0 said
    assert measure.of([0, 3, 2]) == pytest.approx((1.0 + SECOND + 0.5) / ideal)
    assert measure.of([4, 5, 6]) == 0.0


def test_nothing_found_is_zero_and_the_page_ends_at_top_k() -> None:
    measure = AlphaNdcg({"x": frozenset({0})}, 2)
    assert measure.of([]) == 0.0
    assert measure.of([1, 2]) == 0.0
    assert measure.of([1, 2, 0]) == 0.0
    assert measure.of([1, 0]) == pytest.approx(SECOND)


@given(TOPICS, st.integers(1, 3))
def test_gains_are_the_definition_s(subtopics: dict[str, frozenset[int]], top_k: int) -> None:
    """Invariant: two lists stand to each other as their gains by the definition do; the greedy ideal is near the best."""
    measure = AlphaNdcg(subtopics, top_k)
    lists = list(permutations(range(5), top_k))
    gains = [gain(rows, subtopics) for rows in lists]
    ratios = [measure.of(rows) / gained for rows, gained in zip(lists, gains, strict=True) if gained]
    assert max(ratios) == pytest.approx(min(ratios))
    assert 1.0 - 1e-9 <= max(measure.of(rows) for rows in lists) <= 1.0 / (1.0 - 1.0 / math.e)


@given(TOPICS)
def test_the_order_of_subtopics_and_rows_does_not_matter(subtopics: dict[str, frozenset[int]]) -> None:
    """Invariant: renumbering the rows changes nothing."""
    moved = {name: frozenset(4 - row for row in rows) for name, rows in subtopics.items()}
    assert AlphaNdcg(subtopics, 3).of([0, 1, 2]) == pytest.approx(AlphaNdcg(moved, 3).of([4, 3, 2]))


# A whole set: every contender on every query, judged beside the plain answer.


def outcome(labelled: LabelledSet, *given: str, every: int = 1) -> tuple[SetOutcome, int]:
    done: list[int] = []
    evaluation = evaluated(
        labelled, contenders(given=given), top_k=3, every=every, clock=time.perf_counter, advance=done.append
    )
    return evaluation, sum(done)


def test_a_set_worked_out_by_hand(tmp_path: Path) -> None:
    evaluation, done = outcome(read_set(labelled_folder(tmp_path / "tiny")), f"own={BY_VECTORS}")
    assert (evaluation.name, evaluation.queries, done) == ("tiny", 2, 2)
    assert list(evaluation.by_contender) == [PLAIN, "own"]
    plain, contender = evaluation.by_contender[PLAIN], evaluation.by_contender["own"]
    assert plain.redundancy.tolist() == [pytest.approx(1 / 3), 0.0]
    assert plain.recall.tolist() == [0.5, 1.0]
    assert contender.redundancy.tolist() == [0.0, 0.0]
    assert contender.recall.tolist() == [1.0, 1.0]
    assert contender.retained.tolist() == [1.0, 1.0]
    assert contender.returned.tolist() == [3.0, 3.0]


def test_every_so_many_queries_are_asked(tmp_path: Path) -> None:
    labelled = read_set(
        labelled_folder(tmp_path / "tiny", queries=QUERIES * 3, query_vectors=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] * 3)
    )
    whole, _ = outcome(labelled, f"own={BY_VECTORS}")
    some, done = outcome(labelled, f"own={BY_VECTORS}", every=4)
    assert (some.queries, done) == (2, 2)
    assert some.by_contender["own"].recall.tolist() == whole.by_contender["own"].recall[[0, 4]].tolist()


def test_only_contenders_take_time(tmp_path: Path) -> None:
    evaluation, _ = outcome(read_set(labelled_folder(tmp_path / "tiny")), f"own={BY_VECTORS}")
    assert evaluation.by_contender[PLAIN].added_seconds.tolist() == [0.0, 0.0]
    assert (evaluation.by_contender["own"].added_seconds > 0.0).all()


def test_the_same_data_gives_the_same_answers_twice(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    one, other = (outcome(labelled, "a=classical", "b={}")[0] for _ in range(2))
    for name in ("a", "b"):
        assert one.by_contender[name].alpha_ndcg.tolist() == other.by_contender[name].alpha_ndcg.tolist()


def test_tenants_are_read_from_the_set_s_own_payload(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny", corpus=CORPUS))
    apart = BY_VECTORS.replace("{linkage", "{tenant_keys: [source], linkage")
    evaluation, _ = outcome(labelled, f"own={BY_VECTORS}", f"apart={apart}")
    assert evaluation.by_contender["own"].redundancy[0] == 0.0
    assert evaluation.by_contender["apart"].redundancy[0] == pytest.approx(1 / 3)  # the copy is from another source


# Redundancy, subtopics met and nDCG, against hand-worked lists and plain definitions.

ATOMS = st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), max_size=8)


@pytest.mark.parametrize(
    ("atoms", "expected"),
    [
        ([], 0),
        ([["x"]], 0),
        ([["x"], ["x"]], 1),
        ([["x"], ["x"], ["x"]], 2),
        ([["x"], ["x", "y"]], 0),  # half of it is new
        ([["x", "y"], ["x", "y", "z"]], 1),  # a third of it is
        ([["x"], [], []], 0),  # nothing is known of what they say
        ([["x"], ["y"], ["x", "y"]], 1),
        ([["x"], ["x", "x", "y"]], 1),  # an atom said twice counts twice
    ],
)
def test_an_item_is_redundant_when_less_than_half_of_it_is_new(atoms: list[list[str]], expected: int) -> None:
    assert redundant(atoms) == expected


@given(ATOMS)
def test_a_list_after_itself_is_redundant_but_for_what_says_nothing(atoms: list[list[str]]) -> None:
    """Invariant: every item of a repeated list that has atoms is redundant the second time, and no other is added."""
    assert redundant(atoms + atoms) == redundant(atoms) + sum(bool(atom) for atom in atoms)


@given(ATOMS)
def test_the_first_item_that_says_something_is_never_redundant(atoms: list[list[str]]) -> None:
    """Invariant: redundant items are fewer than items with atoms, where there are any."""
    speaking = sum(bool(atom) for atom in atoms)
    assert redundant(atoms) <= max(speaking - 1, 0)


def test_subtopics_are_met_by_any_of_their_items() -> None:
    subtopics = {"x": frozenset({1, 2}), "y": frozenset({3}), "never": frozenset[int]()}
    assert met([5, 2], subtopics) == {"x"}
    assert met([3, 1], subtopics) == {"x", "y"}
    assert met([], subtopics) == frozenset()


@pytest.mark.parametrize(
    ("rows", "relevant", "top_k", "expected"),
    [
        ([7], {7}, 3, 1.0),
        ([0, 7], {7}, 3, 1.0 / math.log2(3)),
        ([0, 1, 2], {7}, 3, 0.0),
        ([7, 0, 8], {7, 8, 9}, 3, 1.5 / (1.5 + 1.0 / math.log2(3))),
        ([7, 8], {7, 8, 9}, 2, 1.0),  # more relevant items than places
        ([0, 1, 7], {7}, 2, 0.0),  # beyond the page
        ([], {7}, 3, 0.0),
    ],
)
def test_ndcg_by_hand(rows: list[int], relevant: set[int], top_k: int, expected: float) -> None:
    assert ndcg(rows, frozenset(relevant), top_k) == pytest.approx(expected)


@given(st.permutations(range(8)), st.sets(st.integers(0, 7), min_size=1), st.integers(1, 8))
def test_ndcg_is_one_exactly_when_relevant_items_come_first(order: list[int], relevant: set[int], top_k: int) -> None:
    """Invariant: within 0 and 1, and 1 for relevant items first."""
    best = sorted(order, key=lambda row: row not in relevant)
    assert 0.0 <= ndcg(order, frozenset(relevant), top_k) <= ndcg(best, frozenset(relevant), top_k) + 1e-12
    assert ndcg(best, frozenset(relevant), top_k) == pytest.approx(1.0)
