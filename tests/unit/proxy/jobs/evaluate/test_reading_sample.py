"""The sample set: labelled by names alone, whole, and run by the command without arguments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.process.commands import command_line
from vecsieve.proxy.jobs.evaluate.reading import (
    FEWEST_NEEDS,
    QUESTIONS,
    SOFT_HYPHEN,
    LabelledSet,
    sample_set,
    seeded_set,
)
from vecsieve.proxy.selection.reading.text import Text


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


@pytest.mark.parametrize("option", [("--set", "one"), ("--geometry", "own=.")])
def test_options_about_folders_want_a_folder(option: tuple[str, str]) -> None:
    done = command_line("evaluate", *option)
    assert done.returncode == 2
    assert "a folder with labelled sets" in done.stderr


# The set with seeded copies: a hundred questions, each with four items that answer it.


@pytest.fixture(scope="module")
def seeded() -> LabelledSet:
    return seeded_set()


def texts(seeded: LabelledSet, number: int) -> list[str]:
    return [json.loads(seeded.items[row].payload["text"]) for row in sorted(seeded.queries[number].relevant)]


def test_a_hundred_questions_have_four_answers_each(seeded: LabelledSet) -> None:
    assert len(seeded.queries) == QUESTIONS == 100
    assert {len(query.relevant) for query in seeded.queries} == {4}
    assert len(seeded.vectors) == len(seeded.items)


def test_the_copies_of_a_text_look_different(seeded: LabelledSet) -> None:
    original, same, drifted, shouted = texts(seeded, 0)
    assert same == original
    assert drifted.startswith("The handbook, second edition\n")
    assert SOFT_HYPHEN in drifted
    assert shouted != original
    assert shouted.upper().split() == original.upper().split()
    assert "\n" in shouted
    (plain, _), (loud, _) = Text(original).passages(), Text(shouted).passages()
    assert loud.tokens == plain.tokens


def test_every_item_is_a_document_of_its_own(seeded: LabelledSet) -> None:
    assert len({item.doc for item in seeded.items}) == len(seeded.items)


def test_copies_are_near_their_original_and_questions_near_their_answers(seeded: LabelledSet) -> None:
    for number, query in enumerate(seeded.queries):
        rows = sorted(query.relevant)
        assert (seeded.vectors[rows] @ seeded.vectors[rows[0]]).min() > 0.99
        asked = seeded.vectors @ seeded.query_vectors[number]
        assert 0.8 < asked[rows].max() < 0.99


def test_the_set_is_the_same_every_time(seeded: LabelledSet) -> None:
    again = seeded_set()
    assert np.array_equal(again.vectors, seeded.vectors)
    assert np.array_equal(again.query_vectors, seeded.query_vectors)
    assert again.items == seeded.items


def test_about_half_of_the_items_are_copies(seeded: LabelledSet) -> None:
    share = 1 - len({item.atoms for item in seeded.items}) / len(seeded.items)
    assert 0.5 < share < 0.7
