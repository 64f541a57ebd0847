"""Queries as scores of an index's documents: an array of float32, NaN for a document that does not match."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from servers.opensearch.errors import RefusedError, unparsed
from servers.opensearch.store import Index, Product, tokens
from servers.opensearch.vectors import Scores, clause_scores, elasticsearch_clause, opensearch_clause, script_scores

Json = dict[str, Any]
SATURATION = 1.2  # k1 of BM25


@dataclass(frozen=True, slots=True)
class Matching:
    """One search on one index. ``size``: the default of a k. ``named``: what its named queries match."""

    index: Index
    size: int
    named: dict[str, Scores] = field(default_factory=dict)

    def scores(self, query: Json | None) -> Scores:
        """Raises RefusedError for a query that is not known."""
        if not query:
            return self._all()
        if len(query) != 1:
            raise unparsed("[query] malformed query, expected [END_OBJECT] but found [FIELD_NAME]")
        ((kind, body),) = query.items()
        makers: dict[str, Callable[[Json], Scores]] = {
            "bool": self._bool,
            "constant_score": lambda given: self._flat(self.scores(given["filter"]), given.get("boost", 1.0)),
            "exists": self._exists,
            "ids": self._ids,
            "knn": self._knn,
            "match": self._match,
            "match_all": lambda given: self._all() * np.float32(given.get("boost", 1.0)),
            "match_none": lambda _: self._flags(lambda _: False, []),
            "range": self._range,
            "script_score": self._script,
            "term": self._term,
            "terms": self._terms,
        }
        if kind not in makers:
            cause = {"type": "named_object_not_found_exception", "reason": f"[1:1] unknown field [{kind}]"}
            raise RefusedError(400, "parsing_exception", f"unknown query [{kind}]", line=1, col=1, caused_by=cause)
        return makers[kind](body)

    def filtered(self, filters: Any) -> Scores | None:
        """What a filter, or a list of them, lets through; None where there is none."""
        if not filters:
            return None
        return self._bool({"filter": filters})

    def _all(self) -> Scores:
        return np.ones(len(self.index.documents), np.float32)

    def _flags(self, test: Callable[[list[Any]], bool], column: list[list[Any]]) -> Scores:
        if not column:
            return np.full(len(self.index.documents), np.nan, np.float32)
        return np.array([1.0 if test(values) else math.nan for values in column], np.float32)

    def _flat(self, scores: Scores, boost: float) -> Scores:
        return np.where(np.isnan(scores), np.nan, np.float32(boost)).astype(np.float32)

    def _bool(self, body: Json) -> Scores:
        def clauses(kind: str) -> list[Scores]:
            given = body.get(kind, [])
            return [self.scores(query) for query in (given if isinstance(given, list) else [given])]

        must, filters, should, without = map(clauses, ("must", "filter", "should", "must_not"))
        total = np.zeros(len(self.index.documents), np.float64)
        for scores in must:
            total = total + scores
        for scores in filters:
            total = np.where(np.isnan(scores), np.nan, total)
        for scores in without:
            total = np.where(np.isnan(scores), total, np.nan)
        hits = np.zeros(len(total))
        for scores in should:
            hits += ~np.isnan(scores)
            total = total + np.where(np.isnan(scores), 0.0, scores)
        least = int(body.get("minimum_should_match", 0 if must or filters or not should else 1))
        total = np.where(hits >= least, total, np.nan)
        if without and not (must or filters or should):
            total = np.where(np.isnan(total), np.nan, 0.0)
        return self._remembered(body, (total * float(body.get("boost", 1.0))).astype(np.float32))

    def _remembered(self, body: Json, scores: Scores) -> Scores:
        if name := body.get("_name"):
            self.named[name] = scores
        return scores

    def _exists(self, body: Json) -> Scores:
        return self._flags(bool, self.index.column(body["field"]))

    def _ids(self, body: Json) -> Scores:
        identifiers = set(body["values"])
        return self._flags(
            lambda values: values[0] in identifiers, [[identifier] for identifier in self.index.documents]
        )

    def _knn(self, body: Json) -> Scores:
        is_open = self.index.product is Product.OPENSEARCH
        clause = opensearch_clause(body) if is_open else elasticsearch_clause(body, self.size)
        scores = clause_scores(self.index, clause, self.filtered(clause.filter))
        return self._remembered({"_name": clause.name}, scores)

    def _script(self, body: Json) -> Scores:
        made = script_scores(self.index, self.scores(body["query"]), body["script"]) * np.float32(
            body.get("boost", 1.0)
        )
        least = body.get("min_score")
        return made if least is None else np.where(made >= least, made, np.nan)

    def _term(self, body: Json) -> Scores:
        ((path, given),) = ((name, value) for name, value in body.items() if name not in {"boost", "_name"})
        spec = given if isinstance(given, dict) else {"value": given}
        if self.index.kind(path).get("type") == "text":
            scores = self._words(path, [str(spec["value"])])
        else:
            scores = self._flags(partial(_has, spec["value"]), self.index.column(path)) * self._keyword(
                path, spec["value"]
            )
        return self._remembered(spec, (scores * spec.get("boost", 1.0)).astype(np.float32))

    def _keyword(self, path: str, value: Any) -> float:
        """The score of a keyword: that of a rare word without a norm in Elasticsearch, of no other in OpenSearch."""
        if self.index.product is Product.OPENSEARCH or self.index.kind(path).get("type") != "keyword":
            return 1.0
        holding = [_has(value, values) for values in self.index.column(path)]
        return _idf(sum(bool(values) for values in self.index.column(path)), sum(holding))

    def _terms(self, body: Json) -> Scores:
        ((path, terms),) = ((name, value) for name, value in body.items() if name not in {"boost", "_name"})
        scores = self._flags(lambda values: any(_has(value, values) for value in terms), self.index.column(path))
        return self._remembered(body, scores)

    def _range(self, body: Json) -> Scores:
        ((path, bounds),) = body.items()
        tests: dict[str, Callable[[Any, Any], bool]] = {
            "gt": lambda value, bound: value > bound,
            "gte": lambda value, bound: value >= bound,
            "lt": lambda value, bound: value < bound,
            "lte": lambda value, bound: value <= bound,
        }
        known = [(tests[name], bound) for name, bound in bounds.items() if name in tests]
        return self._flags(
            lambda values: any(all(test(value, bound) for test, bound in known) for value in values),
            self.index.column(path),
        )

    def _match(self, body: Json) -> Scores:
        ((path, given),) = body.items()
        spec = given if isinstance(given, dict) else {"query": given}
        words = tokens(str(spec["query"]))
        scores = self._words(path, words, is_all=spec.get("operator", "or").lower() == "and")
        return self._remembered(spec, scores * np.float32(spec.get("boost", 1.0)))

    def _words(self, path: str, words: list[str], *, is_all: bool = False) -> Scores:
        """BM25 of them. Lengths above 40 words are rounded by the real servers, and not here."""
        texts = [tokens(" ".join(map(str, values))) for values in self.index.column(path)]
        count = sum(bool(text) for text in texts)
        average = sum(map(len, texts)) / count if count else 1.0
        total, hits = np.zeros(len(texts)), np.zeros(len(texts))
        # Elasticsearch has kept the factor that Lucene has left out since its version 8.
        factor = 1.0 if self.index.product is Product.OPENSEARCH else 1 + SATURATION
        for word in words:
            weight = _idf(count, sum(word in text for text in texts))
            for place, text in enumerate(texts):
                if times := text.count(word):
                    total[place] += factor * weight * times / (times + SATURATION * (0.25 + 0.75 * len(text) / average))
                    hits[place] += 1
        return np.where(hits >= (len(words) if is_all else 1), total, np.nan).astype(np.float32)


def _has(value: Any, values: list[Any]) -> bool:
    return any(item == value or str(item) == str(value) for item in values)


def _idf(count: int, holding: int) -> float:
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5))
