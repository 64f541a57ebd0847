"""Exact neighbours: the order of a full sort by similarity and row, however few are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.labelled_folders import COPY, QUERIES, A, B, C, D, labelled_folder
from vecsieve.proxy.jobs.evaluate import searching
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, Query, read_set, unit
from vecsieve.proxy.jobs.evaluate.searching import Neighbours, neighbours


def test_ties_are_broken_by_row(tmp_path: Path) -> None:
    found = dict(neighbours(read_set(labelled_folder(tmp_path / "tiny")), every=1))
    assert found[0].first(5).tolist() == [A, COPY, B, C, D]
    assert found[1].first(5).tolist() == [D, B, A, COPY, C]


def test_a_closed_list_is_all_there_is(tmp_path: Path) -> None:
    queries = [{**QUERIES[0], "candidates": ["d", "c", "a2"]}, QUERIES[1]]
    found = dict(neighbours(read_set(labelled_folder(tmp_path / "tiny", queries=queries)), every=1))
    assert found[0].first(2).tolist() == [COPY, C]
    assert found[0].first(9).tolist() == [COPY, C, D]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.integers(0, 45), st.booleans())
def test_the_first_few_are_the_head_of_a_full_sort(values: list[int], count: int, closed: bool) -> None:
    """Invariant: first(n) is the first n of sorted(rows, by falling similarity, then row), ties included."""
    rows = list(range(0, len(values), 2)) if closed else list(range(len(values)))
    found = Neighbours(
        similarities=np.array(values, np.float32) / np.float32(3.0),
        candidates=np.array(rows, np.intp) if closed else None,
    )
    assert found.first(count).tolist() == sorted(rows, key=lambda row: (-values[row], row))[:count]


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    labelled = read_set(
        labelled_folder(
            tmp_path / "tiny", queries=QUERIES[:1] * 11, query_vectors=[[1.0, row, 0.0] for row in range(11)]
        )
    )
    whole = list(neighbours(labelled, every=every))
    monkeypatch.setattr(searching, "BLOCK", 2)
    blocks = list(neighbours(labelled, every=every))
    assert [number for number, _ in blocks] == list(range(0, 11, every))
    assert [one.first(5).tolist() for _, one in blocks] == [one.first(5).tolist() for _, one in whole]
    for number, one in blocks:
        np.testing.assert_allclose(one.similarities, labelled.vectors @ labelled.query_vectors[number], rtol=1e-6)


@pytest.mark.parametrize("every", [1, 2, 3, 5, 9, 22])
@pytest.mark.parametrize("seed", range(5))
def test_copies_tie_however_many_queries_are_asked_at_once(seed: int, every: int) -> None:
    random = np.random.default_rng(seed)
    once = unit(random.normal(size=(23, 37)).astype(np.float32))
    labelled = LabelledSet(
        name="copies",
        items=(),
        queries=(Query(subtopics={}, relevant=frozenset(), candidates=None),) * 23,
        vectors=np.concatenate((once, once)),
        query_vectors=once,
    )
    whole = dict(neighbours(labelled, every=1))
    for number, some in neighbours(labelled, every=every):
        assert some.similarities.tobytes() == whole[number].similarities.tobytes()
        assert some.similarities[:23].tobytes() == some.similarities[23:].tobytes()
