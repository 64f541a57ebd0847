"""The variants of `query` that the product's server leaves out: examples, order, formulas, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from servers.embedded.engine import choose, edge
from servers.embedded.fields import (
    Body,
    Json,
    bad_format,
    bad_input,
    bad_request,
    items,
    mapping,
    number,
    one_or_many,
    optional_number,
    read,
    required,
    text,
)
from servers.embedded.replies import geo_point, read_condition
from servers.embedded.searches import KINDS, Kind, Kinds, Level

# A score formula in JSON, as the engine's expression tree.

_UNARY = {"neg": "Neg", "abs": "Abs", "sqrt": "Sqrt", "exp": "Exp", "log10": "Log10", "ln": "Ln", "acosh": "Acosh"}
_MANY = {"mult": "Mult", "sum": "Sum", "max": "Max", "min": "Min"}
_DECAYS = {"lin_decay": "Lin", "exp_decay": "Exp", "gauss_decay": "Gauss"}


def read_formula(body: Body) -> Any:
    """The query `{"formula": expression, "defaults"?: {variable: value}}`."""
    defaults = read(body, "defaults")
    return edge().Formula(_expression(body["formula"]), {} if defaults is None else dict(mapping(defaults)))


def _expression(value: Json) -> Any:
    make = edge().Expression
    if isinstance(value, str):
        return make.Variable(value)
    if not isinstance(value, dict):
        return make.Constant(number(value))
    for name, reader in _readers().items():
        if name in value:
            return reader(value[name])
    return make.Condition(read_condition(value))


def _readers() -> dict[str, Callable[[Json], Any]]:
    make = edge().Expression
    readers: dict[str, Callable[[Json], Any]] = {
        "div": _div,
        "pow": _pow,
        "geo_distance": _geo_distance,
        "datetime": lambda value: make.Datetime(text(value)),
        "datetime_key": lambda value: make.DatetimeKey(text(value)),
    }
    readers |= {name: partial(_unary, kind) for name, kind in _UNARY.items()}
    readers |= {name: partial(_many, kind) for name, kind in _MANY.items()}
    readers |= {name: partial(_decay, kind) for name, kind in _DECAYS.items()}
    return readers


def _unary(kind: str, value: Json) -> Any:
    return getattr(edge().Expression, kind)(_expression(value))


def _many(kind: str, value: Json) -> Any:
    return getattr(edge().Expression, kind)([_expression(item) for item in items(value)])


def _div(value: Json) -> Any:
    body = mapping(value)
    left, right = _expression(required(body, "left")), _expression(required(body, "right"))
    return edge().Expression.Div(left, right, optional_number(body, "by_zero_default"))


def _pow(value: Json) -> Any:
    body = mapping(value)
    return edge().Expression.Pow(_expression(required(body, "base")), _expression(required(body, "exponent")))


def _geo_distance(value: Json) -> Any:
    body = mapping(value)
    return edge().Expression.GeoDistance(geo_point(required(body, "origin")), text(required(body, "to")))


def _decay(kind: str, value: Json) -> Any:
    body = mapping(value)
    target = read(body, "target")
    return edge().Expression.Decay(
        choose("DecayKind", kind),
        _expression(required(body, "x")),
        None if target is None else _expression(target),
        optional_number(body, "midpoint"),
        optional_number(body, "scale"),
    )


# The `average_vector` strategy of recommend, in float32 as the server computes it.
#
# One vector to search with: mean(positives), or 2 × mean(positives) − mean(negatives). Several-row vectors are not averaged: rows
# of the positives are followed by the negated rows of the negatives (`recommendations.rs`, 1.19).

_ZERO = np.float32(0)
_MIXED = "Positive and negative vectors should be of the same type, either all dense or all sparse or all multi"


def average(positives: list[Any], negatives: list[Any]) -> Any:
    """The engine's vector for these examples, themselves the engine's vectors."""
    if not positives:
        raise bad_input("Positive vectors should not be empty with `average` strategy")
    kind = _kind(positives)
    if negatives and _kind(negatives) != kind:
        raise bad_input(_MIXED)
    if kind == "multi":
        return [row for rows in positives for row in rows] + [[-x for x in row] for rows in negatives for row in rows]
    if kind == "sparse":
        return _sparse(positives, negatives)
    return _dense(positives, negatives)


def _kind(vectors: list[Any]) -> str:
    kinds = {
        "sparse" if not isinstance(vector, list) else "multi" if vector and isinstance(vector[0], list) else "dense"
        for vector in vectors
    }
    if len(kinds) > 1:
        raise bad_input("Can't average vectors with different types")
    return kinds.pop()


def _dense(positives: list[list[float]], negatives: list[list[float]]) -> list[float]:
    longest = max([*positives, *negatives], key=len)
    if any(len(vector) != len(longest) for vector in [*positives, *negatives]):
        return longest  # one of them has a wrong dimension: searching with it gets the engine's own refusal
    mean = np.asarray(positives, np.float32).sum(axis=0) / np.float32(len(positives))
    if negatives:
        mean = mean + mean - np.asarray(negatives, np.float32).sum(axis=0) / np.float32(len(negatives))
    result: list[float] = mean.tolist()
    return result


def _sparse(positives: list[Any], negatives: list[Any]) -> Any:
    mean = _sparse_mean(positives)
    if negatives:
        away = _sparse_mean(negatives)
        mean = {i: mean.get(i, _ZERO) + mean.get(i, _ZERO) - away.get(i, _ZERO) for i in {*mean, *away}}
    indices = sorted(mean)
    return edge().SparseVector(indices, [float(mean[index]) for index in indices])


def _sparse_mean(vectors: list[Any]) -> Mapping[int, np.float32]:
    sums: dict[int, np.float32] = {}
    for vector in vectors:
        for index, value in zip(vector.indices, vector.values, strict=True):
            sums[index] = sums.get(index, _ZERO) + np.float32(value)
    return {index: total / np.float32(len(vectors)) for index, total in sums.items()}


# Examples: recommend, discover, context, relevance feedback.


def _recommend(query: Json, level: Level) -> Any:
    engine, body = edge(), mapping(query["recommend"])
    positive, negative = items(body.get("positive") or []), items(body.get("negative") or [])
    strategy = read(body, "strategy")
    if strategy in {None, "average_vector"}:
        if not positive:
            raise bad_request("At least one positive vector ID required with this strategy")
    elif not positive and not negative:
        raise bad_request("At least one positive or negative vector ID required with this strategy")
    liked, disliked = (
        [level.source.resolve(value) for value in positive],
        [level.source.resolve(value) for value in negative],
    )
    match strategy:
        case None | "average_vector":
            return engine.Query.Nearest(average(liked, disliked), level.using)
        case "best_score":
            return engine.Query.RecommendBestScore(engine.RecommendQuery(liked, disliked), level.using)
        case "sum_scores":
            return engine.Query.RecommendSumScores(engine.RecommendQuery(liked, disliked), level.using)
    raise bad_format(f"unknown variant `{strategy}`, expected one of `average_vector`, `best_score`, `sum_scores`")


def _discover(query: Json, level: Level) -> Any:
    body = mapping(query["discover"])
    target = level.source.resolve(required(body, "target"))
    pairs = _pairs(body.get("context"), level)
    return edge().Query.Discover(edge().DiscoverQuery(target, pairs), level.using)


def _context(query: Json, level: Level) -> Any:
    return edge().Query.Context(edge().ContextQuery(_pairs(query["context"], level)), level.using)


def _feedback(query: Json, level: Level) -> Any:
    engine, body = edge(), mapping(query["relevance_feedback"])
    examples = [
        engine.FeedbackItem(level.source.resolve(required(item, "example")), number(required(item, "score")))
        for item in map(mapping, items(required(body, "feedback")))
    ]
    naive = mapping(required(mapping(required(body, "strategy")), "naive"))
    weights = [number(required(naive, name)) for name in ("a", "b", "c")]
    target = level.source.resolve(required(body, "target"))
    return engine.Query.FeedbackNaive(
        engine.FeedbackNaiveQuery(target, examples, engine.NaiveFeedbackStrategy(*weights)), level.using
    )


def _pairs(value: Json, level: Level) -> list[Any]:
    return [
        edge().ContextPair(
            level.source.resolve(required(pair, "positive")), level.source.resolve(required(pair, "negative"))
        )
        for pair in map(mapping, one_or_many(value))
    ]


def _pair_inputs(value: Json) -> list[Json]:
    return [mapping(pair).get(side) for pair in one_or_many(value) for side in ("positive", "negative")]


def _recommend_inputs(query: Json) -> list[Json]:
    body = mapping(query["recommend"])
    return [*items(body.get("positive") or []), *items(body.get("negative") or [])]


def _discover_inputs(query: Json) -> list[Json]:
    body = mapping(query["discover"])
    return [body.get("target"), *_pair_inputs(body.get("context"))]


def _feedback_inputs(query: Json) -> list[Json]:
    body = mapping(query["relevance_feedback"])
    return [body.get("target"), *(mapping(item).get("example") for item in items(body.get("feedback") or []))]


# Order and samples: points without a score.


def read_order(value: Json) -> Any:
    """`order_by`: a key, or `{"key", "direction"?, "start_from"?}`."""
    if isinstance(value, str):
        return edge().OrderBy(value)
    body = mapping(value)
    direction = read(body, "direction")
    return edge().OrderBy(
        text(required(body, "key")),
        None if direction is None else choose("Direction", direction),
        read(body, "start_from"),
    )


def _order(query: Json, level: Level) -> Any:
    if read(level.body, "score_threshold") is not None:
        raise bad_request("Can't use score_threshold with an order_by query.")
    return read_order(query["order_by"])


def _no_inputs(_query: Json) -> list[Json]:
    return []


ALL_KINDS: Kinds = {
    **KINDS,
    "recommend": Kind(_recommend, _recommend_inputs),
    "discover": Kind(_discover, _discover_inputs),
    "context": Kind(_context, lambda query: _pair_inputs(query["context"])),
    "relevance_feedback": Kind(_feedback, _feedback_inputs),
    "order_by": Kind(_order, _no_inputs),
    "formula": Kind(lambda query, _level: read_formula(query), _no_inputs),
    "sample": Kind(lambda query, _level: choose("Sample", query["sample"]), _no_inputs),
}
