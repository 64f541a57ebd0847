"""What ranks a search: a query, top-level `knn`, a tree of retrievers, or a hybrid query. Each gives scores for every index."""

from __future__ import annotations

from typing import Any

import numpy as np
from servers.opensearch.errors import RefusedError, unparsed
from servers.opensearch.matching import Matching
from servers.opensearch.store import Product
from servers.opensearch.vectors import Scores, best, clause_scores, elasticsearch_clause, whole

Json = dict[str, Any]
Ranked = list[Scores]


def ranked(body: Json, matchings: list[Matching]) -> Ranked:
    """The scores of a search's documents, index by index."""
    if "retriever" in body:
        others = [other for other in ("query", "knn", "search_after", "sort", "rescore") if other in body]
        if others:
            reason = f"Validation Failed: 1: cannot specify [retriever] and [{', '.join(others)}];"
            raise RefusedError(400, "action_request_validation_exception", reason)
        return _retrieved(body["retriever"], matchings)
    query = body.get("query")
    if "knn" in body:
        clauses = body["knn"] if isinstance(body["knn"], list) else [body["knn"]]
        lists = [_nearest(clause, matchings) for clause in clauses]
        lists += [[matching.scores(query) for matching in matchings]] if query else []
        return _summed(lists)
    if query and set(query) == {"hybrid"} and matchings and matchings[0].index.product is Product.OPENSEARCH:
        parts = [[matching.scores(clause) for matching in matchings] for clause in query["hybrid"]["queries"]]
        return _averaged([_normalised(part) for part in parts], [1.0] * len(parts))
    return [matching.scores(query) for matching in matchings]


def _nearest(body: Json, matchings: list[Matching]) -> Ranked:
    """The nearest documents of all shards together."""
    clause = elasticsearch_clause(body, _size(matchings))
    scores = [clause_scores(matching.index, clause, matching.filtered(clause.filter)) for matching in matchings]
    return _cut(scores, clause.k)


def _cut(ranks: Ranked, count: int | None) -> Ranked:
    """The best over all indices."""
    if not ranks:
        return ranks
    return np.split(best(np.concatenate(ranks), count), np.cumsum([len(scores) for scores in ranks])[:-1])


def _retrieved(retriever: Json, matchings: list[Matching]) -> Ranked:
    ((kind, body),) = retriever.items()
    match kind:
        case "standard":
            by_index = [matching.scores(body.get("query")) for matching in matchings]
        case "knn":
            clause = {name: value for name, value in body.items() if name != "min_score"}
            by_index = _nearest(clause, matchings)
        case "rrf":
            by_index = _reciprocal(body, matchings)
        case "linear":
            by_index = _linear(body, matchings)
        case _:
            cause = {"type": "named_object_not_found_exception", "reason": f"[1:1] unknown field [{kind}]"}
            raise RefusedError(400, "parsing_exception", f"unknown retriever [{kind}]", line=1, col=1, caused_by=cause)
    if kind != "knn" and body.get("filter"):
        allowed = [matching.filtered(body["filter"]) for matching in matchings]
        by_index = [
            scores if mask is None else np.where(np.isnan(mask), np.nan, scores)
            for scores, mask in zip(by_index, allowed, strict=True)
        ]
    least = None if kind == "knn" else body.get("min_score")  # Elasticsearch 9.3 reads it there, and does nothing
    return by_index if least is None else [np.where(scores >= least, scores, np.nan) for scores in by_index]


def _windows(body: Json, lists: list[Ranked], size: int) -> list[Ranked]:
    window = whole(body.get("rank_window_size"), size)
    return [_cut(ranks, window) for ranks in lists]


def _size(matchings: list[Matching]) -> int:
    return max((matching.size for matching in matchings), default=10)


def _reciprocal(body: Json, matchings: list[Matching]) -> Ranked:
    lists = [_retrieved(retriever, matchings) for retriever in body["retrievers"]]
    constant = body.get("rank_constant", 60)
    return _summed([_ranks(ranks, constant) for ranks in _windows(body, lists, _size(matchings))])


def _ranks(ranks: Ranked, constant: int) -> Ranked:
    joined = np.concatenate(ranks)
    made = np.full(len(joined), np.nan)
    for rank, place in enumerate(np.argsort(-joined, kind="stable"), 1):
        if not np.isnan(joined[place]):
            made[place] = 1 / (constant + rank)
    return np.split(made, np.cumsum([len(scores) for scores in ranks])[:-1])


def _linear(body: Json, matchings: list[Matching]) -> Ranked:
    lists = [_retrieved(retriever["retriever"], matchings) for retriever in body["retrievers"]]
    cut = _windows(body, lists, _size(matchings))
    made = []
    for part, ranks in zip(body["retrievers"], cut, strict=True):
        kind = part.get("normalizer", body.get("normalizer", "none"))
        if kind not in {"none", "minmax"}:
            raise unparsed(f"Unknown normalizer [{kind}]")
        weight = part.get("weight", 1.0)
        made.append([scores * weight for scores in (_normalised(ranks) if kind == "minmax" else ranks)])
    return _summed(made)


def _normalised(ranks: Ranked) -> Ranked:
    """Each list's scores between 0 and 1; the least of several is 0.001, as normalization of hybrid queries has it."""
    joined = np.concatenate(ranks)
    if np.isnan(joined).all():
        return ranks
    low, high = np.nanmin(joined), np.nanmax(joined)
    if low == high:
        return [np.where(np.isnan(scores), np.nan, 1.0) for scores in ranks]
    return [np.where(scores == low, 0.001, (scores - low) / (high - low)) for scores in ranks]


def _summed(lists: list[Ranked]) -> Ranked:
    return _averaged(lists, None)


def _averaged(lists: list[Ranked], weights: list[float] | None) -> Ranked:
    """Their sums, or their means by weight; a list without a document gives it nothing."""
    made = []
    for parts in zip(*lists, strict=True):
        factors = weights or [1.0] * len(parts)
        total = np.sum([np.nan_to_num(scores) * factor for scores, factor in zip(parts, factors, strict=True)], axis=0)
        total = total / (sum(weights) if weights else 1.0)
        made.append(np.where(np.all([np.isnan(scores) for scores in parts], axis=0), np.nan, total).astype(np.float32))
    return made
