"""The pool as clusters: texts decide pairs of texts, vectors the other pairs, and why two share a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.oracles import median
from support.selection.policies import DEFAULT, SCALED_MMR, VECTORS
from support.selection.pools import angles, damaged, pool
from support.selection.texts import as_texts
from vecsieve.proxy.selection import grouping
from vecsieve.proxy.selection.geometry import measure, median_distance
from vecsieve.proxy.selection.grouping import Grouped, alone, cuts, group, numbered
from vecsieve.proxy.selection.policy import Certain, Fixed, Policy, Relative, Strategy, Tier
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, Link, Metadata, finished

LONG = " ".join(f"word{i}" for i in range(60))
OTHER = " ".join(f"other{i}" for i in range(60))
NEAR = replace(DEFAULT, threshold=Fixed(value=0.1))


def with_texts(candidates: Candidates, *texts: str | None, **more: object) -> Candidates:
    return replace(candidates, metadata=Metadata(texts=as_texts(texts), **more))  # type: ignore[arg-type]  # - members of Metadata, by name


def grouped(candidates: Candidates, policy: Policy) -> Grouped:
    return finished(group(candidates, policy, None))


def test_equal_texts_merge_whatever_their_vectors() -> None:
    groups = grouped(with_texts(pool(angles(0, 90, 180)), LONG, OTHER, LONG), DEFAULT)
    assert groups.labels.tolist() == [0, 1, 0]
    assert groups.links.tolist() == [Link.NONE, Link.NONE, Link.EQUAL]
    assert groups.vectors is None
    assert (groups.median, np.isnan(groups.cut_at(3))) == (0.0, True)


@pytest.mark.parametrize("policy", [DEFAULT, VECTORS, NEAR])
def test_different_texts_never_merge_whatever_their_vectors(policy: Policy) -> None:
    assert grouped(with_texts(pool(angles(0, 0, 0)), LONG, OTHER, "else"), policy).labels.tolist() == [0, 1, 2]


def test_a_candidate_without_vector_is_judged_by_its_text() -> None:
    rows = np.full((3, 2), np.nan, np.float32)
    assert grouped(with_texts(pool(rows), LONG, OTHER, LONG), DEFAULT).labels.tolist() == [0, 1, 0]


def test_vectors_decide_pairs_of_which_one_has_no_text() -> None:
    near = pool(angles(0, 5, 90, 95))
    assert grouped(with_texts(near, LONG, None, None, OTHER), NEAR).labels.tolist() == [0, 0, 1, 1]
    assert grouped(with_texts(near, LONG, OTHER, None, None), NEAR).labels.tolist() == [0, 1, 2, 2]
    assert grouped(with_texts(near, LONG, None, None, OTHER), DEFAULT).labels.tolist() == [0, 1, 2, 3]


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of each candidate of a pool."""

    of: Sequence[set[str]]

    def differ(self, rows: Indices, others: Indices) -> npt.NDArray[np.bool_]:
        return np.array([not self.of[row] <= self.of[other] for row, other in zip(rows, others, strict=True)])

    def unsaid(self, row: int, others: Sequence[int], text: str) -> tuple[str, int] | None:
        lacks = [(min(lacking), other) for other in others if (lacking := self.of[row] - self.of[other] - {text})]
        return lacks[0] if lacks else None


def test_nearly_equal_vectors_merge_only_if_the_lower_ranked_says_nothing_more() -> None:
    statements = Statements(({"up"}, {"down"}, {"up"}, set(), {"down", "late"}))
    same = replace(pool(angles(0, 0, 0, 0, 0)), statements=statements)
    assert grouped(same, DEFAULT).labels.tolist() == [0, 1, 0, 0, 2]
    longest = replace(DEFAULT, representative=Strategy.LONGEST)
    assert grouped(same, longest).labels.tolist() == [0, 1, 0, 2, 3]
    for by_vectors in (NEAR, VECTORS):
        assert grouped(same, by_vectors).labels.tolist() == [0] * 5, (
            "who names a distance, or reads no texts, is served by vectors"
        )


def test_without_a_threshold_only_nearly_equal_vectors_merge() -> None:
    rows = np.random.default_rng(1).standard_normal((6, 64)).astype(np.float32)
    rows[4], rows[5] = rows[1] * np.float32(1.0001), rows[2] + np.float32(0.1)
    assert grouped(pool(rows), DEFAULT).labels.tolist() == [0, 1, 2, 3, 1, 4]


def test_a_text_that_is_too_long_to_read_stays_whatever_its_vector() -> None:
    groups = grouped(with_texts(pool(angles(0, 0, 0)), "x " * 60_000, "x " * 60_001, "x"), NEAR)
    assert groups.labels.tolist() == [0, 1, 2]


def test_whoever_is_held_by_one_that_left_for_a_vector_shares_its_cluster() -> None:
    """A candidate without text stands for one with a text, and so for the copies of that text."""
    groups = grouped(with_texts(pool(angles(0, 0, 90)), None, LONG, LONG), NEAR)
    assert groups.heads.tolist() == [0, 0, 0]
    assert groups.links.tolist() == [Link.NONE, Link.DISTANCE, Link.EQUAL]


def test_tenants_share_neither_texts_nor_vectors() -> None:
    tenants = np.array([1, 2, 1, 2, 1], np.int64)
    candidates = with_texts(pool(angles(0, 0, 0, 90, 90), tenants=tenants), LONG, LONG, LONG, None, None)
    assert grouped(candidates, NEAR).labels.tolist() == [0, 1, 0, 2, 3]


def test_a_source_that_is_kept_leaves_nothing_and_may_hold_others() -> None:
    candidates = with_texts(pool(angles(0, 10, 20)), LONG, LONG, LONG, sources=("a", "b", "c"))
    assert grouped(candidates, replace(DEFAULT, keep_sources=("b",))).links.tolist() == [0, 0, Link.EQUAL]
    without = replace(candidates, metadata=Metadata(sources=("a", "b", "c")))
    assert grouped(without, replace(NEAR, keep_sources=("b",))).labels.tolist() == [0, 1, 0]


def test_a_policy_without_texts_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def passages(*_: object, **__: object) -> object:
        raise AssertionError("a text was read")

    monkeypatch.setattr("vecsieve.proxy.selection.reading.text.read", passages)
    texts = ("not read before, one", "not read before, two", "not read before, three")
    assert grouped(with_texts(pool(angles(0, 5, 90)), *texts), replace(NEAR, texts=None)).labels.tolist() == [0, 0, 1]


def test_vectors_are_not_compared_where_all_have_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object, **__: object) -> object:
        raise AssertionError("vectors were compared")

    monkeypatch.setattr(grouping, "by_vectors_of", measured)
    grouped(with_texts(pool(angles(0, 5, 90)), "one", "two", "three"), VECTORS)
    with pytest.raises(AssertionError, match="vectors were compared"):
        grouped(with_texts(pool(angles(0, 5, 90)), "one", None, "three"), VECTORS)


def test_a_text_in_two_results_names_both() -> None:
    first = "The red engine of the old boat was built in the town of Leith by a family of smiths. "
    second = "It was sold twice before it came to the yard where it stands now, under a roof of tin. "
    third = "Nobody has started it since the autumn of the great storm, when the quay was lost to the sea. "
    candidates = with_texts(
        pool(np.eye(3)), first * 1 + second + third, f"{second}{third}Its {LONG}", f"{first}{second}{third}Its {LONG}"
    )
    groups = grouped(candidates, DEFAULT)
    assert groups.links.tolist() == [0, 0, Link.JOINED]
    assert {int(groups.heads[2]), int(groups.walked.also[2])} == {0, 1}


def test_members_by_text_are_no_distance_apart_for_a_diversifier() -> None:
    groups = grouped(with_texts(pool(angles(0, 90, 180)), LONG, OTHER, LONG), DEFAULT)
    assert groups.apart[0, 2] == groups.apart[2, 0] == 0.0
    assert groups.apart[0, 1] > 0.5


def test_a_pool_taken_apart_has_nothing_linked() -> None:
    groups = alone(grouped(with_texts(pool(angles(0, 90, 180)), LONG, OTHER, LONG), DEFAULT))
    assert groups.labels.tolist() == [0, 1, 2]
    assert not groups.links.any()
    assert np.isnan(groups.similarities).all()
    assert not groups.proven.any()


def test_the_cut_is_read_at_the_scale_that_is_given() -> None:
    candidates = pool(angles(0, 20, 90, 180))  # 0.06
    assert finished(group(candidates, SCALED_MMR, None)).distinct == 3
    assert finished(group(candidates, SCALED_MMR, 0.1)).distinct == 4
    groups = finished(group(candidates, SCALED_MMR, None))
    assert groups.cut_at(2) == pytest.approx(0.2 * groups.measured.typical * groups.measured.display_unit)


def test_the_similarity_to_the_head_is_shown_beside_what_was_needed() -> None:
    groups = grouped(pool(angles(0, 20, 90)), NEAR)
    assert groups.similarities[1] == pytest.approx(np.cos(np.radians(20)), abs=1e-5)
    assert groups.cuts[1] == pytest.approx(0.9)
    assert np.isnan(groups.similarities[[0, 2]]).all()


@given(st.lists(st.integers(0, 5), max_size=12))
def test_clusters_are_numbered_in_order_of_their_best_rank(raw: list[int]) -> None:
    """Labels are 0, 1, 2, … by first appearance, and equal exactly where the heads are."""
    heads = np.array([raw.index(value) for value in raw], np.intp)
    labels, distinct = numbered(heads)
    firsts = list(dict.fromkeys(heads.tolist()))
    assert labels.tolist() == [firsts.index(head) for head in heads.tolist()]
    assert distinct == len(firsts)


@pytest.mark.parametrize("tier", [None, *Tier])
def test_an_empty_pool_has_no_clusters(tier: Tier | None) -> None:
    assert grouped(pool(np.empty((0, 4))), replace(DEFAULT, texts=tier)).distinct == 0


# The cut: a number, or a share of the pool's own scale.

RELATIVE = Relative(factor=0.2, minimum=0.02, maximum=0.3)


@given(damaged(largest=70))
def test_the_median_is_the_sorted_middle_of_the_first_fifty_usable(rows: FloatMatrix) -> None:
    # Invariant: equal to sorting all pairs of the first 50 usable candidates.
    geometry = measure(rows, magnitude=False)
    expected = median(geometry.distance.astype(np.float64).tolist(), geometry.usable.tolist())
    assert median_distance(geometry) == pytest.approx(expected, abs=1e-7)


def test_candidates_behind_the_fiftieth_do_not_change_the_scale() -> None:
    random = np.random.default_rng(1)
    rows = random.standard_normal((50, 8)).astype(np.float32)
    longer = np.concatenate((rows, np.ones((50, 8), dtype=np.float32)))
    assert median_distance(measure(longer, magnitude=False)) == pytest.approx(
        median_distance(measure(rows, magnitude=False)), abs=1e-6
    )


def test_unusable_candidates_do_not_count_towards_the_fifty() -> None:
    rows = angles(0, 0, 0, 90, 90)
    rows[1:3] = np.nan
    assert median_distance(measure(rows, magnitude=False)) == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [np.empty((0, 3)), np.ones((1, 3)), np.zeros((5, 3)), np.ones((5, 0))])
def test_without_a_pair_the_median_is_zero_and_the_cut_the_minimum(rows: FloatMatrix) -> None:
    scale = median_distance(measure(rows.astype(np.float32), magnitude=False))
    assert scale == 0.0
    assert cuts(RELATIVE, scale, 1)[0] == 0.02


@pytest.mark.parametrize(("scale", "cut"), [(0.05, 0.02), (0.5, 0.1), (1.9, 0.3)])
def test_the_relative_cut_is_clipped(scale: float, cut: float) -> None:
    assert cuts(RELATIVE, scale, 1)[0] == pytest.approx(cut)


@pytest.mark.parametrize("value", [0.0, 0.15, 2.0])
def test_a_fixed_cut_does_not_look_at_the_pool(value: float) -> None:
    assert cuts(Fixed(value=value), 0.7, 1)[0] == value


def test_no_cut_is_wider_than_chance_allows() -> None:
    assert cuts(RELATIVE, 1.0, 1, largest=0.12) == [0.12]
    assert cuts(Fixed(value=0.4), 1.0, 1, largest=0.12) == [0.4]


def test_bounds_in_cosine_distances_are_read_in_the_unit_of_the_cut() -> None:
    assert cuts(RELATIVE, 1.0, 1, unit=0.05) == pytest.approx([0.4])
    assert cuts(Fixed(value=0.1), 1.0, 1, unit=0.5) == [0.2]


def test_other_cuts_are_the_same_everywhere() -> None:
    assert cuts(Fixed(value=0.1), 0.9, 3) == [0.1, 0.1, 0.1]
    assert cuts(RELATIVE, 0.5, 3) == pytest.approx([0.1] * 3)


def test_the_calibrated_rule_allows_more_doubt_down_the_page_whatever_the_pool() -> None:
    rule = Certain(first=0.85, last=0.4)
    thresholds = cuts(rule, 1.0, 10)
    assert thresholds[1:] == pytest.approx([0.15, 0.2784, 0.3586, 0.427, 0.4888, 0.5461, 0.6, 0.6, 0.6], abs=1e-4)
    assert cuts(rule, 0.2, 10, largest=0.1, unit=0.05) == thresholds
    assert cuts(Certain(first=1.0, last=1.0), 1.0, 4) == [0.0] * 4
