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
_HEADS = ("way", "searches", "failed", "median", "p95", "added", "bytes")


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
    names = [name for name, _ in Counter(row.collection for row in rows).most_common(MOST_COLLECTIONS)]
    return Outcome(
        version=version,
        backend=backend,
        searches=len({entry.line for entry in entries}),
        turns=1 + max(entry.turn for entry in entries),
        waited=tuple(_waited(way, entries) for way in sorted(ways, key=list(Way).index)),
        verdict=verdict_of(rows) if Way.SHADOW in ways else None,
        verdicts=tuple((name, verdict_of([row for row in rows if row.collection == name])) for name in names),
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
    done = [(proxied, plain) for proxied, plain in pairs if proxied.status == plain.status]
    times = [1000 * proxied.seconds for proxied, _ in done]
    return Waited(
        way=way,
        searches=len(done),
        failed=len(pairs) - len(done),
        median=quantile(times, MIDDLE),
        slow=quantile(times, SLOW),
        more=quantile([1000 * (proxied.seconds - plain.seconds) for proxied, plain in done], MIDDLE),
        size=fmean(proxied.size for proxied, _ in done) if done else 0.0,
    )


def as_text(result: Outcome) -> str:
    """A way a column, since a terminal of 80 has no room for a column a figure."""
    rows = [*zip(_HEADS, *((str(wait.way), *wait.cells[1:]) for wait in result.waited), strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    waits = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*([] if result.verdict is None else [result.verdict.line, ""]), *waits, ""])


def page_of(result: Outcome) -> Page:
    verdict = result.verdict
    waits = Figures(
        caption="In milliseconds, with intervals of 95 %. Added: the median of what it took longer than the plain search. Bytes: of an answer",
        heads=_HEADS,
        rows=[wait.cells for wait in result.waited],
    )
    sections = [Section(title="What a client waits", tables=[waits])]
    if verdict is not None and verdict.details:
        details = Figures(caption="The verdict in figures", heads=("figure", "value"), rows=verdict.details)
        sections.insert(0, Section(title="The verdict", tables=[details]))
    if len(result.verdicts) > 1:
        sections.append(Section(title="By collection", tables=[_collections(result)]))
    return Page(
        title=f"VecSieve before your {result.backend}",
        facts=f"{result.searches:,} searches, each sent {result.turns} times in every way.",
        tiles=_tiles(result),
        sentences=() if verdict is None else (verdict.sentence,),
        sections=sections,
        made=(
            f"Made by VecSieve {result.version}, read-only: only searches were sent, one after the other. Shares and times have intervals of 95 %."
        ),
    )


def _tiles(result: Outcome) -> list[tuple[str, str, str]]:
    verdict, on = result.verdict, result.waited[-1]
    value = "–" if on.median is None else f"{on.median.value:.1f} ms"
    waits = ("a client waits", value, f"median; {in_ms(result.waited[0].median)} without VecSieve")
    if verdict is None:
        return [waits]
    return [
        ("the verdict", verdict.decision.capitalize(), f"{verdict.pages:,} pages"),
        ("pages changed", f"{100 * verdict.changed.value:.0f} %", f"of {verdict.results:.3g} results each"),
        ("repeats removed", f"{verdict.proven.value + verdict.judged.value:.1f}", "a page"),
        waits,
    ]


def _collections(result: Outcome) -> Figures:
    rows = [(name, f"{verdict.pages:,}", verdict.sentence) for name, verdict in result.verdicts]
    return Figures(caption="The verdict of each collection", heads=("collection", "pages", "verdict"), rows=rows)
