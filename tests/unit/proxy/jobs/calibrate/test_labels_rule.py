"""The calibrated rule fitted to labels: where it moves, where it stays, how far it may go, and that the policy reads what is printed."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from support.calibrations import calibration
from support.memory_source import MemorySource, families, points
from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.jobs.calibrate.command import report
from vecsieve.proxy.jobs.calibrate.labels import (
    ENOUGH,
    FEWEST,
    LARGEST_SHIFT,
    Judged,
    Label,
    fit_rule,
    judged,
    snippet,
)
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.selection.certainty import FEATURES, SHIPPED, SIGNS
from vecsieve.proxy.selection.policy import Certain


def pairs(count: int, *, shift: float = 0.0, figures: float = 0.0, seed: int = 1) -> Judged:
    """Labels drawn from the shipped rule with another constant, and another coefficient of figures."""
    rng = np.random.default_rng(seed)
    features = np.zeros((count, len(FEATURES)))
    features[:, FEATURES.index("one")] = 1.0
    features[:, FEATURES.index("far")] = rng.uniform(-1, 0, count)
    features[:, FEATURES.index("contained")] = rng.uniform(0, 0.65, count)
    features[:, FEATURES.index("covered")] = rng.uniform(0, 0.9, count)
    features[:, FEATURES.index("figures")] = rng.uniform(0, 1, count)
    logits = features @ np.asarray(SHIPPED.texts) + shift + figures * features[:, FEATURES.index("figures")]
    copies = rng.uniform(size=count) < 1.0 / (1.0 + np.exp(-logits))
    return Judged(features=features, copies=copies, missing=0)


def test_labels_of_a_stricter_collection_lower_the_constant_and_of_a_laxer_one_raise_it() -> None:
    for shift in (-2.0, 2.0):
        found = fit_rule(pairs(150, shift=shift))
        assert found is not None
        assert found.how == "shift"
        assert found.shift == pytest.approx(shift, abs=0.8)
        assert found.interval[0] < found.shift < found.interval[1]
        assert found.left_out.loss < found.shipped.loss
        assert snippet(found) == (f"calibrated: {{shift: {found.shift:g}}}",)


def test_labels_that_the_shipped_rule_tells_right_change_nothing() -> None:
    outcomes = [fit_rule(pairs(60, seed=seed)) for seed in range(12)]
    assert sum(found is not None and found.how == "shipped" for found in outcomes) >= 6
    assert all(snippet(found) == () for found in outcomes if found is not None and found.how == "shipped")


def test_few_labels_or_labels_of_one_kind_fit_nothing() -> None:
    whole = pairs(400)
    assert fit_rule(Judged(features=whole.features[: FEWEST - 1], copies=whole.copies[: FEWEST - 1], missing=0)) is None
    assert fit_rule(Judged(features=whole.features, copies=np.ones(400, np.bool_), missing=0)) is None
    assert fit_rule(Judged(features=np.empty((0, len(FEATURES))), copies=np.empty(0, np.bool_), missing=3)) is None


def test_with_many_labels_a_feature_that_says_more_here_gets_a_larger_coefficient() -> None:
    found = fit_rule(pairs(ENOUGH + 100, figures=-8.0))
    assert found is not None
    assert found.how == "coefficients"
    assert found.coefficients["figures"] < SHIPPED.texts[FEATURES.index("figures")] - 2.0
    assert fit_rule(pairs(ENOUGH - 1, figures=-8.0)).how == "shift"  # type: ignore[union-attr]  # - there are enough for one


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([30, ENOUGH]), st.floats(-9, 9), st.floats(-9, 9))
def test_what_is_proposed_is_valid_and_is_what_the_policy_reads(
    seed: int, count: int, shift: float, figures: float
) -> None:
    """Invariant: the printed settings pass validation, and the policy's coefficients are the fitted ones, each with its sign."""
    found = fit_rule(pairs(count, shift=shift, figures=figures, seed=seed))
    if found is None or not snippet(found):
        return
    policy = PolicySettings.model_validate(yaml.safe_load("\n".join(snippet(found))))
    threshold = resolved(policy, mode=None).selection.threshold
    assert isinstance(threshold, Certain)
    assert threshold.model is not None
    for name, own, value in zip(FEATURES, SHIPPED.texts, threshold.model.texts, strict=True):
        wanted = found.coefficients.get(name, own) + (found.shift if name == "one" else 0.0)
        assert value == pytest.approx(wanted)
        assert value * SIGNS.get(name, 0) >= 0.0
    assert abs(found.shift) <= LARGEST_SHIFT
    assert math.isfinite(found.left_out.loss)


def test_pairs_are_read_in_the_pool_of_the_first_point_and_those_without_texts_are_counted() -> None:
    rows = families(10, 3)
    payloads = [{"text": f"member {row % 3} of the family that is number {row // 3}"} for row in range(30)]
    payloads[29] = {}
    source = MemorySource(points(rows, payloads))
    labels = [
        Label(copy=True, pair=(0, 1), distance=None),
        Label(copy=False, pair=(0, 3), distance=None),
        Label(copy=True, pair=(27, 29), distance=None),  # no text
        Label(copy=True, pair=(0, 99), distance=None),  # gone
        Label(copy=True, pair=None, distance=0.1),
    ]
    found = judged(labels, source, ("text",))
    assert found.copies.tolist() == [True, False]
    assert found.missing == 3
    near, far = found.features[:, FEATURES.index("short_near")] + found.features[:, FEATURES.index("short_far")]
    assert near < far
    assert found.features[:, FEATURES.index("one")].tolist() == [1.0, 1.0]


def test_the_report_has_the_interval_both_losses_and_the_settings() -> None:
    fitted = fit_rule(pairs(150, shift=-2.0))
    assert fitted is not None
    console = Console(width=400, record=True, file=StringIO())
    console.print(report(replace(calibration(copies=3), rule=fitted), written=None))
    text = console.export_text()
    assert f"Fitted shift {fitted.shift:+.2f}, with 95 % confidence" in text
    assert f"{fitted.shipped.loss:.3f} as shipped, {fitted.left_out.loss:.3f} fitted without each pair" in text
    assert f"calibrated: {{shift: {fitted.shift:g}}}" in text
    console.print(report(replace(calibration(copies=3), rule=replace(fitted, how="shipped")), written=None))
    assert "The shipped rule is as good: no settings are needed." in console.export_text()
