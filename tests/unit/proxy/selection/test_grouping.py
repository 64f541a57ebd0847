"""The pool as clusters: when texts are read, what short texts may, at which scale the cut is read, and why two share a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.policies import DEFAULT, SCALED_MMR, TEXT_RULES
from support.pools import angles, pool
from support.texts import as_texts
from vecsieve.proxy.selection import grouping
from vecsieve.proxy.selection.grouping import group, linked
from vecsieve.proxy.selection.policy import When
from vecsieve.proxy.selection.values import Candidates, Link, Metadata, finished

LONG = " ".join(f"word{i}" for i in range(60))
OTHER = " ".join(f"other{i}" for i in range(60))


def with_texts(candidates: Candidates, *texts: str | None) -> Candidates:
    return replace(candidates, metadata=Metadata(texts=as_texts(texts)))


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> object:
        raise AssertionError("a text was read")

    monkeypatch.setattr(grouping, "read", read)


@pytest.mark.usefixtures("unread")
def test_no_text_is_read_where_the_first_results_are_too_far_apart_to_be_copies() -> None:
    spread = with_texts(pool(angles(0, 90, 180, 91)), LONG, LONG, LONG, LONG)
    rules = replace(TEXT_RULES, reach=0.5)
    assert finished(group(spread, replace(DEFAULT, text=rules), 2, None)).evidence is None
    with pytest.raises(AssertionError, match="a text was read"):
        finished(group(spread, replace(DEFAULT, text=rules), 4, None))
    with pytest.raises(AssertionError, match="a text was read"):
        finished(group(spread, replace(DEFAULT, text=rules, when=When.ALWAYS), 2, None))


def test_what_stands_behind_a_page_without_copies_is_not_looked_at() -> None:
    near = pool(angles(0, 20, 40, 60, 61))
    texts = (LONG, OTHER, f"{OTHER[:200]} {LONG[:200]}", "the last", "the last")
    assert finished(group(with_texts(near, *texts), DEFAULT, 3, None)).distinct == 5
    assert finished(group(with_texts(near, *texts), DEFAULT, 5, None)).labels.tolist() == [0, 1, 2, 3, 3]
    always = replace(DEFAULT, when=When.ALWAYS)
    assert finished(group(with_texts(near, *texts), always, 3, None)).labels.tolist() == [0, 1, 2, 3, 3]


@pytest.mark.usefixtures("unread")
def test_no_text_is_read_where_the_policy_has_no_rule_for_it_or_nobody_has_one() -> None:
    near = pool(angles(0, 0, 90))
    assert finished(group(with_texts(near, LONG, LONG, LONG), replace(DEFAULT, text=None), 2, None)).evidence is None
    assert finished(group(near, DEFAULT, 2, None)).evidence is None


def test_candidates_without_vectors_are_told_apart_by_their_texts() -> None:
    rows = np.full((3, 2), np.nan, np.float32)
    found = finished(group(with_texts(pool(rows), LONG, OTHER, LONG), DEFAULT, 3, None))
    assert found.labels.tolist() == [0, 1, 0]
    assert found.distance[0, 1] > 0.9


def test_the_cut_is_read_at_the_scale_that_is_given() -> None:
    candidates = pool(angles(0, 20, 90, 180))  # 0.06
    assert finished(group(candidates, SCALED_MMR, 2, None)).distinct == 3
    assert finished(group(candidates, SCALED_MMR, 2, 0.1)).distinct == 4
    found = finished(group(candidates, SCALED_MMR, 2, None))
    assert found.cuts[0] == pytest.approx(0.2 * found.measured.typical * found.measured.shown_unit)


def test_why_two_share_a_cluster_is_said_by_texts_first_and_by_distance_where_they_are_silent() -> None:
    links = np.array([Link.NONE, Link.CONTAINMENT, Link.NONE, Link.NONE], np.int8)
    shares = np.array([np.nan, 0.9, np.nan, np.nan], np.float32)
    distance = np.array([0.0, 0.3, 0.2, np.inf], np.float32)
    found, values = linked(links, shares, distance)
    assert found.tolist() == [Link.DISTANCE, Link.CONTAINMENT, Link.DISTANCE, Link.DISTANCE]
    assert values[:3].tolist() == pytest.approx([1.0, 0.9, 0.8])
    assert np.isnan(values[3])
