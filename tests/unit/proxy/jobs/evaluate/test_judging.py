"""One query's answers judged: every figure of the hand-worked set."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from support.labelled_folders import COPY, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate.judging import Judge, Judged
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import Found

SECOND = 1.0 / math.log2(3)


def found(*rows: int) -> Found:
    return Found(rows=rows, choosing_seconds=0.001, added_seconds=0.002)


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
