"""Intervals: the sample first, the same draws for everybody, and the width that statistics expects."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.outcomes import of, outcome
from vecsieve.proxy.jobs.evaluate import summary
from vecsieve.proxy.jobs.evaluate.summary import estimate, resampled, summarised

NAN = float("nan")
SHARES = st.floats(0.0, 1.0)


def shares(own: list[float], plain: list[float], *, draws: int = 50) -> list[float]:
    """The value and the interval of the share of answers that are kept."""
    outcomes = [outcome("a", of(retained=plain, recall=[0.5] * len(plain)), own=of(retained=own))]
    kept = summarised(outcomes, draws=draws, seed=0)["own"].sets[0].retention
    return [kept.value, kept.value if kept.low is None else kept.low, kept.value if kept.high is None else kept.high]


def test_queries_without_an_answer_to_keep_do_not_count_for_retention() -> None:
    value, low, high = shares([NAN, 1.0, 0.0, NAN], [0.0, 1.0, 1.0, 0.0])
    assert value == 0.5
    assert 0.0 <= low <= high <= 1.0
    assert np.isnan(shares([NAN, NAN], [0.0, 0.0], draws=3)).all()


def test_draws_depend_on_the_seed_and_the_set_and_on_nothing_else() -> None:
    own, plain = of(recall=np.linspace(0.0, 1.0, 30).tolist()), of(recall=[0.5] * 30)

    def gains(name: str, seed: int) -> bytes:
        return resampled(name, own, plain, draws=20, seed=seed)["recall"].tobytes()

    assert gains("a", 0) == gains("a", 0)
    assert gains("a", 0) != gains("a", 1)
    assert gains("a", 0) != gains("b", 0)


def test_every_policy_meets_the_same_draws() -> None:
    values = np.linspace(0.0, 1.0, 30)
    plain = of(recall=[0.0] * 30)
    one = resampled("a", of(recall=values.tolist()), plain, draws=20, seed=0)
    other = resampled("a", of(recall=(values * 2.0).tolist()), plain, draws=20, seed=0)
    np.testing.assert_allclose(other["recall"], one["recall"] * 2.0)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    own, plain = of(recall=np.linspace(0.0, 1.0, 30).tolist()), of(recall=[0.5] * 30)
    whole = resampled("a", own, plain, draws=25, seed=0)["recall"]
    monkeypatch.setattr(summary, "CELLS", 100)
    np.testing.assert_allclose(resampled("a", own, plain, draws=25, seed=0)["recall"], whole, rtol=1e-12)


def test_the_interval_of_a_mean_is_as_wide_as_its_standard_error_says() -> None:
    values = np.random.default_rng(7).normal(0.5, 0.1, 400)
    found = estimate(
        resampled("a", of(recall=values.tolist()), of(recall=[0.0] * 400), draws=4000, seed=0)["recall"] / 400
    )
    assert found.low is not None
    assert found.high is not None
    expected = 1.96 * values.std() / math.sqrt(400)
    assert (found.high - found.low) / 2.0 == pytest.approx(expected, rel=0.1)
    assert (found.high + found.low) / 2.0 == pytest.approx(values.mean(), abs=0.1 * expected)


@given(st.lists(SHARES, min_size=2, max_size=30).map(np.array))
def test_an_interval_lies_within_what_was_drawn(values: npt.NDArray[np.float64]) -> None:
    """Invariant: lowest draw ≤ low ≤ high ≤ highest draw; the sample's own value is not one of the draws."""
    found = estimate(values)
    assert found.value == values[0]
    assert found.low is not None
    assert found.high is not None
    assert values[1:].min() <= found.low <= found.high <= values[1:].max()
