"""Labelled pairs: both spellings, every wrong line named, distances read from the collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import MemorySource, families, points
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.calibrate.labels import MOST_PROBLEMS, Label, distances_of, read_labels
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
