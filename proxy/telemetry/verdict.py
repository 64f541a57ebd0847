"""Whether mode `on` pays, from the searches that mode shadow measured: go, no-go or not enough yet. And the words in which every outlet says it.

Intervals are of 95 %. Shares are Wilson's; results of one page depend on each other, so a share of results counts as many results as would vary as much if
they did not. Times are medians with the interval of their ranks, because a few slow searches must not decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, median, stdev
from typing import NamedTuple

from .labels import FailOpen
from .reports import Report

LEAST_PAGES = 20  # fewer decide nothing
LEAST_CHANGED = 0.05  # the share of pages from which `on` pays
MOST_FAILED = 0.05  # the share of measurements, as in the alert VecSieveFailOpenHigh
MOST_ADDED_MS = 25.0  # as in the alert VecSieveAddedLatencyHigh
LEAST_TIMES = 6  # the interval of a median needs as many
MIDDLE = 0.5
Z = 1.96


class Plain(NamedTuple):
    """The client's own search: what it took, and the size of its answer. ``seconds``: None if a measurement ran beside it, which slows it."""

    seconds: float | None
    body_bytes: int


class Measured(NamedTuple):
    """One search of a measurement; its fields are simple values, so that processes can exchange it as JSON.

    ``is_warm``: whether the searches before it were measured, too, so that caches are as in mode `on`. ``failed``: the reason if nothing was selected; the
    figures are then 0. ``results``: of the database's own page. ``changed`` to ``tokens``: as in Figures. ``added_ms``, ``plain_ms``: of the first
    search of a call, if no measurement ran beside the client's own search; else None. Bytes are those of the call, divided by its searches.
    """

    collection: str
    is_warm: bool
    failed: str | None = None
    results: int = 0
    changed: bool = False
    proven: int = 0
    judged: int = 0
    arrived: int = 0
    tokens: int = 0
    fetched_bytes: float = 0.0
    plain_bytes: float = 0.0
    added_ms: float | None = None
    plain_ms: float | None = None


def measured_rows(
    report: Report | None, reason: FailOpen, plain: Plain, *, collection: str, is_warm: bool
) -> list[Measured]:
    """A row for each search of a measurement. ``report``: None if it came to nothing. ``reason``: why, if it has no figures."""
    if report is None or not report.figures:
        return [Measured(collection, is_warm, failed=reason.value)]
    searches = len(report.figures)
    rows = [
        Measured(
            collection,
            is_warm,
            results=figures.returned + figures.short,
            changed=figures.changed,
            proven=figures.proven,
            judged=figures.judged,
            arrived=figures.arrived,
            tokens=figures.saved_tokens,
            fetched_bytes=report.overfetch_bytes / searches,
            plain_bytes=plain.body_bytes / searches,
        )
        for figures in report.figures
    ]
    if plain.seconds is None:
        return rows
    plain_ms = plain.seconds * 1000
    rows[0] = rows[0]._replace(added_ms=report.total_seconds * 1000 - plain_ms, plain_ms=plain_ms)
    return rows


class Decision(StrEnum):
    GO = "go"
    NO_GO = "no-go"
    NOT_YET = "not enough yet"


class Estimate(NamedTuple):
    """A value and its interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Estimate:
        return Estimate(*(bound * factor for bound in self))


NOTHING = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``pages``: measured searches, ``warm`` of them with warm caches; ``failures``: measurements without a selection, by reason. ``changed``: a share of pages.
    ``results``, ``proven``, ``judged``, ``arrived``, ``tokens`` and bytes: per page. ``warm_ms``, ``cold_ms``: what a search would take longer; None if too
    few were measured. ``plain_ms``: the median of the clients' own searches.
    """

    decision: Decision
    reason: str
    pages: int
    warm: int
    failures: dict[str, int]
    results: float
    changed: Estimate
    proven: Estimate
    judged: Estimate
    arrived: Estimate
    tokens: Estimate
    fetched_bytes: Estimate
    plain_bytes: float
    warm_ms: Estimate | None
    cold_ms: Estimate | None
    plain_ms: float

    @property
    def sentence(self) -> str:
        """The decision and its reason."""
        return f"{self.decision.capitalize()}: {self.reason}"

    @property
    def details(self) -> list[tuple[str, str]]:
        """The figures, each with its name."""
        if not self.pages:
            return []
        rows = [
            ("measured", f"{self.pages:,} pages, {self.warm:,} with warm caches, after the clients had their answers"),
            ("pages changed", _percents(self.changed)),
            ("repeats removed", f"{_span(self.proven)} a page proven by texts, {_span(self.judged)} judged"),
            ("results that came in", f"{_span(self.arrived)} a page of {self.results:.3g}"),
            (
                "time added to a search",
                f"warm {in_ms(self.warm_ms)}, cold {in_ms(self.cold_ms)}; it takes {self.plain_ms:.1f} ms now",
            ),
            (
                "bytes",
                f"{_span(self.fetched_bytes.scaled(1e-3))} kB a search from the database, {self.plain_bytes / 1e3:.1f} kB now",
            ),
            ("tokens saved", f"about {_span(self.tokens, digits=0)} a page, of repeats"),
        ]
        failed = ", ".join(f"{count} {name}" for name, count in self.failures.items())
        return [*rows, ("failed", failed)] if failed else rows

    @property
    def line(self) -> str:
        """All of it in one line."""
        return " ".join([self.sentence, *(f"{name.capitalize()}: {words}." for name, words in self.details)])


def verdict_of(rows: Sequence[Measured]) -> Verdict:
    """The verdict of these searches, of one collection or of all."""
    pages = [row for row in rows if row.failed is None]
    sizes = [row.results for row in pages]
    plain = [row.plain_ms for row in pages if row.plain_ms is not None]
    figures = Verdict(
        decision=Decision.NOT_YET,
        reason="",
        pages=len(pages),
        warm=sum(row.is_warm for row in pages),
        failures=dict(Counter(row.failed for row in rows if row.failed is not None).most_common()),
        results=fmean(sizes) if sizes else 0.0,
        changed=_share(sum(row.changed for row in pages), len(pages)),
        proven=_per_page([row.proven for row in pages], sizes),
        judged=_per_page([row.judged for row in pages], sizes),
        arrived=_per_page([row.arrived for row in pages], sizes),
        tokens=_mean([row.tokens for row in pages]),
        fetched_bytes=_mean([row.fetched_bytes for row in pages]),
        plain_bytes=fmean(row.plain_bytes for row in pages) if pages else 0.0,
        warm_ms=quantile([row.added_ms for row in pages if row.added_ms is not None and row.is_warm], MIDDLE),
        cold_ms=quantile([row.added_ms for row in pages if row.added_ms is not None and not row.is_warm], MIDDLE),
        plain_ms=median(plain) if plain else 0.0,
    )
    decision, reason = _decided(figures)
    return replace(figures, decision=decision, reason=reason)


def _decided(figures: Verdict) -> tuple[Decision, str]:
    """The decision, and why."""
    pages, changed, added = figures.pages, figures.changed, figures.warm_ms or figures.cold_ms
    failed = sum(figures.failures.values())
    if _share(failed, failed + pages).low > MOST_FAILED:
        most = next(iter(figures.failures))
        return Decision.NO_GO, f"{failed} of {failed + pages} measurements failed, most often by {most}."
    if pages < LEAST_PAGES:
        return Decision.NOT_YET, f"{pages} of at least {LEAST_PAGES} pages are measured."
    change = f"mode on would change {_percents(changed)} of pages"
    if changed.high < LEAST_CHANGED:
        return Decision.NO_GO, f"{change}: there is next to nothing to remove."
    if changed.low < LEAST_CHANGED:
        return Decision.NOT_YET, f"{change}. {LEAST_CHANGED * 100:.0f} % decide, so more searches are needed."
    if added is not None and added.low > max(MOST_ADDED_MS, figures.plain_ms):
        return (
            Decision.NO_GO,
            f"mode on would add {in_ms(added)} to a search, which takes {figures.plain_ms:.1f} ms now.",
        )
    removed = figures.proven.value + figures.judged.value
    time = (
        "too few are measured to say how much time it adds" if added is None else f"it adds {in_ms(added)} to a search"
    )
    is_doubtful = figures.judged.value > figures.proven.value
    check = " Most of them are judged, not proven: check some under Doubtful." if is_doubtful else ""
    return Decision.GO, f"{change}: {removed:.1f} of {figures.results:.3g} results are repeats, and {time}.{check}"


def _percents(share: Estimate) -> str:
    return f"{100 * share.value:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f})"


def _span(figure: Estimate, *, digits: int = 1) -> str:
    return f"{figure.value:,.{digits}f} ({figure.low:,.{digits}f} to {figure.high:,.{digits}f})"


def in_ms(added: Estimate | None) -> str:
    return "too few to say" if added is None else f"{added.value:.1f} ms ({added.low:.1f} to {added.high:.1f})"


def _share(hits: float, of: float) -> Estimate:
    """Wilson's interval, which is right for shares near 0 and 1, too."""
    if not of:
        return NOTHING
    share, square = hits / of, Z * Z / of
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half))


def _per_page(counts: Sequence[int], sizes: Sequence[int]) -> Estimate:
    """Results per page, from their share of all results."""
    pages, results = len(counts), sum(sizes)
    if not results:
        return NOTHING
    share = min(1.0, sum(counts) / results)
    errors = (count - share * size for count, size in zip(counts, sizes, strict=True))
    variance = sum(error * error for error in errors) / results**2 * pages / max(1, pages - 1)
    independent = min(results, share * (1 - share) / variance) if variance else pages
    return _share(share * independent, independent).scaled(results / pages)


def _mean(values: Sequence[float]) -> Estimate:
    if len(values) < 2:
        return Estimate(*[float(values[0]) if values else 0.0] * 3)
    mean, half = fmean(values), Z * stdev(values) / math.sqrt(len(values))
    return Estimate(mean, max(0.0, mean - half), mean + half)


def quantile(values: Sequence[float], share: float) -> Estimate | None:
    """The value that this share of all does not exceed, with the interval of its ranks. None for too few values."""
    if (count := len(values)) < LEAST_TIMES:
        return None
    ranked, half = sorted(values), Z * math.sqrt(count * share * (1 - share))
    low, high = math.floor(count * share - half), math.ceil(count * share + half)
    below, between = divmod((count - 1) * share, 1)
    value = ranked[int(below)] + between * (ranked[min(count - 1, int(below) + 1)] - ranked[int(below)])
    return Estimate(value, ranked[max(0, low - 1)], ranked[min(count - 1, high)])
