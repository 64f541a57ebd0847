"""Spans: the share of the shorter one that both cover, or nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vecsieve.proxy.selection.text.matching import shares

NAN = math.nan
NUMBER = st.one_of(st.floats(), st.integers(-5, 5).map(float))


def share(
    one: tuple[float, float], other: tuple[float, float], documents: tuple[str | None, ...] = ("d", "d")
) -> float:
    return float(shares(documents, np.array([one, other]), np.array([0]), np.array([1]))[0, 0])


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ((0, 100), (0, 100), 1.0),
        ((0, 100), (75, 175), 0.25),
        ((0, 100), (100, 200), 0.0),  # they touch, and cover nothing together
        ((0, 100), (300, 400), 0.0),
        ((0, 100), (10, 20), 1.0),  # inside
        ((10, 20), (0, 100), 1.0),
        ((0, 100), (90, 110), 0.5),  # of the shorter
        ((3, 4), (3, 4), 1.0),  # a chunk's number as its span
        ((3, 4), (4, 5), 0.0),
        ((0, NAN), (0, 100), 0.0),
        ((NAN, NAN), (NAN, NAN), 0.0),
        ((5, 5), (5, 5), 0.0),  # empty
        ((9, 3), (0, 100), 0.0),  # turned round
        ((0, math.inf), (0, 100), 0.0),
        ((-1.7e308, 1.7e308), (-1.7e308, 1.7e308), 1.0),
    ],
)
def test_overlap_relative_to_the_shorter_span(
    one: tuple[float, float], other: tuple[float, float], wanted: float
) -> None:
    assert share(one, other) == pytest.approx(wanted)


@pytest.mark.parametrize("documents", [("d", "e"), (None, None), ("d", None), (None, "d")])
def test_spans_of_different_or_unknown_documents_have_nothing_in_common(documents: tuple[str | None, ...]) -> None:
    assert share((0, 100), (0, 100), documents) == 0.0


@given(st.lists(st.tuples(st.sampled_from(["d", "e", None]), NUMBER, NUMBER), max_size=6))
@example([("d", -1e308, 1e-300), ("d", 1e308, 1.1e308), ("d", 0.0, 1e-300)])
def test_shares_are_symmetric_and_between_zero_and_one(known: list[tuple[str | None, float, float]]) -> None:
    """Invariant: any float64 at all gives a symmetric matrix in [0, 1] without NaN, and one on the diagonal of real spans."""
    spans = np.array([row[1:] for row in known], np.float64).reshape(len(known), 2)
    each = np.arange(len(known))
    found = shares([row[0] for row in known], spans, each, each)
    assert found.dtype == np.float32
    assert np.array_equal(found, found.T)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    for i, (document, start, end) in enumerate(known):
        is_real = document is not None and math.isfinite(start) and math.isfinite(end) and end / 2 - start / 2 > 0
        assert found[i, i] == (1.0 if is_real else 0.0)


def test_rows_and_columns_choose_the_candidates() -> None:
    spans = np.array([[0.0, 10.0], [5.0, 15.0], [0.0, 5.0]])
    assert shares(["d"] * 3, spans, np.array([1]), np.array([2, 0])).tolist() == [[0.0, 0.5]]
