"""One query's answers judged: every figure of the hand-worked set."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from support.jobs.labelled_folders import COPY, CORPUS, QUERIES, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate.judging import Judge, Judged
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, read_set
from vecsieve.proxy.jobs.evaluate.searching import TrialOutcome
from vecsieve.proxy.jobs.evaluate.wording import Wordings

SECOND = 1.0 / math.log2(3)


def found(*rows: int, dropped: tuple[int, ...] = ()) -> TrialOutcome:
    return TrialOutcome(rows=rows, added_seconds=0.002, dropped=dropped)


def judge(labelled: LabelledSet, query: int, plain: TrialOutcome) -> Judge:
    return Judge(labelled, Wordings([item.text for item in labelled.items]), query, plain, top_k=3)


def judged(folder: Path, query: int, plain: TrialOutcome, answer: TrialOutcome) -> Judged:
    return judge(read_set(labelled_folder(folder / "tiny")), query, plain).judged(answer)


def test_the_plain_answer_by_hand(tmp_path: Path) -> None:
    plain = judged(tmp_path, 0, found(A, COPY, B), found(A, COPY, B))
    assert (plain.returned, plain.redundancy, plain.collapsed) == pytest.approx((3.0, 1 / 3, 0.0))
    assert (plain.documents, plain.recall) == pytest.approx((2 / 3, 0.5))
    assert plain.ndcg == pytest.approx((1.0 + SECOND) / (1.5 + SECOND))
    assert plain.alpha_ndcg == pytest.approx((1.0 + 0.5 * SECOND) / (2.125 + 0.5 * SECOND))
    assert (plain.hit, plain.retained, plain.kept, plain.lost) == (1.0, 1.0, 1, 0)
    # The ideal list begins with C, which meets both needs.
    assert (plain.perfect, plain.group_ndcg) == pytest.approx((0.0, 0.5))
    assert plain.added_seconds == 0.002


def test_a_distinct_answer_by_hand(tmp_path: Path) -> None:
    own = judged(tmp_path, 0, found(A, COPY, B), found(A, B, C))
    assert (own.redundancy, own.collapsed, own.documents, own.recall) == pytest.approx((0.0, 1.0, 2 / 3, 1.0))
    assert own.ndcg == pytest.approx(1.5 / (1.5 + SECOND))
    assert own.alpha_ndcg == pytest.approx(1.75 / (2.125 + 0.5 * SECOND))
    assert (own.perfect, own.group_ndcg) == pytest.approx((1.0, 0.75))
    assert (own.hit, own.retained, own.kept, own.lost) == (1.0, 1.0, 1, 0)


def test_an_answer_that_was_lost_is_counted(tmp_path: Path) -> None:
    own = judged(tmp_path, 0, found(A, COPY, B), found(B, D))
    assert (own.returned, own.hit, own.retained, own.kept, own.lost, own.recall) == (2, 0.0, 0.0, 0, 1, 0.0)


def test_an_answer_that_was_never_there_cannot_be_retained(tmp_path: Path) -> None:
    own = judged(tmp_path, 1, found(A, B), found(D, B))
    assert (own.hit, own.kept, own.lost) == (1.0, 0, 0)
    assert math.isnan(own.retained)
    assert math.isnan(own.collapsed)


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
    own = judged(tmp_path, 0, found(A, COPY, B), found(*answer, dropped=dropped))
    assert (own.dropped, own.wrong_label) == on_page
    assert (own.walked, own.walked_wrong_label) == walked


def test_an_item_without_labels_is_never_dropped_wrongly_by_label(tmp_path: Path) -> None:
    corpus = [*CORPUS[:D], {**CORPUS[D], "atoms": []}]
    queries: list[dict[str, object]] = [QUERIES[0], {"qid": "q1", "text": "?", "subtopics": {"y": ["b"]}}]
    labelled = read_set(labelled_folder(tmp_path / "tiny", corpus=corpus, queries=queries))
    own = judge(labelled, 0, found(A, D)).judged(found(A, dropped=(D,)))
    assert (own.dropped, own.wrong_label, own.wrong_text) == (1, 0, 1)


def test_an_item_is_dropped_wrongly_by_text_if_the_answer_lacks_its_words(tmp_path: Path) -> None:
    """`a2` says "Alpha"; `a` says "alpha", and `c`, which has the same label, "gamma"."""
    own = judged(tmp_path, 0, found(A, COPY, B), found(A, B, dropped=(COPY,)))
    assert (own.wrong_label, own.wrong_text, own.walked_wrong_text) == (0, 0, 0)
    own = judged(tmp_path / "other", 0, found(A, COPY, B), found(C, B, dropped=(COPY,)))
    assert (own.wrong_label, own.wrong_text, own.walked_wrong_text) == (0, 1, 1)


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
    own = judged(tmp_path, 0, found(A), found(*rows))
    assert own.redundancy * max(len(rows), 1) == pytest.approx(old)
    assert own.strict == strict
