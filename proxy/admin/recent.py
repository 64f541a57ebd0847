"""The last searches, candidate by candidate, for the admin port. Identifiers only, unless the settings ask for texts.

A search is kept as the arrays of its selection, which costs microseconds. The readable ``Record`` is made on request.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import add
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Operation, Pool
from vecsieve.config.schema import Settings

from ..search.candidates import records_of
from ..search.policy import ResolvedPolicy
from ..search.pools.values import Selected
from ..selection.values import Fate, Link, Selection
from ..telemetry.labels import COLLAPSE_OF, Collapse, Outcome
from ..telemetry.reports import Figures, Report
from .pools import Pools
from .reasons import why_left

DIGITS = 4  # of a similarity or a score: more digits are noise, and differ between machines
TEXT_CHARACTERS = 600  # characters of a text that are kept, enough to judge by
WORDS_CHARACTERS = 120  # of the first result, by which a person recognises a search in the list
# Seconds from one search with texts to the next: reading those of 40 candidates of 470 characters takes 0.24 ms, and nobody reads more searches.
TEXTS_SECONDS = 0.02

Id = int | str | None
"""In the database's type; None if the adapter has no ids, or the id is neither text nor number."""


class LeftOutBy(StrEnum):
    """Why a candidate that is no copy is not in the answer."""

    CAPPED = "capped"  # its document or its source has as many results as the policy allows
    SHOWN = "shown_before"  # an earlier list of the request or an earlier turn showed it, or a copy
    OVER_BUDGET = "over_budget"  # better results used up the token budget
    NOT_CHOSEN = "not_chosen"  # beyond what was requested, or passed over by the diversifier


NOTHING: Mapping[int, str] = MappingProxyType({})
_LEFT_OUT: Mapping[int, LeftOutBy] = {
    Fate.EARLIER: LeftOutBy.SHOWN,
    Fate.CAPPED: LeftOutBy.CAPPED,
    Fate.OVER_BUDGET: LeftOutBy.OVER_BUDGET,
}


# Without a proof in words: what a person should judge.
DOUBTFUL = (Link.EDITED, Link.REWORDED, Link.DISTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The result that says what a candidate says, and how that was found.

    ``rank``: of that result. ``also``: of a second one, which holds another part; None if there is none. ``similarity``: as in Selection; None if unknown.
    ``cut``: the required similarity of vectors; None if no cut decided. ``why``: all of it in words, with ranks from 1.
    """

    of: Id
    rank: int
    also: int | None
    reason: Collapse
    similarity: float | None
    cut: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A result. ``rank``: in the database's own order, 0 is the best. ``collapsed_ids``: its copies.

    ``copy``: set if another result represents its cluster. ``stays``: why it stays although another result is like it, in words; None if none is, or
    its pool was not kept. ``text``: its start; None without a text, or unless the settings ask for texts.
    """

    id: Id
    rank: int
    score: float | None
    collapsed_ids: tuple[Id, ...]
    copy: Copy | None
    stays: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate that is no result. ``copy``: set exactly if it was collapsed; ``reason`` is then that of the copy."""

    id: Id
    rank: int
    score: float | None
    reason: Collapse | LeftOutBy
    copy: Copy | None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One search. Holds no vector, query or credential, and payload only as ``text``. ``acted``: False if the database's own results were
    left unchanged; ``restrained``: because vectors alone would have merged most of the pool. ``short``: results fewer than requested,
    although copies were left. ``threshold``: the cut of vectors, None if they decided nothing.
    """

    backend: str
    operation: str
    collection: str
    outcome: Outcome
    added_ms: float
    top_k: int
    offset: int
    candidates: int
    clusters: int
    acted: bool
    restrained: bool
    short: int
    threshold: float | None
    kept: tuple[Kept, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The kept data of one search: no vector, no query, and payload only as the starts of ``texts``."""

    operation: Operation
    top_k: int
    offset: int
    ids: tuple[bytes, ...]
    scores: npt.NDArray[np.float64]
    selection: Selection
    figures: Figures
    outcome: Outcome = Outcome.DEDUP
    added_ms: float = 0.0
    texts: tuple[str | None, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """Approximate memory use."""
        texts = 0 if self.texts is None else sum(len(text) + 50 for text in self.texts if text is not None)
        return 1000 + sum(map(len, self.ids)) + 91 * len(self.scores) + 2 * texts

    def summary(self) -> dict[str, object]:
        """One search in numbers, for the list. ``repeats``: results of the database's own page that repeat a better one on it; ``changed``: whether
        the answer differs from that page; ``words``: how the first result's text begins; None without texts.
        """
        names = ("candidates", "clusters", "repeats", "collapsed", "changed", "proven", "judged", "saved_tokens")
        return {
            "collection": self.operation.collection,
            "operation": self.operation.name,
            "outcome": self.outcome,
            "added_ms": self.added_ms,
            "results": self.figures.returned,
            **{name: getattr(self.figures, name) for name in names},
            "words": None if self.texts is None else self._words(),
        }

    def _words(self) -> str | None:
        """The start of the first result's text, on one line; None if it has none."""
        first = next(iter(self.selection.keep.tolist()), None)
        text = None if first is None or self.texts is None else self.texts[first]
        return None if text is None else " ".join(text.split())[:WORDS_CHARACTERS]

    def record(self, why: Mapping[int, str] = NOTHING) -> Record:
        """What happened to every candidate: results in answer order, the others by rank. ``why``: reasons in words, by rank."""
        reading = _Reading(self, why)
        kept = self.selection.keep.tolist()
        return Record(
            backend=self.operation.backend,
            operation=self.operation.name,
            collection=self.operation.collection,
            outcome=self.outcome,
            added_ms=self.added_ms,
            top_k=self.top_k,
            offset=self.offset,
            candidates=len(self.scores),
            clusters=self.selection.distinct,
            acted=self.selection.acted,
            restrained=self.selection.restrained,
            short=self.figures.short,
            threshold=_rounded(self.selection.threshold),
            kept=tuple(reading.kept(row) for row in kept),
            left_out=tuple(reading.left_out(row) for row in sorted(set(range(len(self.scores))) - set(kept))),
        )

    @property
    def has_doubtful(self) -> bool:
        """Whether a candidate left without a proof."""
        chosen = self.selection
        return bool(np.any(np.isin(chosen.links, DOUBTFUL) & (chosen.fates == Fate.COLLAPSED)))


def seen_of(selected: Selected, report: Report, *, texts: bool) -> Iterator[Seen]:
    """One for each widened search of an improved answer. ``report``: of that answer."""
    call, pools, plan = selected.pools.call, selected.pools.reply.pools, selected.pools.planned.plan
    searches = zip(call.searches, pools, selected.selections, report.figures, plan, strict=True)
    for search, pool, selection, figures, planned in searches:
        if planned is not None:
            yield Seen(
                operation=call.operation,
                top_k=search.top_k,
                offset=search.offset,
                ids=pool.ids,
                scores=pool.scores.copy(),  # it may be a view of a larger array
                selection=selection,
                figures=figures,
                outcome=report.outcome,
                added_ms=round(report.added_seconds * 1000, 2),
                texts=_texts(selected.pools.policy, pool) if texts else None,
            )


def _texts(policy: ResolvedPolicy, pool: Pool) -> tuple[str | None, ...] | None:
    """The starts of the texts that selection compared; None if the policy reads none."""
    records = records_of(pool, tenant_keys=policy.tenant_keys, fields=policy.fields)
    texts = tuple(None if record.text is None else record.text.raw[:TEXT_CHARACTERS] for record in records)
    return texts if any(texts) else None


class _Reading:
    """One selection, candidate by candidate."""

    def __init__(self, seen: Seen, why: Mapping[int, str]) -> None:
        selection, n = seen.selection, len(seen.scores)
        self._ids = tuple(map(_id, seen.ids)) or (None,) * n
        self._scores = [_rounded(score) for score in seen.scores.tolist()]
        self._texts = seen.texts or (None,) * n
        self._why = why
        self._fates: list[int] = selection.fates.tolist()
        self._links: list[int] = selection.links.tolist()
        self._similarities: list[float] = selection.similarities.tolist()
        self._cuts: list[float] = selection.cuts.tolist()
        self._standing: list[int] = selection.representative.tolist()
        self._also: list[int] = selection.also.tolist()
        self._collapsed: dict[int, list[Id]] = {}
        for row in np.flatnonzero(selection.fates == Fate.COLLAPSED).tolist():
            self._collapsed.setdefault(self._standing[row], []).append(self._ids[row])

    def kept(self, row: int) -> Kept:
        return Kept(
            id=self._ids[row],
            rank=row,
            score=self._scores[row],
            collapsed_ids=tuple(self._collapsed.get(row, ())),
            copy=None if self._standing[row] == row else self._copy(row),
            stays=self._why.get(row) if self._standing[row] == row else None,
            text=self._texts[row],
        )

    def left_out(self, row: int) -> LeftOut:
        fate = self._fates[row]
        copy = self._copy(row) if fate == Fate.COLLAPSED else None
        other = _LEFT_OUT.get(fate, LeftOutBy.NOT_CHOSEN)
        return LeftOut(
            id=self._ids[row],
            rank=row,
            score=self._scores[row],
            reason=other if copy is None else copy.reason,
            copy=copy,
            text=self._texts[row],
        )

    def _copy(self, row: int) -> Copy:
        link, similarity, cut = Link(self._links[row]), self._similarities[row], self._cuts[row]
        head, also = self._standing[row], self._also[row]
        numbers = [head + 1, *([also + 1] if also >= 0 else [])]
        return Copy(
            of=self._ids[head],
            rank=head,
            also=also if also >= 0 else None,
            reason=COLLAPSE_OF[link],
            similarity=_rounded(similarity),
            cut=_rounded(cut),
            why=self._why.get(row) or why_left(link, numbers, similarity, cut),
        )


def _rounded(number: float) -> float | None:
    return round(number, DIGITS) if math.isfinite(number) else None


def _id(raw: bytes) -> Id:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


# A search of 50 candidates takes about 6 kB, one of 1000 about 100 kB; a thousand of the latter would be too much.
MOST_BYTES = 4 * 1024 * 1024
PLACES = 256  # the most workers


@dataclass(frozen=True, slots=True)
class Numbered:
    """A search with its number and its time in seconds since the epoch. ``size_bytes``: that of ``seen``."""

    number: int
    at: float
    seen: Seen
    size_bytes: int


KEPT_IN_PRIVATE = 50  # 300 kB, and as many as a person reads


def kept_by(settings: Settings) -> int:
    """How many searches are kept: `explain.keep`, or its default."""
    if settings.explain.keep is None:
        return KEPT_IN_PRIVATE if settings.admin_is_private else 0
    return settings.explain.keep


# The share of repeats in each collection's answers over the last hour, in memory, for the inspector's curve. Prometheus has longer periods
# without names of collections; this has the names for an hour.

BUCKET_SECONDS = 10
BUCKETS = 360  # an hour; one collection takes 40 kB
MOST_COLLECTIONS = 64  # the least recently searched one is dropped
MEMBERS = ("searches", "changed", "results", "repeats", "candidates", "collapsed")


class Trends:
    """Counts by collection and bucket. ``now``: seconds since the epoch."""

    __slots__ = ("_kept", "_now")

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[str, dict[int, tuple[int, ...]]] = OrderedDict()

    def add(self, search: Seen, at: float) -> None:
        """Count one search that ended at this time."""
        collection, figures = search.operation.collection, search.figures
        buckets = self._kept.setdefault(collection, {})
        self._kept.move_to_end(collection)
        while len(self._kept) > MOST_COLLECTIONS:
            self._kept.popitem(last=False)
        counts = (
            1, figures.changed, figures.returned, figures.repeats, figures.candidates, figures.collapsed
        )  # fmt: skip
        number = int(at) // BUCKET_SECONDS
        before = buckets.get(number, (0,) * len(counts))
        buckets[number] = tuple(map(add, before, counts))
        if len(buckets) > BUCKETS:
            del buckets[next(iter(buckets))]  # the oldest

    def as_rows(self) -> list[dict[str, object]]:
        """Per collection, its buckets with searches in the last hour: [start in seconds, *MEMBERS]."""
        first = int(self._now()) // BUCKET_SECONDS - BUCKETS
        return [
            {
                "collection": name,
                "buckets": [
                    [bucket * BUCKET_SECONDS, *buckets[bucket]] for bucket in sorted(buckets) if bucket > first
                ],
            }
            for name, buckets in self._kept.items()
        ]


class Recent:
    """The last searches, bounded in number and bytes, and their trends. ``now``: seconds since the epoch.

    ``keep``: how many, 0 is off. ``texts``: whether the starts of texts are kept as well. Numbers grow with time, also across restarts, and
    are unique among workers: milliseconds since the epoch times 256, plus the worker's ``place``. They fit the 53 bits of a browser's
    numbers.
    """

    __slots__ = ("_bytes", "_kept", "_most_bytes", "_now", "_texts_at", "keep", "last", "texts", "trends")

    def __init__(
        self,
        keep: int,
        *,
        now: Callable[[], float],
        texts: bool = False,
        place: int = 0,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.keep, self.texts = keep, texts
        self.trends = Trends(now=now)
        self._now = now
        self._most_bytes = most_bytes
        self._kept: deque[Numbered] = deque()
        self._bytes = 0
        self.last = place
        self._texts_at = 0.0

    def take(self, selected: Selected, report: Report) -> None:
        """Add the searches of an improved answer, unless ``keep`` is 0. ``report``: of that answer."""
        if not self.keep:
            return
        is_due = self.texts and abs(self._now() - self._texts_at) >= TEXTS_SECONDS  # the clock may be set back
        for seen in seen_of(selected, report, texts=is_due):
            self.add(seen)
        if is_due:
            self._texts_at = self._now()

    def add(self, seen: Seen) -> None:
        """Add a search and drop the oldest; one larger than the bound is not kept."""
        at = self._now()
        self.last = max(self.last + PLACES, int(at * 1000) * PLACES + self.last % PLACES)
        self._kept.append(Numbered(self.last, round(at, 3), seen, size := seen.size_bytes))
        self._bytes += size
        if len(self._kept) > self.keep or self._bytes > self._most_bytes:
            self._shrink()
        self.trends.add(seen, at)

    def resize(self, keep: int, *, texts: bool) -> None:
        """Apply these settings; without texts, kept searches with texts are dropped."""
        self.keep = keep
        if self.texts and not texts:
            self._kept.clear()
            self._bytes = 0
        self.texts = texts
        self._shrink()

    @property
    def reached(self) -> int:
        """An upper bound of all numbers so far; later ones are larger."""
        return max(self.last, int(self._now() * 1000) * PLACES - 1)

    def newest(self) -> list[Numbered]:
        """All kept searches, newest first."""
        return [*reversed(self._kept)]

    def numbered(self, number: int) -> Numbered | None:
        return next((search for search in self._kept if search.number == number), None)

    def _shrink(self) -> None:
        while self._kept and (len(self._kept) > self.keep or self._bytes > self._most_bytes):
            self._bytes -= self._kept.popleft().size_bytes


@dataclass(frozen=True, slots=True)
class Observed:
    """Keeps improved answers as the service's Observer: each in ``recent``, some pools in ``pools``."""

    recent: Recent
    pools: Pools

    def answered(self, selected: Selected, report: Report) -> None:
        self.recent.take(selected, report)
        self.pools.offer(selected, self.recent.last)
