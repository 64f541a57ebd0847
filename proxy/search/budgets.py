"""The reads and reply bytes that VecSieve itself costs a database, and the budgets that bound them.

A widened search replaces the client's own and counts as one read wherever reads are counted: Qdrant's strict mode
counts operations and filter conditions, Pinecone's read units the size of a namespace; neither counts the limit or the
vectors. Reads of our own are growth of a pool, vectors that memory lacks, hedges, the client's own search
after a failed widened one, and measurements of mode shadow. Per minute they are at most one more than a share of what
the collection's clients read, so that clients a tenth below a limit are never refused because of us. Two kinds may exceed it: replays and hedges
(OVERDRAFT), and what memory lacks of a repeated request (REPEATED); neither soon after a refusal.

A quota refusal (429, RESOURCE_EXHAUSTED and each backend's own) of any request stops them for a minute. Then the share
grows from zero, as TCP recovers after a loss.
"""

from __future__ import annotations

import json
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from vecsieve.adapters.contract import Operation

from ..telemetry.labels import FailOpen, ReadKind, Withheld
from ..telemetry.metrics import Metrics
from ..telemetry.tracing import Clock
from .collections.learned import LONGEST_NAME, Lru
from .errors import RejectedReplyError

ENTRIES = 1024  # collections counted: at most 1 MB
FREE = 1  # per minute and collection: the first searches of a client with few searches may grow
OVERDRAFT = 5  # replays beyond the budget; after that, searches are not widened: as many failures as open the breaker
# Reads that repeated requests in progress may reserve beyond the budget, if memory had all their points the last time. Few of them are spent.
# Without them a question that grows its pool uses up the budget itself, and is then always sent with vectors.
REPEATED = 2
QUIET_SECONDS = 60.0  # Qdrant's limits are per minute and fill up within one
DAY_SECONDS = 86_400.0  # a month begins with a day
RISE_SECONDS = 600.0  # seconds until the share is back to its full size
SLOT_SECONDS = 10.0
SLOTS = 6
ROUNDING = 1e-6  # ten times 0.1 is not exactly 1

# Reads that a setting enables by name are not counted in the share: `shadow.sample`, Pinecone's `fetch.integrated: fetch`, `write.mode`,
# `per_retriever`.
_ENABLED_BY_NAME = frozenset({ReadKind.SHADOW, ReadKind.LOOKUP, ReadKind.NEIGHBOURS, ReadKind.RETRIEVERS})


@dataclass(slots=True)
class _Slot:
    """Reads within ten seconds. ``number``: the slot's index on the clock. ``shared``: our reads within the share. ``named``: our reads
    that a setting enables by name.
    """

    number: int
    clients: int = 0
    shared: int = 0
    named: int = 0


@dataclass(slots=True)
class _Reads:
    """Reads of one collection in the last minute: ``slots``, the current one last, and their sums."""

    slots: deque[_Slot] = field(default_factory=lambda: deque([_Slot(0)], maxlen=SLOTS))
    clients: int = 0
    shared: int = 0
    named: int = 0
    refused_at: float | None = None

    def turn(self, number: int) -> None:
        """Begin the slot with this number."""
        while self.slots and self.slots[0].number <= number - SLOTS:
            self.slots.popleft()
        self.slots.append(_Slot(number))
        self.clients = sum(slot.clients for slot in self.slots)
        self.shared = sum(slot.shared for slot in self.slots)
        self.named = sum(slot.named for slot in self.slots)

    def share(self, reads: int) -> None:
        self.slots[-1].shared += reads
        self.shared += reads


@dataclass(slots=True)
class ReservedReads:
    """Reads of ours that the budget holds for one call. ``is_beyond``: beyond the budget, for what memory lacks and nothing else."""

    budget: ReadBudget
    operation: Operation
    reads: int
    is_beyond: bool = False

    def release(self) -> int:
        """Release all held reads; return how many they were."""
        reads, self.reads = self.reads, 0
        if reads:
            self.budget.give_back(self.operation, reads)
        return reads


class ReadBudget:
    """Bounds our own reads, per collection. ``share``: of the clients' reads. At most ``entries`` collections."""

    __slots__ = ("_clock", "_collections", "_everywhere", "_metrics", "_share")

    def __init__(self, share: float, *, metrics: Metrics, clock: Clock, entries: int = ENTRIES) -> None:
        self._share = share
        self._metrics = metrics
        self._clock = clock
        self._collections = Lru[str, _Reads](entries)
        self._everywhere: float | None = None

    def count(self, operation: Operation, reads: int = 1) -> None:
        """Count client reads; a batch counts as many reads as it has searches."""
        counts = self._of(operation)
        counts.slots[-1].clients += reads
        counts.clients += reads

    def take(self, operation: Operation, kind: ReadKind, reads: int = 1) -> bool:
        """Count one of our reads and return True; return False when the budget has no room."""
        counts = self._of(operation)
        why = self._withheld(counts, kind, reads)
        if why is not None:
            self._metrics.own_reads_withheld_total.labels(why).inc()
            return False
        self._spend(counts, kind, reads)
        return True

    def spend(self, operation: Operation, kind: ReadKind, reads: int = 1) -> None:
        """Count a read that is never withheld, because the client would have sent it."""
        self._spend(self._of(operation), kind, reads)

    def reserve(self, operation: Operation, reads: int = 1) -> bool:
        """Reserve a hedge. It may exceed the budget as a replay may, but not soon after a quota refusal. ``give_back``
        ends it.
        """
        counts = self._of(operation)
        is_whole = self._risen(counts) >= 1.0
        if counts.shared + reads > self._allowed(counts) + (OVERDRAFT if is_whole else 0):
            self._metrics.own_reads_withheld_total.labels(Withheld.BUDGET if is_whole else Withheld.REFUSED).inc()
            return False
        counts.share(reads)
        return True

    def hold(self, operation: Operation, reads: int = 1, *, is_repeat: bool = False) -> ReservedReads | None:
        """Reserve reads that ``take`` would allow, until they are released; counts nothing. None where there is no room. ``is_repeat``: whether
        memory had the points of the same request the last time.
        """
        counts = self._of(operation)
        is_beyond = self._withheld(counts, ReadKind.GROW, reads) is not None
        if is_beyond and not (is_repeat and self._may_exceed(counts, reads)):
            return None
        counts.share(reads)
        return ReservedReads(self, operation, reads, is_beyond)

    def give_back(self, operation: Operation, reads: int = 1) -> None:
        """Release a reservation."""
        counts = self._of(operation)
        for slot in reversed(counts.slots):
            given = min(reads, slot.shared)
            slot.shared -= given
            counts.shared -= given
            reads -= given

    def refused(self, collection: str) -> None:
        """The database refused a request for lack of quota. ``collection``: "" when the request does not tell; its searches are then still
        widened.
        """
        if len(collection) > LONGEST_NAME:
            return
        if collection:
            self._collections.use(collection, _Reads).refused_at = self._clock()
        else:
            self._everywhere = self._clock()

    def is_quiet(self, operation: Operation) -> bool:
        """Whether the collection was refused so recently that its searches must not be widened."""
        refused_at = self._of(operation).refused_at
        return refused_at is not None and self._clock() < refused_at + QUIET_SECONDS

    def is_recovering(self, operation: Operation) -> bool:
        """Whether the share is still below its full size after a refusal."""
        return self._risen(self._of(operation)) < 1.0

    def is_overdrawn(self, operation: Operation) -> bool:
        """Whether too many reads exceeded the budget: then no search is widened that may cost another read."""
        counts = self._of(operation)
        return counts.shared > self._allowed(counts) + OVERDRAFT

    def __len__(self) -> int:
        return len(self._collections)

    def _withheld(self, counts: _Reads, kind: ReadKind, reads: int) -> Withheld | None:
        risen = self._risen(counts)
        if kind in _ENABLED_BY_NAME:
            is_within = risen >= 1.0 or counts.named + reads <= risen * counts.clients + ROUNDING
            return None if is_within else Withheld.REFUSED
        if counts.shared + reads <= self._allowed(counts):
            return None
        return Withheld.BUDGET if risen >= 1.0 else Withheld.REFUSED

    def _may_exceed(self, counts: _Reads, reads: int) -> bool:
        """Whether REPEATED has room, and no quota was refused lately."""
        return self._risen(counts) >= 1.0 and counts.shared + reads <= self._allowed(counts) + REPEATED

    def _allowed(self, counts: _Reads) -> float:
        """How many reads of ours the last minute may contain."""
        risen = self._risen(counts)
        return (FREE if risen >= 1.0 else 0) + risen * self._share * counts.clients + ROUNDING

    def _risen(self, counts: _Reads) -> float:
        """The fraction of the share in force: 0 for a minute after a refusal, then rising linearly to 1."""
        if counts.refused_at is None and self._everywhere is None:
            return 1.0
        moments = [moment for moment in (counts.refused_at, self._everywhere) if moment is not None]
        return min(1.0, max(0.0, (self._clock() - max(moments) - QUIET_SECONDS) / RISE_SECONDS))

    def _spend(self, counts: _Reads, kind: ReadKind, reads: int) -> None:
        if kind in _ENABLED_BY_NAME:
            counts.slots[-1].named += reads
            counts.named += reads
        else:
            counts.share(reads)
        self._metrics.own_reads_total.labels(kind).inc(reads)

    def _of(self, operation: Operation) -> _Reads:
        """The collection's reads, in the present slot."""
        name, number = operation.collection, int(self._clock() / SLOT_SECONDS)
        counts = self._collections.get(name)
        if counts is None:
            counts = self._collections.use(name, _Reads)
        else:
            self._collections.move_to_end(name)
        if counts.slots[-1].number != number:
            counts.turn(number)
        return counts

    def grant(
        self, operation: Operation, kind: ReadKind, reads: int, *, reserved: ReservedReads | None, is_paged: bool
    ) -> None:
        """Check the budget for a further widened request of a search. Raises RejectedReplyError. ``reserved``: reads reserved for it.

        A page with an offset would repeat or skip results if its pool were too small: its request may exceed the budget once.
        """
        if reserved is not None and reserved.reads and (kind is ReadKind.RECALL or not reserved.is_beyond):
            reserved.release()
            self.spend(operation, kind, reads)
            return
        if reserved is not None:
            reserved.release()
        if self.take(operation, kind, reads):
            return
        if not is_paged or self.is_recovering(operation):
            raise RejectedReplyError(FailOpen.BUDGET)
        self.spend(operation, kind, reads)


LOGGER = logging.getLogger("vecsieve.egress")


@dataclass(slots=True)
class _Spent:
    searches: int = 0
    extra_bytes: int = 0

    def add(self, extra_bytes: int, searches: int = 1) -> None:
        self.searches += searches
        self.extra_bytes += extra_bytes


class Egress:
    """Counts the extra reply bytes of this UTC calendar month and tells when the budget is spent.

    Extra bytes are the bytes read for a search minus the bytes sent to the client, or all bytes read if the plain answer was fetched as
    well. A truncated reply counts as 0. ``budget_bytes``: None without one. ``now``: seconds since the epoch; setting the clock back does
    not restart a month. Searches in progress when the budget is spent are finished.
    """

    __slots__ = (
        "_budget_bytes",
        "_collections",
        "_day",
        "_entries",
        "_has_warned",
        "_month",
        "_now",
        "_others",
        "_total",
    )

    def __init__(self, budget_bytes: int | None, *, now: Callable[[], float], entries: int = ENTRIES) -> None:
        self._budget_bytes = budget_bytes
        self._now = now
        self._entries = entries
        self._month = (0, 0)
        self._day: float | None = None
        self._turn()

    def spend(self, operation: Operation, extra_bytes: int) -> None:
        """Count one search's extra bytes; a negative number counts as 0."""
        self._turn()
        extra = max(0, extra_bytes)
        self._total.add(extra)
        spent = self._collections.setdefault((operation.backend, operation.collection), _Spent())
        spent.add(extra)
        self._collections.move_to_end((operation.backend, operation.collection))
        while len(self._collections) > self._entries:
            _, oldest = self._collections.popitem(last=False)
            self._others.add(oldest.extra_bytes, oldest.searches)
        if self._budget_bytes is not None and not self._has_warned:
            self._warn()

    def resize(self, budget_bytes: int | None) -> None:
        self._budget_bytes = budget_bytes
        self._has_warned = False
        self._warn()

    @property
    def is_spent(self) -> bool:
        """Whether searches pass through until the month ends."""
        return self.remaining_bytes <= 0

    @property
    def remaining_bytes(self) -> float:
        """Infinite without a budget."""
        if self._budget_bytes is None:
            return math.inf
        self._turn()
        return max(0, self._budget_bytes - self._total.extra_bytes)

    def as_json(self) -> bytes:
        """Figures of this month, the most expensive collection first, ties by name."""
        self._turn()
        dearest = sorted(self._collections.items(), key=lambda item: (-item[1].extra_bytes, item[0]))
        page = {
            "month": "{:04}-{:02}".format(*self._month),
            "budget_bytes": self._budget_bytes,
            **_figures(self._total),
            "collections": [
                {"backend": backend, "collection": name, **_figures(spent)} for (backend, name), spent in dearest
            ],
            "others": _figures(self._others),
        }
        return json.dumps(page, separators=(",", ":")).encode("ascii") + b"\n"

    def _turn(self) -> None:
        """Start a new month when the calendar does."""
        day = self._now() // DAY_SECONDS
        if day == self._day:
            return
        self._day = day
        at = datetime.fromtimestamp(day * DAY_SECONDS, UTC)
        month = (at.year, at.month)
        if month > self._month:
            self._month = month
            self._total, self._others = _Spent(), _Spent()
            self._collections: OrderedDict[tuple[str, str], _Spent] = OrderedDict()
            self._has_warned = False

    def _warn(self) -> None:
        """Log once a month that the budget is spent; without this line VecSieve would seem to do nothing."""
        if self.is_spent and not self._has_warned:
            self._has_warned = True
            fields = {"budget_bytes": self._budget_bytes, "extra_bytes": self._total.extra_bytes}
            LOGGER.warning("this month's egress budget is spent: searches pass through", extra={"fields": fields})


def _figures(spent: _Spent) -> dict[str, int]:
    return {"searches": spent.searches, "extra_bytes": spent.extra_bytes}
