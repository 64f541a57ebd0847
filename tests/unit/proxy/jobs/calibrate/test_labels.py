"""Labelled pairs: both spellings, every wrong line named, distances read from the collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.memory_source import MemorySource, families, points
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.calibrate.labels import (
    FEWEST_MERGED,
    FEWEST_OF_A_KIND,
    MOST_PROBLEMS,
    CannotFitError,
    Label,
    Labelled,
    distances_of,
    fit,
    read_labels,
    wilson_lower_bound,
)
from vecsieve.proxy.jobs.source import Point


def labels_file(directory: Path, *lines: str) -> Path:
    path = directory / "pairs.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def pair(a: int | str, b: int | str, *, copy: bool = True) -> Label:
    return Label(copy=copy, pair=(a, b), distance=None)


def test_both_spellings_are_read_and_blank_lines_passed_over(tmp_path: Path) -> None:
    path = labels_file(
        tmp_path,
        '{"a": 1, "b": 2, "copy": true}',
        "",
        '{"a": "x", "b": 2, "copy": false}',
        '{"distance": 0.07, "copy": true}',
        '{"distance": 0, "copy": true}',
    )
    assert read_labels(path, collection="c") == (
        pair(1, 2),
        pair("x", 2, copy=False),
        Label(copy=True, pair=None, distance=0.07),
        Label(copy=True, pair=None, distance=0.0),
    )


def test_a_line_for_another_collection_is_checked_and_left_out(tmp_path: Path) -> None:
    own, other = (
        '{"collection": "c", "a": 1, "b": 2, "copy": true}',
        '{"collection": "d", "a": 1, "b": 3, "copy": true}',
    )
    assert read_labels(labels_file(tmp_path, own, other), collection="c") == (pair(1, 2),)
    with pytest.raises(SettingsError, match="line 1"):
        read_labels(labels_file(tmp_path, '{"collection": "d", "a": 1, "copy": true}'), collection="c")


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("{", "truncated"),
        ('{"a": 1, "b": 2}', "copy"),
        ('{"a": 1, "b": 2, "copy": 1}', "bool"),
        ('{"a": 1, "copy": true}', "neither two ids nor a distance"),
        ('{"copy": true}', "neither two ids nor a distance"),
        ('{"a": 1, "b": 2, "distance": 0.1, "copy": true}', "a distance and ids"),
        ('{"a": 1, "distance": 0.1, "copy": true}', "a distance and ids"),
        ('{"a": 1, "b": 1, "copy": true}', "the same point twice"),
        ('{"distance": 2.5, "copy": true}', "2.5"),
        ('{"distance": -0.1, "copy": true}', "-0.1"),
        ('{"a": 1, "b": 2, "copy": true, "note": "x"}', "note"),
        ("[1, 2, true]", "array"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_seen_and_wanted(tmp_path: Path, line: str, seen: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_labels(labels_file(tmp_path, '{"distance": 0.1, "copy": true}', line), collection="c")
    said = str(caught.value)
    assert "line 2: wanted" in said
    assert seen in said
    assert '"copy": true or false' in said


def test_every_wrong_line_is_told_up_to_twenty(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read_labels(labels_file(tmp_path, *["nonsense"] * 500), collection="c")
    assert len(str(caught.value).splitlines()) == MOST_PROBLEMS


def test_a_file_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="wanted a readable file of labelled pairs; saw no such file"):
        read_labels(tmp_path / "nothing.jsonl", collection="c")


@given(st.binary(max_size=200))
def test_any_bytes_are_labels_or_a_clear_refusal(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Reading arbitrary bytes gives labels or SettingsError, nothing else."""
    path = tmp_path_factory.mktemp("labels") / "pairs.jsonl"
    path.write_bytes(content)
    try:
        said = "line " * len(read_labels(path, collection="c"))
    except SettingsError as error:
        said = str(error)
    assert "line " in said or not content.strip()


def test_distances_are_those_of_the_collection() -> None:
    source = MemorySource(points(families(20, 2)))
    labelled = distances_of((pair(0, 1), pair(0, 2, copy=False), Label(copy=True, pair=None, distance=0.5)), source)
    assert labelled.distances[0] < 0.01
    assert labelled.distances[1] > 0.2
    assert labelled.distances[2] == 0.5
    assert labelled.copies.tolist() == [True, False, True]
    assert labelled.missing == 0


def test_pairs_of_points_that_are_gone_or_bare_are_counted() -> None:
    held = points(families(20, 2))
    held[4] = Point(id=4, vector=None, payload={})
    held[6] = Point(id=6, vector=np.zeros(48, np.float32), payload={})
    labelled = distances_of((pair(0, 1), pair(0, 999), pair("x", 1), pair(4, 5), pair(6, 7)), MemorySource(held))
    assert len(labelled.distances) == 1
    assert labelled.missing == 4


def test_many_pairs_are_read_in_pages() -> None:
    source = MemorySource(points(families(300, 2)))
    labelled = distances_of(tuple(pair(2 * each, 2 * each + 1) for each in range(300)), source)
    assert len(labelled.distances) == 300
    assert source.requests == 6


# The largest cut that is right often enough, and when there is none to be had.


def labelled(copies: Sequence[float], others: Sequence[float], missing: int = 0) -> Labelled:
    return Labelled(
        distances=np.array([*copies, *others], np.float64),
        copies=np.array([True] * len(copies) + [False] * len(others), np.bool_),
        missing=missing,
    )


NEAR = [0.01 * each for each in range(20)]  # 0.00 … 0.19
FAR = [0.5 + 0.01 * each for each in range(20)]


def test_where_copies_are_nearer_than_all_others_the_farthest_copy_is_the_cut() -> None:
    found = fit(labelled(NEAR, FAR), precision=0.95)
    assert found.cut == pytest.approx(0.19)
    assert (found.merged, found.right, found.precision, found.recall) == (20, 20, 1.0, 1.0)
    assert found.lower_bound == pytest.approx(0.8389, abs=1e-4)


def test_as_many_wrong_ones_are_let_in_as_the_precision_allows() -> None:
    made = labelled([*NEAR, 0.2], [0.195, *FAR])
    found = fit(made, precision=0.95)
    assert found.cut == pytest.approx(0.2)
    assert (found.merged, found.right) == (22, 21)
    assert fit(made, precision=0.99).cut == pytest.approx(0.19)


def test_the_largest_cut_counts_even_past_a_stretch_that_is_worse() -> None:
    copies = [0.01] * 10 + [0.03] * 30
    found = fit(labelled(copies, [0.02] * 2 + FAR), precision=0.95)
    assert found.cut == pytest.approx(0.03)


def test_equal_distances_are_merged_together_or_not_at_all() -> None:
    found = fit(labelled([0.01] * 20 + [0.1] * 5, [0.1] * 15), precision=0.9)
    assert found.cut == pytest.approx(0.01)


@pytest.mark.parametrize(("copies", "others"), [(FEWEST_OF_A_KIND - 1, 100), (100, FEWEST_OF_A_KIND - 1), (0, 0)])
def test_too_few_of_a_kind_are_refused_with_the_numbers(copies: int, others: int) -> None:
    with pytest.raises(
        CannotFitError, match=f"saw {copies} copies and {others} other pairs.*wanted at least 15 of each"
    ):
        fit(labelled([0.1] * copies, [0.5] * others), precision=0.95)


def test_labels_that_named_missing_points_are_mentioned() -> None:
    with pytest.raises(CannotFitError, match="7 more name points that were deleted"):
        fit(labelled([0.1], [0.5], missing=7), precision=0.95)


def test_where_no_cut_is_good_enough_the_best_is_named() -> None:
    mixed = [0.01 * each for each in range(40)]
    with pytest.raises(CannotFitError, match=r"reaches precision 0.95: the best is 0.5"):
        fit(labelled(mixed, mixed), precision=0.95)


def test_a_few_right_ones_at_the_front_are_not_enough() -> None:
    front = [0.001] * (FEWEST_MERGED - 1)
    rest = [0.1 + 0.01 * each for each in range(20)]
    with pytest.raises(CannotFitError, match="no cut"):
        fit(labelled(front + rest, [0.05] * 20), precision=0.95)


@pytest.mark.parametrize(
    ("right", "of", "bound"), [(10, 10, 0.7225), (0, 10, 0.0), (95, 100, 0.8882), (50, 100, 0.4038), (0, 0, 0.0)]
)
def test_wilsons_bound_is_the_published_one(right: int, of: int, bound: float) -> None:
    assert wilson_lower_bound(right, of) == pytest.approx(bound, abs=1e-4)


DISTANCES = st.lists(st.integers(0, 60).map(lambda each: each / 100), min_size=FEWEST_OF_A_KIND, max_size=50)


@given(DISTANCES, DISTANCES, st.sampled_from([0.5, 0.8, 0.9, 0.95, 1.0]))
def test_the_cut_is_precise_enough_and_no_larger_one_is(
    copies: list[float], others: list[float], precision: float
) -> None:
    """At the cut the precision holds; at every copy's larger distance it does not."""
    made = labelled(copies, others)
    try:
        found = fit(made, precision=precision)
    except CannotFitError:
        assume(False)
        return
    for cut in sorted(copies):
        merged = made.distances <= cut
        share = made.copies[merged].mean()
        if cut == found.cut:
            assert share >= precision - 1e-9
            assert share == pytest.approx(found.precision)
        if cut > found.cut:
            assert share < precision
    assert found.lower_bound <= found.precision


@given(DISTANCES, DISTANCES)
def test_the_order_of_the_labels_changes_nothing(copies: list[float], others: list[float]) -> None:
    """Shuffling the file gives the same cut, or the same refusal."""
    made = labelled(copies, others)
    order = np.random.default_rng(len(copies)).permutation(len(made.copies))
    shuffled = Labelled(distances=made.distances[order], copies=made.copies[order], missing=0)
    outcomes: list[object] = []
    for each in (made, shuffled):
        try:
            outcomes.append(fit(each, precision=0.9))
        except CannotFitError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
