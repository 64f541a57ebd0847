"""The splitter's overlap is read off spans, whatever order and gaps the points come in; few spans say nothing."""

from __future__ import annotations

import random

import pytest

from vecsieve.proxy.jobs.analyze.pools import FEWEST, overlap
from vecsieve.proxy.jobs.source import Point


def points(size: int, step: int, *, documents: int = 3, chunks: int = 8) -> list[Point]:
    made = [
        Point(
            id=document * 100 + chunk,
            vector=None,
            payload={"doc_id": f"d{document}", "token_start": chunk * step, "token_end": chunk * step + size},
        )
        for document in range(documents)
        for chunk in range(chunks)
    ]
    random.Random(3).shuffle(made)
    return made


@pytest.mark.parametrize(
    ("size", "step", "share", "is_large"),
    [
        (100, 100, 0.0, False),
        (256, 224, 0.125, False),
        (512, 448, 0.125, False),
        (100, 50, 0.5, True),
        (100, 10, 0.9, True),
    ],
)
def test_neighbours_tell_the_overlap(size: int, step: int, share: float, is_large: bool) -> None:
    found = overlap(points(size, step))
    assert found is not None
    assert (found.share, found.pairs, found.is_large) == (share, 21, is_large)


def test_a_point_that_came_twice_counts_once_and_gaps_do_not_count() -> None:
    every = points(100, 80)
    twice, with_gaps = overlap(every + every), overlap([each for each in every if each.id % 4])
    assert twice == overlap(every)
    assert with_gaps is not None
    assert with_gaps.share == 0.2


def test_few_neighbours_say_nothing() -> None:
    assert overlap(points(100, 50, documents=1, chunks=FEWEST)) is None
    assert overlap([]) is None
    assert overlap(points(100, 200)) is None


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"doc_id": "a"},
        {"doc_id": "a", "token_start": 5},
        {"doc_id": "a", "token_start": 5, "token_end": 5},
        {"doc_id": "a", "token_start": "1", "token_end": "9"},
        {"doc_id": "a", "token_start": -1, "token_end": 9},
        {"token_start": 1, "token_end": 9},
    ],
)
def test_what_is_no_span_of_a_document_is_left_out(payload: dict[str, object]) -> None:
    every = points(100, 50)
    assert overlap([*every, Point(id="odd", vector=None, payload=payload)]) == overlap(every)
