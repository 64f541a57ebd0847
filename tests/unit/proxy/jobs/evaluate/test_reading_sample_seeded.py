"""The set with seeded copies: a hundred questions, each with four items that answer it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from vecsieve.proxy.jobs.evaluate.reading import QUESTIONS, SOFT_HYPHEN, LabelledSet, seeded_set
from vecsieve.proxy.selection.text.canonical import folded, unwrapped


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
    assert shouted == shouted.upper()
    assert "\n" in shouted
    assert folded(unwrapped(shouted)) == folded(unwrapped(original))


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
