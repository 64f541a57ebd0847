"""One query's answers judged: every figure of the hand-worked set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.labelled_folders import COPY, CORPUS, QUERIES, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate.judging import Judge, Judged
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import Evidence, Found

SECOND = 1.0 / math.log2(3)


def found(*rows: int, evidence: Mapping[int, Evidence] | None = None) -> Found:
    return Found(rows=rows, choosing_seconds=0.001, added_seconds=0.002, evidence=evidence or {})


def judged(folder: Path, query: int, plain: Found, answer: Found) -> Judged:
    return Judge(read_set(labelled_folder(folder / "tiny")), query, plain, top_k=3).judged(answer)


def test_the_plain_answer_by_hand(tmp_path: Path) -> None:
    plain = judged(tmp_path, 0, found(A, COPY, B), found(A, COPY, B))
    assert (plain.returned, plain.redundancy, plain.collapsed) == pytest.approx((3.0, 1 / 3, 0.0))
    assert (plain.documents, plain.recall) == pytest.approx((2 / 3, 0.5))
    assert plain.ndcg == pytest.approx((1.0 + SECOND) / (1.5 + SECOND))
    assert plain.alpha_ndcg == pytest.approx((1.0 + 0.5 * SECOND) / (2.125 + 0.5 * SECOND))
    assert (plain.hit, plain.retained, plain.kept, plain.lost) == (1.0, 1.0, 1, 0)
    assert (plain.choosing_seconds, plain.added_seconds) == (0.001, 0.002)


def test_a_distinct_answer_by_hand(tmp_path: Path) -> None:
    own = judged(tmp_path, 0, found(A, COPY, B), found(A, B, C))
    assert (own.redundancy, own.collapsed, own.documents, own.recall) == pytest.approx((0.0, 1.0, 2 / 3, 1.0))
    assert own.ndcg == pytest.approx(1.5 / (1.5 + SECOND))
    assert own.alpha_ndcg == pytest.approx(1.75 / (2.125 + 0.5 * SECOND))
    assert (own.hit, own.retained, own.kept, own.lost) == (1.0, 1.0, 1, 0)


def test_an_answer_that_was_lost_is_counted(tmp_path: Path) -> None:
    own = judged(tmp_path, 0, found(A, COPY, B), found(B, D))
    assert (own.returned, own.hit, own.retained, own.kept, own.lost, own.recall) == (2, 0.0, 0.0, 0, 1, 0.0)


def test_an_answer_that_was_never_there_cannot_be_retained(tmp_path: Path) -> None:
    own = judged(tmp_path, 1, found(A, B), found(D, B))
    assert (own.hit, own.kept, own.lost) == (1.0, 0, 0)
    assert math.isnan(own.retained)
    assert math.isnan(own.collapsed)


def test_an_empty_answer_is_judged_without_a_division_by_zero(tmp_path: Path) -> None:
    own = judged(tmp_path, 0, found(A), found())
    assert (own.returned, own.redundancy, own.documents, own.recall, own.retained) == (0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("plain", "answer", "dropped", "wrong"),
    [
        ((A, COPY, B), (A, COPY, B), 0, 0),
        ((A, COPY, B), (A, B, C), 1, 0),  # the copy's one label stands with `a`
        ((A, COPY, B), (A, COPY, C), 1, 1),  # nothing else states what `b` does
        ((A, B, C), (A, B, D), 1, 0),  # one of the two labels of `c` stands: half is enough
        ((B, C), (B, D), 1, 1),  # none of the two stands
        ((A, COPY), (), 2, 2),  # they repeat each other, but nothing stands
        ((A, COPY), (C,), 2, 0),  # what stands may be new in the answer
        ((A, B), (B, A), 0, 0),  # another order drops nothing
    ],
)
def test_an_item_is_dropped_wrongly_if_fewer_than_half_of_its_labels_stand(
    tmp_path: Path, plain: tuple[int, ...], answer: tuple[int, ...], dropped: int, wrong: int
) -> None:
    own = judged(tmp_path, 0, found(*plain), found(*answer))
    assert (own.dropped, own.wrong) == (dropped, wrong)


def test_an_item_without_labels_is_never_dropped_wrongly(tmp_path: Path) -> None:
    corpus = [*CORPUS[:D], {**CORPUS[D], "atoms": []}]
    queries: list[dict[str, object]] = [QUERIES[0], {"qid": "q1", "text": "?", "subtopics": {"y": ["b"]}}]
    labelled = read_set(labelled_folder(tmp_path / "tiny", corpus=corpus, queries=queries))
    own = Judge(labelled, 0, found(A, D), top_k=3).judged(found(A))
    assert (own.dropped, own.wrong) == (1, 0)


@pytest.mark.parametrize(
    ("evidence", "same_text", "contained", "near"),
    [
        ({}, (0, 0), (0, 0), (0, 0)),  # gone for another reason, such as a diversifier's
        ({B: Evidence.NEAR, COPY: Evidence.NEAR}, (0, 0), (0, 0), (2, 1)),
        ({B: Evidence.SAME_TEXT, COPY: Evidence.NEAR}, (1, 1), (0, 0), (1, 0)),
        ({B: Evidence.NEAR, COPY: Evidence.CONTAINED}, (0, 0), (1, 0), (1, 1)),
        ({B: Evidence.CONTAINED, COPY: Evidence.SAME_TEXT}, (1, 0), (1, 1), (0, 0)),
        ({A: Evidence.SAME_TEXT, D: Evidence.SAME_TEXT}, (0, 0), (0, 0), (0, 0)),  # one stands, one was not on the page
    ],
)
def test_drops_are_counted_by_their_evidence(
    tmp_path: Path,
    evidence: Mapping[int, Evidence],
    same_text: tuple[int, int],
    contained: tuple[int, int],
    near: tuple[int, int],
) -> None:
    own = judged(tmp_path, 0, found(A, COPY, B), found(A, C, evidence=evidence))
    assert (own.dropped, own.wrong) == (2, 1)
    assert (own.same_text, own.same_text_wrong) == same_text
    assert (own.contained, own.contained_wrong) == contained
    assert (own.near, own.near_wrong) == near
