"""What was measured, as text, as JSON and as one self-contained HTML page, without texts, addresses and keys: it can be sent to a colleague."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ...telemetry.verdict import MIDDLE, Estimate, Measured, Verdict, in_ms, quantile, verdict_of
from ..pages import Figures, Page, Section
from .run import Entry, Way

SLOW = 0.95
MOST_COLLECTIONS = 20
_ABOUT = {
    Way.PLAIN: "the database itself",
    Way.SHADOW: "mode shadow: the same answers, measured afterwards",
    Way.ON: "mode on",
    Way.THROUGH: "the running VecSieve",
}
_HEADS = ("way", "searches", "failed", "median", "p95", "more than plain, median", "bytes of an answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """One way, as the client sees it, in milliseconds; None for too few. ``more``: than the plain search of the same turn. ``failed``: answers without
    success where the database had one; they are in no other figure.
    """

    way: Way
    searches: int
    failed: int
    median: Estimate | None
    slow: Estimate | None
    more: Estimate | None
    size: float

    @property
    def cells(self) -> tuple[str, ...]:
        more = "–" if self.way is Way.PLAIN else in_ms(self.more)
        return (
            *(_ABOUT[self.way], f"{self.searches:,}", f"{self.failed:,}", in_ms(self.median), in_ms(self.slow)),
            *(more, f"{self.size:,.0f}"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``verdicts``: of each collection, the most searched first. ``verdict``: None if mode shadow was no way of the run."""

    version: str
    backend: str
    searches: int
    turns: int
    waited: tuple[Waited, ...]
    verdict: Verdict | None
    verdicts: tuple[tuple[str, Verdict], ...]


def outcome(entries: Sequence[Entry], *, version: str, backend: str) -> Outcome:
    ways = [Way(name) for name in entries[0].sent]
    rows = [row for entry in entries for row in _timed(entry)]
    return Outcome(
        version=version,
        backend=backend,
        searches=len({entry.line for entry in entries}),
        turns=1 + max(entry.turn for entry in entries),
        waited=tuple(_waited(way, entries) for way in sorted(ways, key=list(Way).index)),
        verdict=verdict_of(rows) if Way.SHADOW in ways else None,
        verdicts=_by_collection(rows),
    )


def _timed(entry: Entry) -> list[Measured]:
    """What mode shadow measured, with the times of the client in mode on: it waits for the whole answer, and not for the selection alone."""
    on, plain = entry.sent.get(Way.ON.value), entry.sent[Way.PLAIN.value]
    if on is None or on.status != plain.status:
        return entry.rows
    added, took = 1000 * (on.seconds - plain.seconds), 1000 * plain.seconds
    return [row._replace(added_ms=added, plain_ms=took) if row.failed is None else row for row in entry.rows]


def _waited(way: Way, entries: Sequence[Entry]) -> Waited:
    pairs = [(entry.sent[way.value], entry.sent[Way.PLAIN.value]) for entry in entries]
    done = [(own, plain) for own, plain in pairs if own.status == plain.status]
    times = [1000 * own.seconds for own, _ in done]
    return Waited(
        way=way,
        searches=len(done),
        failed=len(pairs) - len(done),
        median=quantile(times, MIDDLE),
        slow=quantile(times, SLOW),
        more=quantile([1000 * (own.seconds - plain.seconds) for own, plain in done], MIDDLE),
        size=fmean(own.size for own, _ in done) if done else 0.0,
    )


def _by_collection(rows: Sequence[Measured]) -> tuple[tuple[str, Verdict], ...]:
    names = [name for name, _ in Counter(row.collection for row in rows).most_common(MOST_COLLECTIONS)]
    return tuple((name, verdict_of([row for row in rows if row.collection == name])) for name in names)


def as_text(found: Outcome) -> str:
    rows = [_HEADS, *((str(each.way), *each.cells[1:]) for each in found.waited)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    waits = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*([] if found.verdict is None else [found.verdict.line, ""]), *waits, ""])


def page_of(found: Outcome) -> Page:
    verdict = found.verdict
    sections = [Section(title="What a client waits", tables=[_waits(found)])]
    if verdict is not None and verdict.details:
        details = Figures(caption="The verdict in figures", heads=("figure", "value"), rows=verdict.details)
        sections.insert(0, Section(title="The verdict", tables=[details]))
    if len(found.verdicts) > 1:
        sections.append(Section(title="By collection", tables=[_collections(found)]))
    return Page(
        title=f"VecSieve before your {found.backend}",
        facts=f"{found.searches:,} searches, each sent {found.turns} times in every way.",
        tiles=_tiles(found),
        sentences=() if verdict is None else (verdict.sentence,),
        sections=sections,
        made=(
            f"Made by VecSieve {found.version}, read-only: only searches were sent, one after the other. Shares and times have intervals of 95 %."
        ),
    )


def _tiles(found: Outcome) -> list[tuple[str, str, str]]:
    verdict, on = found.verdict, found.waited[-1]
    value = "–" if on.median is None else f"{on.median.value:.1f} ms"
    waits = ("a client waits", value, f"median; {in_ms(found.waited[0].median)} without VecSieve")
    if verdict is None:
        return [waits]
    return [
        ("the verdict", verdict.decision.capitalize(), f"{verdict.pages:,} pages"),
        ("pages changed", f"{100 * verdict.changed.value:.0f} %", f"of {verdict.results:.3g} results each"),
        ("repeats removed", f"{verdict.proven.value + verdict.judged.value:.1f}", "a page"),
        waits,
    ]


def _waits(found: Outcome) -> Figures:
    rows = [each.cells for each in found.waited]
    return Figures(caption="In milliseconds, with intervals of 95 %", heads=_HEADS, rows=rows)


def _collections(found: Outcome) -> Figures:
    rows = [(name, f"{verdict.pages:,}", verdict.sentence) for name, verdict in found.verdicts]
    return Figures(caption="The verdict of each collection", heads=("collection", "pages", "verdict"), rows=rows)
