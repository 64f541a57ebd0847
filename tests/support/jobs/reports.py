"""Reports with everything filled in, for what is written from them."""

from __future__ import annotations

from vecsieve.proxy.telemetry.labels import Collapse, Outcome, Stage
from vecsieve.proxy.telemetry.reports import Figures, Report

FIGURES = Figures(
    candidates=50,
    clusters=31,
    returned=8,
    repeats=3,
    collapsed=12,
    collapsed_by=((Collapse.CONTAINED, 5), (Collapse.VECTORS, 7)),
    capped=4,
    over_budget=7,
    earlier=6,
    filled=1,
    short=0,
    unusable=2,
    restrained=True,
    exhausted=False,
    score_loss=0.02,
)
REPORT = Report(
    backend="qdrant",
    operation="query",
    outcome=Outcome.DEDUP,
    total_seconds=0.0114,
    upstream_seconds=0.010,
    added_seconds=0.0014,
    figures=(FIGURES,),
    grown=True,
    overfetch_bytes=70_000,
    stages=((Stage.UPSTREAM, 0.010), (Stage.DECODE, 0.0008), (Stage.SELECT, 0.00003)),
)


def report_of(figures: Figures, *more: Figures) -> Report:
    return REPORT._replace(figures=(figures, *more))


def timed(report: Report, total_seconds: float, upstream_seconds: float) -> Report:
    """The report of a call that took so long."""
    added = max(0.0, total_seconds - upstream_seconds)
    return report._replace(total_seconds=total_seconds, upstream_seconds=upstream_seconds, added_seconds=added)
