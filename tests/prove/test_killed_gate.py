"""The write gate's run under kills, small: of one database at each change, of all at length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from prove import killed_gate
from prove.killed_databases import DATABASES
from prove.killed_gate import prove, survives
from prove.planted_points import COPIES, made

QUICK = ("weaviate", "merge", "keep-newest")


@pytest.mark.parametrize(
    ("backend", "mode", "merge"),
    [pytest.param(*each, marks=() if each == QUICK else pytest.mark.deep) for each in killed_gate.chosen([])],
)
def test_what_was_acknowledged_is_stored_or_in_the_journal_and_undo_stores_it_again(
    backend: str, mode: str, merge: str
) -> None:
    together = 1 if mode == "reject" else 3
    assert prove(120, backend, mode, merge, together=together, between=8)


def test_three_in_ten_points_are_copies_of_points_that_are_none() -> None:
    points = [made(number) for number in range(1, 4001)]
    originals = {tuple(each.vector): each.text for each in points if each.text.islower()}
    copies = [each for each in points if each.text.isupper()]
    assert len(originals) + len(copies) == len(points)
    assert abs(len(copies) / len(points) - COPIES) < 0.02
    assert all(originals[tuple(each.vector)] == each.text.lower() for each in copies)


def test_a_point_survives_by_the_last_of_those_that_took_its_place() -> None:
    took = {1: 2, 2: 3, 4: 5, 5: 4}
    assert survives(1, {3: ""}, took)
    assert not survives(1, {9: ""}, took)
    assert not survives(4, {3: ""}, took)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (["milvus"], {"milvus": 4}),
        (["chroma:merge", "weaviate:reject"], {"chroma": 2, "weaviate": 1}),
        ([], {"qdrant": 4, "chroma": 4, "pinecone": 4, "milvus": 4, "weaviate": 4}),
    ],
)
def test_runs_are_chosen_by_backend_and_mode(named: Sequence[str], expected: dict[str, int]) -> None:
    assert Counter(backend for backend, _, _ in killed_gate.chosen(list(named))) == expected
    assert set(expected) <= set(DATABASES)
