"""The `query` member of one level, in all its variants, as the engine's scoring query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecsieve.proxy.embedded.averages import average
from vecsieve.proxy.embedded.configs import choose
from vecsieve.proxy.embedded.engine import edge
from vecsieve.proxy.embedded.errors import bad_format, bad_request, bad_value
from vecsieve.proxy.embedded.fields import (
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
from vecsieve.proxy.embedded.formulas import read_formula
from vecsieve.proxy.embedded.inputs import Source

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
