"""One query's answers against its labels, each beside the plain one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vecsieve.proxy.jobs.evaluate.alpha_ndcg import AlphaNdcg
from vecsieve.proxy.jobs.evaluate.labelled import LabelledSet
from vecsieve.proxy.jobs.evaluate.metrics import met, ndcg, redundant
from vecsieve.proxy.jobs.evaluate.searching import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One answer. Not a number (NaN): the question does not arise for this query.

    ``redundancy``: share of the returned items that repeat those above. ``collapsed``: share of the plain answer's redundant
    items that are gone, NaN where there were none. ``documents``: distinct documents by returned items. ``retained``: 1.0
    where a relevant item is still there, NaN where the plain answer had none. ``kept``, ``lost``: of the subtopics that the
    plain answer met.
    """

    returned: float
    redundancy: float
    collapsed: float
    documents: float
    recall: float
    alpha_ndcg: float
    ndcg: float
    hit: float
    retained: float
    kept: float
    lost: float
    choosing_seconds: float
    added_seconds: float


class Judge:
    """Judges the answers to one query; the first, plain one is what the others are held against."""

    __slots__ = ("_alpha_ndcg", "_hit", "_labelled", "_met", "_query", "_redundant", "_top_k")

    def __init__(self, labelled: LabelledSet, number: int, plain: Found, *, top_k: int) -> None:
        self._labelled = labelled
        self._query = labelled.queries[number]
        self._top_k = top_k
        self._alpha_ndcg = AlphaNdcg(self._query.subtopics, top_k)
        self._met = met(plain.rows, self._query.subtopics)
        self._hit = self._is_hit(plain)
        self._redundant = self._repeats(plain)

    def judged(self, found: Found) -> Judged:
        """Every measure of one answer."""
        query, rows = self._query, found.rows
        now, repeats, is_hit = met(rows, query.subtopics), self._repeats(found), self._is_hit(found)
        size = max(len(rows), 1)
        return Judged(
            returned=len(rows),
            redundancy=repeats / size,
            collapsed=1.0 - repeats / self._redundant if self._redundant else math.nan,
            documents=len({self._labelled.items[row].doc for row in rows}) / size,
            recall=len(now) / len(query.subtopics),
            alpha_ndcg=self._alpha_ndcg.of(rows),
            ndcg=ndcg(rows, query.relevant, self._top_k),
            hit=float(is_hit),
            retained=float(is_hit) if self._hit else math.nan,
            kept=len(self._met & now),
            lost=len(self._met - now),
            choosing_seconds=found.choosing_seconds,
            added_seconds=found.added_seconds,
        )

    def _is_hit(self, found: Found) -> bool:
        return not self._query.relevant.isdisjoint(found.rows)

    def _repeats(self, found: Found) -> int:
        return redundant([self._labelled.items[row].atoms for row in found.rows])
