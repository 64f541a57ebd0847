"""The result of one call in numbers: metrics, access log and response header are written from its ``Report``.

A call may carry several searches, each with its own ``Figures``; the report's counts are their sums.
"""

from __future__ import annotations

from typing import NamedTuple

from .labels import (
    BypassReason,
    Collapse,
    FailOpen,
    MemoryRecall,
    Outcome,
    RuleLabel,
    Stage,
    VectorFetchOutcome,
)
from .tracing import Mark


class Figures(NamedTuple):
    """One search in numbers.

    ``repeats``: results of the database's own page that repeat a better one of it. ``collapsed_by``: collapsed candidates by reason, those
    that occur. ``short``: results fewer than requested, although the pool has more: copies that must not fill the page. ``capped``: left out by a cap. ``over_budget``: left out because the budget for texts was spent;
    ``earlier``: because they were shown before. ``restrained``: not merged because vectors alone would have collapsed most of a pool whose
    scores differ. ``exhausted``: the pool has fewer clusters than the page wants results. ``filled``: results whose cluster is already
    represented. ``score_loss``: change of the mean score against the backend's own page, as a share of that mean; 0 when unknown. ``changed``: whether
    the answer differs from that page. ``proven``, ``judged``: results of that page that left as copies, by a proof in their texts and without one;
    ``arrived``: results from lower ranks; ``saved_tokens``: an estimate, of the texts of the copies that left.
    """

    candidates: int
    clusters: int
    returned: int
    repeats: int
    collapsed: int
    collapsed_by: tuple[tuple[Collapse, int], ...]
    capped: int
    over_budget: int
    earlier: int
    filled: int
    short: int
    unusable: int
    restrained: bool
    exhausted: bool
    score_loss: float
    changed: bool = False
    proven: int = 0
    judged: int = 0
    arrived: int = 0
    saved_tokens: int = 0


class Counts(NamedTuple):
    """Sums over the searches of a call, as in Figures."""

    candidates: int
    clusters: int
    returned: int
    collapsed: int
    short: int


class Report(NamedTuple):
    """One intercepted call. ``bypass`` is set for outcome bypass, ``fail_open`` for fail_open, else None.

    ``recall``: for calls sent without vectors, whether memory had them. ``vector_fetch``: for calls whose vectors a second request fetches,
    its outcome; ``extra_read_units``: the cost of those requests, included in the answer. ``searches``, ``top_k``: totals; None if the body
    was not read. ``upstream_seconds``: spent waiting for upstream, all attempts; ``added_seconds``: the rest of the total, never negative. ``rule``: of the policy, by its name or RuleLabel.
    ``stages``: seconds by stage; ``marks``: when, for traces. ``collapsed_ids``: as in ``collapsed_value``, None if the client did not
    request them.
    """

    backend: str
    operation: str
    outcome: Outcome
    total_seconds: float
    upstream_seconds: float
    added_seconds: float
    bypass: BypassReason | None = None
    fail_open: FailOpen | None = None
    searches: int | None = None
    top_k: int | None = None
    figures: tuple[Figures, ...] = ()
    rule: str = RuleLabel.DEFAULT.value
    grown: bool = False
    hedged: bool = False
    overfetch_bytes: int = 0
    recall: MemoryRecall | None = None
    vector_fetch: VectorFetchOutcome | None = None
    extra_read_units: int = 0
    stages: tuple[tuple[Stage, float], ...] = ()
    marks: tuple[Mark, ...] = ()
    collapsed_ids: str | None = None

    @property
    def counts(self) -> Counts:
        """The sums over all its searches."""
        if len(self.figures) == 1:
            (only,) = self.figures
            return Counts(only.candidates, only.clusters, only.returned, only.collapsed, only.short)
        rows = [Counts(one.candidates, one.clusters, one.returned, one.collapsed, one.short) for one in self.figures]
        return Counts(*map(sum, zip(*rows, strict=True))) if rows else Counts(0, 0, 0, 0, 0)

    @property
    def reason(self) -> str | None:
        """Why the call was bypassed or failed open, as a label; None when it was neither."""
        if self.fail_open is not None:
            return self.fail_open.value
        return None if self.bypass is None else self.bypass.value
