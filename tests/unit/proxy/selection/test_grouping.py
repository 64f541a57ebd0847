"""The pool as clusters: when texts are read, what short texts may, at which scale the cut is read, and why two share a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.policies import DEFAULT, SCALED_MMR, TEXT_RULES
from support.pools import angles, pool
from vecsieve.proxy.selection import grouping
from vecsieve.proxy.selection.grouping import group, linked
from vecsieve.proxy.selection.policy import Fixed, Growing, When
from vecsieve.proxy.selection.values import Candidates, Link, Metadata, finished

LONG = " ".join(f"word{i}" for i in range(60))
OTHER = " ".join(f"other{i}" for i in range(60))


def with_texts(candidates: Candidates, *texts: str | None) -> Candidates:
    return replace(candidates, metadata=Metadata(texts=texts))


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


@pytest.mark.usefixtures("unread")
def test_no_text_is_read_where_the_policy_has_no_rule_for_it_or_nobody_has_one() -> None:
    near = pool(angles(0, 0, 90))
    assert finished(group(with_texts(near, LONG, LONG, LONG), replace(DEFAULT, text=None), 2, None)).evidence is None
    assert finished(group(near, DEFAULT, 2, None)).evidence is None


def test_candidates_without_vectors_are_told_apart_by_their_texts() -> None:
    rows = np.full((3, 2), np.nan, np.float32)
    found = finished(group(with_texts(pool(rows), LONG, OTHER, LONG), DEFAULT, 2, None))
    assert found.labels.tolist() == [0, 1, 0]
    assert np.isinf(found.distance[0, 1])


def test_two_short_texts_may_lie_farther_apart() -> None:
    policy = replace(DEFAULT, threshold=Fixed(value=0.1), when=When.ALWAYS)
    apart = pool(angles(0, 28, 90))  # 0.117
    assert finished(group(with_texts(apart, "first come", "served early", "third one"), policy, 2, None)).distinct == 2
    assert finished(group(with_texts(apart, LONG, OTHER, "third one"), policy, 2, None)).distinct == 3
    assert finished(group(with_texts(apart, "first come", OTHER, "third one"), policy, 2, None)).distinct == 3


def test_the_cut_is_read_at_the_scale_that_is_given() -> None:
    candidates = pool(angles(0, 20, 90, 180))  # 0.06
    assert finished(group(candidates, SCALED_MMR, 2, None)).distinct == 3
    assert finished(group(candidates, SCALED_MMR, 2, 0.1)).distinct == 4
    assert finished(group(candidates, SCALED_MMR, 2, None)).threshold == pytest.approx(
        0.2 * finished(group(candidates, SCALED_MMR, 2, None)).measured.typical
    )


def test_where_ranking_and_vectors_disagree_the_cut_is_tempered() -> None:
    agreeing = pool(angles(0, 20, -40, 70, -110, 150))
    disagreeing = pool(angles(150, -110, 70, -40, 20, 0))
    threshold = DEFAULT.threshold
    assert isinstance(threshold, Growing)
    full = finished(group(agreeing, DEFAULT, 2, None))
    wary = finished(group(disagreeing, DEFAULT, 2, None))
    assert full.threshold == pytest.approx(threshold.factor * full.measured.typical)
    assert wary.threshold < full.threshold


def test_why_two_share_a_cluster_is_said_by_texts_first_and_by_distance_where_they_are_silent() -> None:
    links = np.array([Link.NONE, Link.CONTAINMENT, Link.NONE, Link.NONE], np.int8)
    shares = np.array([np.nan, 0.9, np.nan, np.nan], np.float32)
    distance = np.array([0.0, 0.3, 0.2, np.inf], np.float32)
    found, values = linked(links, shares, distance, np.array([True, False, False, False]))
    assert found.tolist() == [Link.NONE, Link.CONTAINMENT, Link.DISTANCE, Link.DISTANCE]
    assert values[1:3].tolist() == pytest.approx([0.9, 0.8])
    assert np.isnan(values[[0, 3]]).all()
