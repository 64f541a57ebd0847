"""What one call came to: the value that the response header, the metrics and the access log are written from.

A call may carry several searches. Each has its own ``Figures``; the report's own counts are their sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool, Search
from vecsieve.proxy.labels import (
    BypassReason,
    Collapse,
    FailOpen,
    Guard,
    Looked,
    OperationName,
    Outcome,
    Recall,
    Stage,
)
from vecsieve.proxy.selection.values import Fate, Selection
from vecsieve.proxy.stopwatch import Mark

REPORT_HEADER = "x-vecsieve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One search in numbers.

    ``collapsed_by``: how many of the collapsed for which reason, those that occur. ``vetoed_by``: likewise how many
    candidates which guard kept from being collapsed. ``capped``: left out by a cap.
    ``restrained``: left alone because vectors alone would have collapsed most of a pool whose scores differ.
    ``exhausted``: the pool held fewer clusters than the page wanted results.
    ``filled``: results whose cluster is already represented in the answer, there being no more representatives.
    ``mmr_swaps``: representatives in the answer that plain rank order would not have put there.
    ``score_loss``: how far the mean score moved from the backend's own page, as a share of that mean; 0 when unknown.
    """

    candidates: int
    clusters: int
    returned: int
    collapsed: int
    collapsed_by: tuple[tuple[Collapse, int], ...]
    vetoed_by: tuple[tuple[Guard, int], ...]
    capped: int
    filled: int
    unusable: int
    restrained: bool
    exhausted: bool
    mmr_swaps: int
    score_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One intercepted call. ``bypass`` is given for outcome bypass, ``fail_open`` for fail_open, else None.

    ``recall``: what became of a call that was fetched without vectors, None for others. ``looked``: of one whose vectors a
    second request was to bring, likewise; ``extra_read_units``: what those requests cost, part of what the answer tells.
    ``searches``: how many the call carries, and ``top_k``: how many results they ask for together; None where nobody has
    read that. ``upstream_seconds``: time spent waiting for upstream, all attempts. ``stages``: seconds per stage, those entered;
    ``marks``: when, kept for traces alone.
    """

    backend: str
    operation: OperationName
    outcome: Outcome
    total_seconds: float
    upstream_seconds: float
    bypass: BypassReason | None = None
    fail_open: FailOpen | None = None
    searches: int | None = None
    top_k: int | None = None
    figures: tuple[Figures, ...] = ()
    grown: bool = False
    hedged: bool = False
    overfetch_bytes: int = 0
    recall: Recall | None = None
    looked: Looked | None = None
    extra_read_units: int = 0
    stages: tuple[tuple[Stage, float], ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def added_seconds(self) -> float:
        """What the proxy cost; never negative, whatever two clock readings say."""
        return max(0.0, self.total_seconds - self.upstream_seconds)

    @property
    def candidates(self) -> int:
        """Candidates of all searches."""
        return sum(each.candidates for each in self.figures)

    @property
    def clusters(self) -> int:
        """Clusters of all searches."""
        return sum(each.clusters for each in self.figures)

    @property
    def returned(self) -> int:
        """Results of all searches."""
        return sum(each.returned for each in self.figures)

    @property
    def collapsed(self) -> int:
        """Candidates left out because another one stands for them, of all searches."""
        return sum(each.collapsed for each in self.figures)

    @property
    def reason(self) -> str | None:
        """Why the call was bypassed or failed open, as a label; None when it was neither."""
        if self.fail_open is not None:
            return self.fail_open.value
        return None if self.bypass is None else self.bypass.value


def header_value(report: Report) -> str:
    """The value of the response header on intercepted answers.

    Grammar (RFC 5234), members in this order and the first five always there, so that both a person and ``split`` can read
    it::

        value  = "pool=" count ";clusters=" count ";returned=" count ";collapsed=" count ";added_ms=" millis [units] [hedged]
        units  = ";extra_read_units=" count
        hedged = ";hedged=1"
        count  = 1*DIGIT
        millis = 1*DIGIT "." DIGIT

    Counts are sums over the call's searches; ``added_ms`` is total time minus time spent waiting for upstream; ``units`` are
    those of lookups, given where there were any; ``hedged`` where the client's own search was sent as well.
    """
    units = f";extra_read_units={report.extra_read_units}" if report.looked is not None else ""
    hedged = ";hedged=1" if report.hedged else ""
    return (
        f"pool={report.candidates};clusters={report.clusters};returned={report.returned}"
        f";collapsed={report.collapsed};added_ms={report.added_seconds * 1000:.1f}{units}{hedged}"
    )


def figures(search: Search, pool: Pool, selection: Selection) -> Figures:
    """Read one search's numbers off what was asked, fetched and chosen."""
    fates = selection.fates.tolist()
    return Figures(
        candidates=pool.size,
        clusters=selection.distinct,
        returned=len(selection.keep),
        collapsed=fates.count(Fate.COLLAPSED.value),
        collapsed_by=_collapsed_by(selection),
        vetoed_by=_vetoed_by(selection),
        capped=fates.count(Fate.CAPPED.value),
        filled=fates.count(Fate.FILLED.value),
        unusable=pool.unusable,
        restrained=selection.restrained,
        exhausted=selection.wanting > 0,
        mmr_swaps=_swaps(search, selection),
        score_loss=_score_loss(search, pool, selection),
    )


def _collapsed_by(selection: Selection) -> tuple[tuple[Collapse, int], ...]:
    counts: dict[Collapse, int] = {}
    for link, count in enumerate(np.bincount(selection.links[selection.fates == Fate.COLLAPSED.value]).tolist()):
        if count:
            reason = Collapse.of(link)
            counts[reason] = counts.get(reason, 0) + count
    return tuple((reason, counts[reason]) for reason in Collapse if reason in counts)


def _vetoed_by(selection: Selection) -> tuple[tuple[Guard, int], ...]:
    counts = np.bincount(selection.vetoes).tolist()
    return tuple((guard, count) for veto, count in enumerate(counts) if count and (guard := Guard.of(veto)) is not None)


def _swaps(search: Search, selection: Selection) -> int:
    if search.pages or not selection.acted:
        return 0  # one list read page by page is in rank order: there is no MMR in it
    keep = selection.keep
    chosen = keep[selection.representative[keep] == keep]
    each = np.arange(len(selection.representative), dtype=np.intp)
    by_rank = np.flatnonzero(selection.representative == each)
    if not len(chosen):
        return 0
    # Both are representatives and the first ones by rank are as many as were chosen: whatever lies behind them swapped in.
    return int(np.count_nonzero(chosen > by_rank[len(chosen) - 1]))


def _score_loss(search: Search, pool: Pool, selection: Selection) -> float:
    """Absolute, because whether lower or higher is better is the backend's secret."""
    own = _mean(pool.scores[search.offset : search.offset + len(selection.keep)])
    kept = _mean(pool.scores[selection.keep])
    loss = abs(own - kept) / abs(own) if own else 0.0
    return loss if math.isfinite(loss) else 0.0


def _mean(scores: npt.NDArray[np.float64]) -> float:
    return float(scores.sum()) / len(scores) if len(scores) else 0.0
