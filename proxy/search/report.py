"""What one call came to: the value that the response header, the metrics and the access log are written from.

A call may carry several searches. Each has its own ``Figures``; the report's own counts are their sums.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Operation, Pool, Search
from vecsieve.proxy.selection.values import Fate, Link, Selection
from vecsieve.proxy.telemetry.labels import (
    BypassReason,
    Collapse,
    FailOpen,
    Guard,
    MemoryLookup,
    Outcome,
    Stage,
    VectorFetchOutcome,
)
from vecsieve.proxy.telemetry.tracing import Mark

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
    operation: str
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
    recall: MemoryLookup | None = None
    looked: VectorFetchOutcome | None = None
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


# Why one search came to its results: who was left out, who stands for it, by which rule.
#
# Identifiers only. No payload, no vector, no query and no credential enters a record, so that whoever may see the admin
# port learns nothing of the texts.

DIGITS = 4  # of a similarity: more says nothing about embeddings, and would differ between machines

Id = int | str | None
"""As the database names it; None where the adapter cannot tell or the identifier is neither text nor number."""


class LeftOutBy(StrEnum):
    """Why a candidate that no other stands for is not in the answer."""

    CAPPED = "capped"  # its document or its source has as many results as the policy allows
    NOT_CHOSEN = "not_chosen"  # beyond what was asked for, or passed over by the diversifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Whose copy a candidate is, and what says so. ``similarity``: by that rule, None where the two never met."""

    of: Id
    reason: Collapse
    rule: str
    similarity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A result. ``rank``: its place in the database's own order, 0 the best. ``collapsed_ids``: whom it stands for.

    ``copy``: given where another result stands for its cluster. ``kept_apart_by``: the guard to which it owes its place.
    """

    id: Id
    rank: int
    collapsed_ids: tuple[Id, ...]
    copy: Copy | None
    kept_apart_by: Guard | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate that is no result. ``copy``: given exactly where it was collapsed; its reason is then ``reason``."""

    id: Id
    rank: int
    reason: Collapse | LeftOutBy
    copy: Copy | None
    kept_apart_by: Guard | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One search. ``acted``: False where the database's own results were left as they are."""

    backend: str
    operation: str
    collection: str
    top_k: int
    offset: int
    candidates: int
    clusters: int
    acted: bool
    threshold: float
    kept: tuple[Kept, ...]
    left_out: tuple[LeftOut, ...]

    def as_json(self) -> bytes:
        """The record as one JSON object."""
        return orjson.dumps(self)


def explain(operation: Operation, search: Search, pool: Pool, selection: Selection) -> Record:
    """What became of every candidate of ``pool``: results in answer order, the others by rank."""
    reading = _Reading(tuple(map(_id, pool.ids)) or (None,) * pool.size, selection)
    kept = selection.keep.tolist()
    return Record(
        backend=operation.backend,
        operation=operation.name,
        collection=operation.collection,
        top_k=search.top_k,
        offset=search.offset,
        candidates=pool.size,
        clusters=selection.distinct,
        acted=selection.acted,
        threshold=round(selection.threshold, DIGITS),
        kept=tuple(reading.kept(row) for row in kept),
        left_out=tuple(reading.left_out(row) for row in sorted(set(range(pool.size)) - set(kept))),
    )


class _Reading:
    """One selection, candidate by candidate."""

    __slots__ = ("_collapsed", "_fates", "_ids", "_links", "_similarities", "_standing", "_vetoes")

    def __init__(self, ids: tuple[Id, ...], selection: Selection) -> None:
        self._ids = ids
        self._fates: list[int] = selection.fates.tolist()
        self._links: list[int] = selection.links.tolist()
        self._similarities: list[float] = selection.similarities.tolist()
        self._standing: list[int] = selection.representative.tolist()
        self._vetoes: list[int] = selection.vetoes.tolist()
        self._collapsed: dict[int, list[Id]] = {}
        for row in np.flatnonzero(selection.fates == Fate.COLLAPSED).tolist():
            self._collapsed.setdefault(self._standing[row], []).append(ids[row])

    def kept(self, row: int) -> Kept:
        """A result."""
        return Kept(
            id=self._ids[row],
            rank=row,
            collapsed_ids=tuple(self._collapsed.get(row, ())),
            copy=None if self._standing[row] == row else self._copy(row),
            kept_apart_by=Guard.of(self._vetoes[row]),
        )

    def left_out(self, row: int) -> LeftOut:
        """A candidate that is no result."""
        fate = self._fates[row]
        copy = self._copy(row) if fate == Fate.COLLAPSED else None
        other = LeftOutBy.CAPPED if fate == Fate.CAPPED else LeftOutBy.NOT_CHOSEN
        return LeftOut(
            id=self._ids[row],
            rank=row,
            reason=other if copy is None else copy.reason,
            copy=copy,
            kept_apart_by=Guard.of(self._vetoes[row]),
        )

    def _copy(self, row: int) -> Copy:
        link, similarity = Link(self._links[row]), self._similarities[row]
        return Copy(
            of=self._ids[self._standing[row]],
            reason=Collapse.of(link),
            rule=link.name.lower(),
            similarity=None if math.isnan(similarity) else round(similarity, DIGITS),
        )


def _id(raw: bytes) -> Id:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


# The last searches, explained: a ring that is bounded in number and in bytes, kept in memory only.

# A record of a page of 10 out of 50 has about 6 kB; one of 1000 candidates 130 kB, and a thousand of those no room.
MOST_BYTES = 4 * 1024 * 1024


class Recent:
    """``keep``: how many, 0 = off. ``now``: seconds since the epoch, as records show when they were made."""

    __slots__ = ("_bytes", "_held", "_most_bytes", "_now", "_number", "keep")

    def __init__(self, keep: int, *, now: Callable[[], float], most_bytes: int = MOST_BYTES) -> None:
        self.keep = keep
        self._now = now
        self._most_bytes = most_bytes
        self._held: deque[bytes] = deque()
        self._bytes = 0
        self._number = 0

    def add(self, record: Record) -> None:
        """Hold the record in place of the oldest; one that is larger than all room there is is only counted."""
        self._number += 1
        self._hold(b'{"number":%d,"at":%.3f,%b' % (self._number, self._now(), record.as_json()[1:]))

    def resize(self, keep: int) -> None:
        """Hold that many from now on; 0 forgets all."""
        self.keep = keep
        self._shrink()

    def as_json(self) -> bytes:
        """All records, the newest first. ``keep`` says whether none are wanted or none were made."""
        return b'{"keep":%d,"records":[%b]}\n' % (self.keep, b",".join(reversed(self._held)))

    def _hold(self, record: bytes) -> None:
        self._held.append(record)
        self._bytes += len(record)
        self._shrink()

    def _shrink(self) -> None:
        while self._held and (len(self._held) > self.keep or self._bytes > self._most_bytes):
            self._bytes -= len(self._held.popleft())
