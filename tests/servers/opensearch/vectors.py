"""Scores by vectors: the spaces of both products, their k-NN clauses, and scripts. NaN: a document that does not match."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from servers.opensearch.errors import RefusedError, ShardError, invalid, unparsed
from servers.opensearch.store import Index, Product

Json = dict[str, Any]
Scores = np.ndarray
MOST = 10_000
_OPENSEARCH_MEMBERS = {"vector", "k", "filter", "boost", "min_score", "max_distance", "method_parameters", "rescore", "_name", "ignore_unmapped", "expand_nested_docs"}  # fmt: skip
_ELASTIC_MEMBERS = {"field", "query_vector", "query_vector_builder", "k", "num_candidates", "filter", "boost", "similarity", "_name", "rescore_vector", "inner_hits", "visit_percentage"}  # fmt: skip
_SPACES = {"cosinesimil": "cosine", "l2": "l2", "innerproduct": "inner", "l1": "l1", "linf": "linf"}
_SIMILARITIES = {"cosine": "cosine", "l2_norm": "l2", "dot_product": "dot", "max_inner_product": "inner"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knn:
    """A k-NN clause. ``least``: of the score, in OpenSearch; of the similarity, in Elasticsearch."""

    field: str
    vector: list[float]
    k: int | None
    filter: Any
    boost: float
    name: str | None
    least: float | None = None
    most_distance: float | None = None


def whole(value: Any, default: int | None = None) -> int | None:
    """A number as both parsers take it: cut, or out of a text."""
    return default if value is None else int(float(value))


def opensearch_clause(body: Json) -> Knn:
    """A clause `{field: {...}}`. Raises RefusedError."""
    ((field, clause),) = body.items()
    if unknown := sorted(set(clause) - _OPENSEARCH_MEMBERS):
        raise unparsed(f"[knn] unknown token [VALUE_NUMBER] after [{unknown[0]}]")
    least, most, k = clause.get("min_score"), clause.get("max_distance"), whole(clause.get("k"))
    if sum(bound is not None for bound in (least, most, k)) != 1:
        raise invalid("[knn] requires exactly one of k, distance or score to be set")
    if k is not None and not 0 < k <= MOST:
        raise invalid(f"[knn] requires k to be in the range (0, {MOST}]")
    return Knn(
        field=field,
        vector=clause["vector"],
        k=k,
        filter=clause.get("filter"),
        boost=float(clause.get("boost", 1.0)),
        name=clause.get("_name"),
        least=least,
        most_distance=most,
    )


def elasticsearch_clause(clause: Json, size: int) -> Knn:
    """A clause with a member `field`; ``size``: the default of k. Raises RefusedError."""
    if unknown := sorted(set(clause) - _ELASTIC_MEMBERS):
        raise RefusedError(400, "x_content_parse_exception", f"[1:1] [knn] unknown field [{unknown[0]}]")
    k = whole(clause.get("k"), size)
    assert k is not None
    if k < 1:
        raise invalid("[k] must be greater than 0")
    candidates = whole(clause.get("num_candidates"), min(MOST, max(k, round(1.5 * k))))
    assert candidates is not None
    if candidates < k:
        raise invalid("[num_candidates] cannot be less than [k]")
    if candidates > MOST:
        raise invalid(f"[num_candidates] cannot exceed [{MOST}]")
    return Knn(
        field=clause["field"],
        vector=clause["query_vector"],
        k=k,
        filter=clause.get("filter"),
        boost=float(clause.get("boost", 1.0)),
        name=clause.get("_name"),
        least=clause.get("similarity"),
    )


def clause_scores(index: Index, clause: Knn, allowed: Scores | None) -> Scores:
    """The scores of a shard's nearest documents. ``allowed``: those of the clause's filter."""
    is_open = index.product is Product.OPENSEARCH
    spec = index.properties.get(clause.field, {})
    if spec.get("type") not in {"knn_vector", "dense_vector"}:
        if is_open:
            raise ShardError(f"Field '{clause.field}' is not knn_vector type.")
        return np.full(len(index.documents), np.nan)
    dimension = index.dimension(clause.field)
    if len(clause.vector) != dimension:
        raise ShardError(
            f"Query vector has invalid dimension: {len(clause.vector)}. Dimension should be: {dimension}"
            if is_open
            else f"The query vector has a different number of dimensions [{len(clause.vector)}] than the document vectors [{dimension}].",
        )
    space = space_of(index, clause.field)
    matrix, query = index.matrix(clause.field), np.array(clause.vector, np.float32)
    scores = scored(space, matrix, query)
    if allowed is not None:
        scores = np.where(np.isnan(allowed), np.nan, scores)
    if clause.most_distance is not None:
        scores = np.where(distances(space, matrix, query) <= clause.most_distance, scores, np.nan)
    if clause.least is not None:
        reached = scores if is_open else similarities(space, matrix, query)
        scores = np.where(reached >= clause.least, scores, np.nan)
    return best(scores, clause.k) * np.float32(clause.boost)


def best(scores: Scores, count: int | None) -> Scores:
    """The best of them; the others are NaN. The first of equal scores is before the next."""
    order = np.argsort(-scores, kind="stable")
    kept = order[: len(order) if count is None else count]
    cut = np.full_like(scores, np.nan)
    cut[kept] = scores[kept]
    return cut


def space_of(index: Index, field: str) -> str:
    spec = index.properties[field]
    if index.product is Product.ELASTICSEARCH:
        return _SIMILARITIES[spec.get("similarity", "cosine")]
    return _SPACES[spec.get("method", {}).get("space_type") or spec.get("space_type", "l2")]


def similarities(space: str, matrix: np.ndarray, query: np.ndarray) -> Scores:
    """What a space compares: a similarity, or a distance's negative."""
    rows, one = matrix.astype(np.float64), query.astype(np.float64)
    match space:
        case "cosine":
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.asarray(rows @ one / (np.linalg.norm(rows, axis=1) * np.linalg.norm(one)))
        case "l2":
            return np.asarray(-np.square(rows - one).sum(axis=1))
        case "l1":
            return np.asarray(-np.abs(rows - one).sum(axis=1))
        case "linf":
            return np.asarray(-np.abs(rows - one).max(axis=1))
        case _:
            return np.asarray(rows @ one)


def distances(space: str, matrix: np.ndarray, query: np.ndarray) -> Scores:
    """As `max_distance` means them."""
    similar = similarities(space, matrix, query)
    return 1 - similar if space == "cosine" else -similar


def scored(space: str, matrix: np.ndarray, query: np.ndarray) -> Scores:
    """The scores that both products make of it."""
    similar = similarities(space, matrix, query)
    match space:
        case "cosine" | "dot":
            made = (1 + similar) / 2
        case "inner":
            made = np.where(similar < 0, 1 / (1 - similar), similar + 1)
        case _:
            made = 1 / (1 - similar)
    return made.astype(np.float32)


def script_scores(index: Index, inner: Scores, script: Json) -> Scores:
    """`script_score` over the documents of its query."""
    if np.isnan(inner).all():
        return inner
    params = script.get("params", {})
    if script.get("lang") == "knn":
        field = params["field"]
        made = scored(
            _SPACES[params["space_type"]], _vectors(index, field), np.array(params["query_value"], np.float32)
        )
    else:
        made = _evaluated(index, inner, script.get("source", ""), params)
    return np.where(np.isnan(inner), np.nan, made.astype(np.float32))


def _vectors(index: Index, field: str) -> np.ndarray:
    if index.properties.get(field, {}).get("type") not in {"knn_vector", "dense_vector"}:
        raise ShardError(f"No field found for [{field}] in mapping", is_wrapped=False)
    return index.matrix(field)


def _evaluated(index: Index, inner: Scores, source: str, params: Json) -> Scores:
    """Painless of one expression that is one of Python too, over columns."""

    class Fields(dict[str, Any]):
        def __missing__(self, field: str) -> Any:
            if index.properties.get(field, {}).get("type") in {"knn_vector", "dense_vector"}:
                return field
            if not index.kind(field):
                raise ShardError(f"No field found for [{field}] in mapping", is_wrapped=False)
            column = [float(values[0]) if values else 0.0 for values in index.column(field)]
            return SimpleNamespace(value=np.array(column))

    def by(space: str, sign: int = 1) -> Any:
        return lambda query, field: sign * similarities(space, _vectors(index, field), np.array(query, np.float32))

    names = {
        "params": SimpleNamespace(**params),
        "doc": Fields(),
        "_score": inner,
        "cosineSimilarity": by("cosine"),
        "dotProduct": by("dot"),
        "l2Squared": by("l2", -1),
        "l2norm": lambda query, field: np.sqrt(by("l2", -1)(query, field)),
        "l1norm": by("l1", -1),
    }
    text = source.strip().removeprefix("return ").rstrip("; ")
    made = eval(compile(ast.parse(text, mode="eval"), "script", "eval"), {"__builtins__": {}}, names)
    return np.broadcast_to(np.asarray(made, np.float64), inner.shape)
