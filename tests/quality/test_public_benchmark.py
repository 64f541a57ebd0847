"""The scores of pages on chunking_evaluation: by position, and by content in pieces and in one piece."""

from __future__ import annotations

import pytest
from quality.public_benchmark.corpora import Chunk, Excerpt, Question
from quality.public_benchmark.scores import scored
from quality.public_benchmark.tables import row

TEXT = " ".join(f"w{number}" for number in range(40))
CORPORA = {"a": TEXT, "b": f"{TEXT} and more of it"}


def chunk(first: int, last: int, corpus: str = "a") -> Chunk:
    """The words ``first`` to ``last`` of TEXT."""
    words = TEXT.split()
    start, end = len(" ".join(words[:first]) + " ") if first else 0, len(" ".join(words[:last]))
    return Chunk(corpus, start, end, TEXT[start:end])


def question(first: int, last: int) -> Question:
    whole = chunk(first, last)
    return Question("?", "a", (Excerpt(whole.start, whole.end, whole.text),))


def test_an_excerpt_across_a_border_is_said_by_both_chunks_together_and_by_none_alone() -> None:
    query = question(5, 15)
    both, one = scored(query, [chunk(10, 20), chunk(0, 10)], CORPORA), scored(query, [chunk(0, 10)], CORPORA)
    assert (both.stated, both.answered, both.unbroken, both.twice) == (1.0, True, False, 0.0)
    assert one.stated == pytest.approx(1 / 6)
    assert not one.answered
    apart = scored(query, [chunk(0, 10), chunk(11, 20)], CORPORA)
    assert not apart.answered


def test_a_copy_elsewhere_says_an_excerpt_by_content_and_not_by_position() -> None:
    page = scored(question(5, 15), [chunk(0, 20, "b")], CORPORA)
    assert (page.recall, page.stated, page.unbroken) == (0.0, 1.0, True)


def test_a_row_counts_answers_lost_won_and_broken() -> None:
    query = question(5, 15)
    whole, pieces, none = (
        scored(query, page, CORPORA) for page in ([chunk(0, 20)], [chunk(0, 10), chunk(10, 20)], [chunk(20, 40)])
    )
    made = row("way", [none, whole, pieces], [whole, none, whole], ())
    assert (made.lost, made.won, made.broken) == (1, 1, 1)


def test_a_row_has_the_median_and_the_99th_percentile_of_the_time_that_a_client_waits() -> None:
    page = scored(question(5, 15), [chunk(0, 20)], CORPORA)
    made = row("way", [page], [page], [number / 1000 for number in range(101)])
    assert made.cells[-1] == "50.0 · 99.0"
    assert row("way", [page], [page], ()).cells[-1] == "–"
