"""The fit of the calibrated rule: it finds what made the labels, keeps signs that make sense, and judges what it did not see."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from vecsieve.proxy.jobs.evaluate.fitting import (
    Examples,
    as_module,
    fitted,
    left_out,
    predicted,
    reliability,
)
from vecsieve.proxy.selection.certainty import FEATURES, SIGNS, VECTOR_FEATURES

TRUE = {"one": -3.0, "far": -2.0, "contained": 5.0, "covered": 4.0}


def drawn(name: str, geometry: str = "own", *, pairs: int = 4000, seed: int = 1, turned: bool = False) -> Examples:
    """Pairs whose labels come of TRUE. ``turned``: more shared text makes a copy less probable, which makes no sense."""
    random = np.random.default_rng(seed)
    features = np.zeros((pairs, len(FEATURES)))
    column = {feature: features[:, place] for place, feature in enumerate(FEATURES)}
    column["one"][:] = 1.0
    column["far"][:] = random.uniform(-1.0, 0.7, pairs)
    column["contained"][:] = random.uniform(0.0, 0.65, pairs)
    column["covered"][:] = random.uniform(0.0, 1.0, pairs)
    bare = np.stack((np.ones(pairs), column["far"], -np.ones(pairs)), axis=1)
    weights = np.array([TRUE.get(feature, 0.0) for feature in FEATURES])
    if turned:
        weights[FEATURES.index("covered")] *= -1.0
    copies = random.uniform(size=pairs) < predicted(features, weights.tolist())
    return Examples(name=name, geometry=geometry, features=features, bare=bare, copies=copies)


def test_the_coefficients_that_made_the_labels_are_found() -> None:
    found = dict(zip(FEATURES, fitted([drawn("a"), drawn("b", seed=2)]).texts, strict=True))
    for feature, value in TRUE.items():
        assert found[feature] == pytest.approx(value, rel=0.25)
    assert not [feature for feature in FEATURES if feature not in TRUE and found[feature]]


def test_a_sign_that_makes_no_sense_leaves_its_feature_out() -> None:
    model = fitted([drawn("a", turned=True)])
    found = dict(zip(FEATURES, model.texts, strict=True))
    assert found["covered"] == 0.0
    assert found["contained"] > 1.0
    assert all(value * SIGNS.get(feature, 0) >= 0.0 for feature, value in found.items())


def test_every_set_weighs_the_same_whatever_its_size() -> None:
    small, large = drawn("small", pairs=500, seed=3), drawn("large", pairs=8000, seed=4, turned=True)
    model = dict(zip(FEATURES, fitted([small, large]).texts, strict=True))
    even = dict(zip(FEATURES, fitted([small, drawn("other", pairs=500, seed=4, turned=True)]).texts, strict=True))
    assert model["contained"] == pytest.approx(even["contained"], rel=0.35)
    assert abs(model["covered"] - even["covered"]) < 1.0


def test_what_is_left_out_has_no_part_in_its_model() -> None:
    known = [drawn("a"), drawn("b", seed=2), drawn("b", "e5", seed=3)]
    models = left_out(known, lambda each: each.name)
    assert models["b"] == fitted(known[:1])
    assert models["a"] == fitted(known[1:])
    assert left_out(known[:1], lambda each: each.name) == {}


def test_a_probability_is_as_often_right_as_it_says() -> None:
    known = [drawn("a"), drawn("b", seed=2)]
    models = left_out(known, lambda each: each.name)
    bins = [each for each in reliability(known, lambda each: models[each.name]) if each.pairs >= 200]
    assert len(bins) >= 5
    for each in bins:
        assert each.low - 0.06 <= each.copies <= each.high + 0.06


def test_the_module_that_is_written_holds_the_constants_and_where_they_come_from() -> None:
    known = [drawn("a"), drawn("b", "e5", seed=2)]
    model = fitted(known)
    text = as_module(model, known)
    tree = ast.parse(text)
    namespace: dict[str, dict[str, float]] = {}
    exec(compile(tree, "calibrated.py", "exec"), namespace)
    assert list(namespace["TEXTS"].values()) == pytest.approx(model.texts, abs=1e-3)
    assert list(namespace["VECTORS"]) == list(VECTOR_FEATURES)
    docstring = ast.get_docstring(tree)
    assert docstring is not None
    assert "8,000 pairs of 2 labelled sets (a, b) in 2 embeddings (e5, own)" in " ".join(docstring.split())
    assert max(map(len, text.splitlines())) <= 120
