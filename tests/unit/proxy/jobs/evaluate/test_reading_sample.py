"""The sample set: labelled by names alone, whole, and run by the command without arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.process.commands import command_line
from vecsieve.proxy.jobs.evaluate.reading import FEWEST_NEEDS, sample_set


def test_every_item_has_exactly_one_other_of_its_label_from_the_other_source() -> None:
    found = sample_set()
    sides = sorted((item.atoms, item.payload["source"]) for item in found.items)
    assert sides[::2] == [(atoms, b'"docs"') for atoms, _ in sides[::2]]
    assert sides[1::2] == [(atoms, b'"docstring"') for atoms, _ in sides[::2]]
    assert len(found.items) >= 200


def test_every_need_of_a_query_is_satisfied_by_both_items_of_one_label() -> None:
    found = sample_set()
    assert len(found.queries) >= 20
    for query in found.queries:
        assert len(query.subtopics) >= FEWEST_NEEDS
        for title, rows in query.subtopics.items():
            assert {found.items[row].atoms for row in rows} == {(title,)}
            assert len(rows) == 2
        assert query.relevant == frozenset().union(*query.subtopics.values())


def test_vectors_are_of_length_one_and_the_same_each_time() -> None:
    found, again = sample_set(), sample_set()
    assert found.vectors.shape == (len(found.items), 384)
    assert found.query_vectors.shape == (len(found.queries), 384)
    for matrix in (found.vectors, found.query_vectors):
        assert np.allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=1e-4)
    assert np.array_equal(found.query_vectors, again.query_vectors)
    assert found.queries == again.queries


def test_evaluate_without_arguments_prints_the_table_and_says_what_it_is_of(tmp_path: Path) -> None:
    done = command_line("evaluate", "--bootstrap", "10", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0
    assert "1 set whose repeats are copies," in done.stdout
    assert "default" in done.stdout
    assert "This is the sample set" in done.stderr
    assert (tmp_path / "found.json").is_file()


def test_a_name_of_a_set_wants_a_folder() -> None:
    done = command_line("evaluate", "--set", "one")
    assert done.returncode == 2
    assert "a folder with labelled sets" in done.stderr
