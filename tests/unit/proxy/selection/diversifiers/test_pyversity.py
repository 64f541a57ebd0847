"""The optional library's diversifiers: its own picks where it can, ours where it must not be asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.pools import angles, damaged, planted
from vecsieve.proxy.selection.diversifiers.pyversity import Method, external
from vecsieve.proxy.selection.values import FloatMatrix

pyversity = pytest.importorskip("pyversity", reason="the extra 'diversifiers' is not installed")

METHODS = st.sampled_from(list(Method))


def falling(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.linspace(1.0, 0.0, n)


@given(damaged(largest=30), METHODS, st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 35))
def test_any_input_gives_distinct_picks_and_a_full_page(
    rows: FloatMatrix, method: Method, diversity: float, count: int
) -> None:
    # Invariant: zero, NaN, infinite, tiny and huge rows included, count distinct indices.
    picks = external(falling(len(rows)), rows, method=method, diversity=diversity, count=count).tolist()
    assert len(picks) == len(set(picks)) == min(count, len(rows))
    assert set(picks) <= set(range(len(rows)))


@given(planted(smallest=1, largest=25), METHODS, st.integers(1, 30))
def test_picks_are_the_librarys_own_for_usable_rows(rows: FloatMatrix, method: Method, count: int) -> None:
    # Invariant: on ordinary rows nothing of ours changes what the library picks.
    unit = rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True).astype(np.float32)
    picks = external(falling(len(rows)), unit, method=method, diversity=0.5, count=count)
    theirs = pyversity.diversify(unit, falling(len(rows)), count, strategy=method.value, diversity=0.5)
    same = picks == theirs.indices
    # A copy of a row may differ from it in the last bit after scaling, so that two copies may trade places.
    assert all(
        np.allclose(unit[a], unit[b], atol=1e-6) for a, b in zip(picks[~same], theirs.indices[~same], strict=True)
    )


@given(planted(largest=25), METHODS, st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_diversity_zero_is_the_order_of_relevance(rows: FloatMatrix, method: Method, count: int, seed: int) -> None:
    # Invariant: equal relevance is rank, which the library's own sort does not promise.
    gains = np.random.default_rng(seed).integers(0, 4, len(rows)) / 3.0
    picks = external(gains, rows, method=method, diversity=0.0, count=count).tolist()
    assert picks == sorted(range(len(rows)), key=lambda i: (-gains[i], i))[:count]


@pytest.mark.parametrize("method", list(Method))
def test_a_near_copy_makes_way(method: Method) -> None:
    gains = np.array([1.0, 0.99, 0.9, 0.0])
    # Two crowds, as COVER goes where the uncovered are many; the others where the nearest pick is far.
    picks = external(gains, angles(0, 1, 80, 81), method=method, diversity=0.9, count=2)
    assert picks[0] in {0, 1}
    assert set(picks.tolist()) != {0, 1}


def test_the_arguments_are_left_as_they_were() -> None:
    rows, gains = angles(0, 1, 80, 180), falling(4)
    before = rows.tobytes(), gains.tobytes()
    for method in Method:
        external(gains, rows, method=method, diversity=0.5, count=3)
    assert (rows.tobytes(), gains.tobytes()) == before
