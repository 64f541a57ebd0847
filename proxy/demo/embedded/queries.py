"""The `query` member of one level, in all its variants, as the engine's scoring query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vecsieve.proxy.demo.embedded.configs import DEFAULT_VECTOR, choose
from vecsieve.proxy.demo.embedded.engine import edge
from vecsieve.proxy.demo.embedded.errors import bad_format, bad_input, bad_request, bad_value, not_found, not_served
from vecsieve.proxy.demo.embedded.fields import (
    Body,
    Json,
    is_point_id,
    items,
    mapping,
    number,
    one_or_many,
    optional_number,
    point_id,
    read,
    required,
    text,
    unsigned,
)
from vecsieve.proxy.demo.embedded.filters import geo_point, read_condition
from vecsieve.proxy.demo.embedded.registry import Collection

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


# Vectors as they come in: written out, or named by the id of a point that has them.
#
# A vector in JSON is `[x, ..]` (dense), `{"indices": [..], "values": [..]}` (sparse) or `[[x, ..], ..]` (several).

_INFERENCE = ("text", "image", "object")


def is_document(value: Body) -> bool:
    """Whether it is to be embedded: it names a model. Vectors may be called `text` and `model` too, but then those are vectors."""
    return any(name in value for name in _INFERENCE) and isinstance(value.get("model"), str)


def read_vector(value: Json, *, expected: str = "VectorInput") -> Any:
    """The engine's form of one vector. `expected`: what the server calls it when it is none."""
    if isinstance(value, list) and _is_of_numbers(value):
        return value
    if isinstance(value, dict) and "indices" in value:
        indices, values = items(value["indices"]), items(required(value, "values"))
        if not _are_numbers(values):
            raise bad_format(f"data did not match any variant of untagged enum {expected}")
        if len(indices) != len(values):
            raise bad_value("values", "must be the same length as indices")
        if len(set(indices)) != len(indices):
            raise bad_value("indices", "must be unique")
        return edge().SparseVector(indices, values)
    if isinstance(value, dict) and is_document(value):
        raise not_served("inference; send vectors")
    raise bad_format(f"data did not match any variant of untagged enum {expected}")


def _is_of_numbers(value: list[Json]) -> bool:
    """Whether it is a row of numbers or several such rows. NaN and infinity, which gRPC can say and JSON cannot, are numbers."""
    if value and isinstance(value[0], list):
        return all(isinstance(row, list) and _are_numbers(row) for row in value)
    return _are_numbers(value)


def _are_numbers(row: list[Json]) -> bool:
    """Nothing but numbers: to the server neither null nor true is one."""
    return {*map(type, row)} <= {int, float}


def read_vectors(value: Json) -> Any:
    """The vectors of a point to be stored: one unnamed, or an object of named ones."""
    if value is None:
        return {}
    if isinstance(value, dict) and not is_document(value):
        return {name: read_vector(vector, expected="VectorStruct") for name, vector in value.items()}
    return read_vector(value, expected="VectorStruct")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the ids of one query level are looked up: a collection, and the name of the vector in it."""

    collection: Collection
    vector: str

    def resolve(self, value: Json) -> Any:
        """The engine's vector for an input: a vector as it is, an id as the vector of that point."""
        if not is_point_id(value):
            return read_vector(value)
        identifier = point_id(value)
        records = self.collection.shard.retrieve([identifier], False, [self.vector])
        if not records:
            raise not_found(f"No point with id {identifier} found")
        stored = records[0].vector
        if isinstance(stored, dict):
            stored = stored.get(self.vector)
        if stored is None:
            raise not_found(f'Vector with name "{self.vector}" for point not found')
        return stored


def read_source(body: Body, searched: Collection, find: Callable[[str], Collection]) -> Source:
    """`using` and `lookup_from` of one level: by default the searched collection and the searched vector."""
    using = vector_name(body)
    lookup = read(body, "lookup_from")
    if lookup is None:
        return Source(searched, using)
    where = mapping(lookup)
    named = read(where, "vector")
    name = text(required(where, "collection"))
    if name == searched.name:
        return Source(searched, using if named is None else text(named))
    return Source(find(name), using if named is None else text(named))


def vector_name(body: Body) -> str:
    """`using`, the unnamed vector when absent."""
    using = read(body, "using")
    return DEFAULT_VECTOR if using is None else text(using)


_TAGS = (
    "nearest",
    "recommend",
    "discover",
    "context",
    "relevance_feedback",
    "order_by",
    "fusion",
    "rrf",
    "formula",
    "sample",
)
_MOST_MMR_CANDIDATES = 16_384
_MMR_LAMBDA = 0.5
_RRF_K = 2


def tag_of(query: Json) -> str | None:
    """Which variant it is: a tag, `nearest` for a bare vector input, None for no query."""
    if query is None:
        return None
    if isinstance(query, dict):
        return next((tag for tag in _TAGS if tag in query), "nearest")
    return "nearest"


def referenced_ids(query: Json) -> list[int | str]:
    """The points a query names by id; the answer leaves them out."""
    return [point_id(value) for value in _inputs(query) if is_point_id(value)]


def read_query(query: Json, source: Source, using: str, limit: int) -> Any:
    """The engine's query; ids are looked up in `source`. `limit` is the level's own, the default of MMR's candidates."""
    readers: dict[str, Callable[[], Any]] = {
        "nearest": lambda: _nearest(query, source, using, limit),
        "recommend": lambda: _recommend(mapping(query["recommend"]), source, using),
        "discover": lambda: _discover(mapping(query["discover"]), source, using),
        "context": lambda: edge().Query.Context(edge().ContextQuery(_pairs(query["context"], source)), using),
        "relevance_feedback": lambda: _feedback(mapping(query["relevance_feedback"]), source, using),
        "order_by": lambda: read_order(query["order_by"]),
        "formula": lambda: read_formula(query),
        "sample": lambda: choose("Sample", query["sample"]),
        "fusion": lambda: _fusion(query),
        "rrf": lambda: _fusion(query),
    }
    tag = tag_of(query)
    return None if tag is None else readers[tag]()


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


def _nearest(query: Json, source: Source, using: str, limit: int) -> Any:
    engine = edge()
    if not isinstance(query, dict) or "nearest" not in query:
        return engine.Query.Nearest(source.resolve(query), using)
    vector = source.resolve(query["nearest"])
    if query.get("mmr") is None:
        return engine.Query.Nearest(vector, using)
    mmr = mapping(query["mmr"])
    diversity = optional_number(mmr, "diversity")
    if diversity is not None and not 0 <= diversity <= 1:
        raise bad_value("query.mmr.diversity", f"value {diversity} invalid, must be from 0.0 to 1.0")
    candidates = mmr.get("candidates_limit")
    most = limit if candidates is None else unsigned(candidates)
    if candidates is not None and most > _MOST_MMR_CANDIDATES:
        raise bad_value(
            "query.mmr.candidates_limit", f"value {most} invalid, must be {_MOST_MMR_CANDIDATES} or smaller"
        )
    return engine.Mmr(vector, _MMR_LAMBDA if diversity is None else 1 - diversity, most, using)


def _recommend(body: Body, source: Source, using: str) -> Any:
    engine = edge()
    positive, negative = items(body.get("positive") or []), items(body.get("negative") or [])
    strategy = read(body, "strategy")
    if strategy in {None, "average_vector"}:
        if not positive:
            raise bad_request("At least one positive vector ID required with this strategy")
    elif not positive and not negative:
        raise bad_request("At least one positive or negative vector ID required with this strategy")
    liked, disliked = [source.resolve(value) for value in positive], [source.resolve(value) for value in negative]
    match strategy:
        case None | "average_vector":
            return engine.Query.Nearest(average(liked, disliked), using)
        case "best_score":
            return engine.Query.RecommendBestScore(engine.RecommendQuery(liked, disliked), using)
        case "sum_scores":
            return engine.Query.RecommendSumScores(engine.RecommendQuery(liked, disliked), using)
    raise bad_format(f"unknown variant `{strategy}`, expected one of `average_vector`, `best_score`, `sum_scores`")


def _discover(body: Body, source: Source, using: str) -> Any:
    target = source.resolve(required(body, "target"))
    pairs = _pairs(body.get("context"), source)
    return edge().Query.Discover(edge().DiscoverQuery(target, pairs), using)


def _feedback(body: Body, source: Source, using: str) -> Any:
    engine = edge()
    examples = [
        engine.FeedbackItem(source.resolve(required(item, "example")), number(required(item, "score")))
        for item in map(mapping, items(required(body, "feedback")))
    ]
    naive = mapping(required(mapping(required(body, "strategy")), "naive"))
    weights = [number(required(naive, name)) for name in ("a", "b", "c")]
    target = source.resolve(required(body, "target"))
    return engine.Query.FeedbackNaive(
        engine.FeedbackNaiveQuery(target, examples, engine.NaiveFeedbackStrategy(*weights)), using
    )


def _pairs(value: Json, source: Source) -> list[Any]:
    return [
        edge().ContextPair(source.resolve(required(pair, "positive")), source.resolve(required(pair, "negative")))
        for pair in map(mapping, one_or_many(value))
    ]


def _fusion(query: Body) -> Any:
    fusion = edge().Fusion
    if "rrf" in query:
        body = mapping(query["rrf"])
        k, weights = body.get("k"), body.get("weights")
        return fusion.Rrf(
            _RRF_K if k is None else unsigned(k), None if weights is None else [number(item) for item in items(weights)]
        )
    match query["fusion"]:
        case "rrf":
            return fusion.Rrf(_RRF_K)
        case "dbsf":
            return fusion.Dbsf()
    raise bad_format(f"unknown variant `{query['fusion']}`, expected `rrf` or `dbsf`")


def _inputs(query: Json) -> list[Json]:
    match tag_of(query):
        case "nearest":
            return [query["nearest"] if isinstance(query, dict) and "nearest" in query else query]
        case "recommend":
            body = mapping(query["recommend"])
            return [*items(body.get("positive") or []), *items(body.get("negative") or [])]
        case "discover":
            body = mapping(query["discover"])
            return [body.get("target"), *_pair_inputs(body.get("context"))]
        case "context":
            return _pair_inputs(query["context"])
        case "relevance_feedback":
            body = mapping(query["relevance_feedback"])
            return [body.get("target"), *(mapping(item).get("example") for item in items(body.get("feedback") or []))]
        case _:
            return []


def _pair_inputs(value: Json) -> list[Json]:
    return [mapping(pair).get(side) for pair in one_or_many(value) for side in ("positive", "negative")]
