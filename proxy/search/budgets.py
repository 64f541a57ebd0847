"""The reads that VecSieve itself asks a database for, and the budget that bounds them.

A widened search replaces the client's own and counts as one read wherever reads are counted: Qdrant's strict mode counts
operations and conditions of a filter, Pinecone's read units the size of a namespace, neither the limit nor the vectors. What
comes on top is ours: growing a pool, fetching vectors that memory lacks, lookups, hedges, the client's own search after a
widened one that failed, and the measurements of mode shadow. In any minute they come to at most one more than a share of
what the clients of that collection read, so that clients who keep a tenth below a limit are never refused because of us.

A refusal for want of quota (429, RESOURCE_EXHAUSTED and each backend's own words) ends them for a minute, whoever's request
it answered. Then the share grows from nothing, a little every second, as TCP comes back after a loss.
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
from vecsieve.proxy.telemetry.labels import OwnRead, Withheld
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.tracing import Clock

ENTRIES = 1024  # collections counted: at most 1 MB
FREE = 1  # a minute and collection, so that a client with few searches has the first of them grown
OVERDRAFT = 5  # replays beyond the budget, then searches are not widened: as many failures as open the breaker
QUIET_SECONDS = 60.0  # Qdrant's limits are per minute and fill up within one
RISE_SECONDS = 600.0  # from nothing to the whole share
SLOT_SECONDS = 10.0
SLOTS = 6
ROUNDING = 1e-6  # ten times 0.1 is not one

# What a setting asks for by name is not in the share: `shadow.sample`, and Pinecone's `fetch.integrated: fetch`.
_ASKED_FOR = frozenset({OwnRead.SHADOW, OwnRead.LOOKUP})


@dataclass(slots=True)
class _Slot:
    """Reads within ten seconds. ``number``: which ten of the clock. ``shared``: ours in the share; ``named``: asked for by name."""

    number: int
    clients: int = 0
    shared: int = 0
    named: int = 0


@dataclass(slots=True)
class _Reads:
    """Of one collection in the last minute."""

    slots: deque[_Slot] = field(default_factory=lambda: deque(maxlen=SLOTS))
    refused_at: float | None = None


class OwnReads:
    """Of one process. ``share``: of what clients read. At most ``entries`` collections; the one used longest ago begins anew."""

    __slots__ = ("_clock", "_entries", "_everywhere", "_held", "_metrics", "_share")

    def __init__(self, share: float, *, metrics: Metrics, clock: Clock, entries: int = ENTRIES) -> None:
        self._share = share
        self._metrics = metrics
        self._clock = clock
        self._entries = entries
        self._held: OrderedDict[str, _Reads] = OrderedDict()
        self._everywhere: float | None = None

    def asked(self, operation: Operation, reads: int = 1) -> None:
        """A client reads so often: a batch counts as many searches as it has."""
        self._slot(self._of(operation)).clients += reads

    def take(self, operation: Operation, kind: OwnRead, reads: int = 1) -> bool:
        """Whether a read of ours may be sent now; it is counted."""
        held = self._of(operation)
        why = self._withheld(held, kind, reads)
        if why is not None:
            self._metrics.withheld(why)
            return False
        self._spend(held, kind, reads)
        return True

    def has(self, operation: Operation, reads: int = 1) -> bool:
        """Whether ``take`` would be granted; nothing is counted."""
        return self._withheld(self._of(operation), OwnRead.GROW, reads) is None

    def spend(self, operation: Operation, kind: OwnRead, reads: int = 1) -> None:
        """Count one that is never withheld, because it is what the client would have sent."""
        self._spend(self._of(operation), kind, reads)

    def reserve(self, operation: Operation, reads: int = 1) -> bool:
        """Keep room for a hedge, which may go over the budget as a replay may, but not soon after a refusal; ``give_back`` ends it."""
        held = self._of(operation)
        is_whole = self._risen(held) >= 1.0
        if self._shared(held) + reads > self._allowed(held) + (OVERDRAFT if is_whole else 0):
            self._metrics.withheld(Withheld.BUDGET if is_whole else Withheld.REFUSED)
            return False
        self._slot(held).shared += reads
        return True

    def give_back(self, operation: Operation, reads: int = 1) -> None:
        """Nothing was sent for what was reserved, or what is sent is counted now."""
        for slot in reversed(self._recent(self._of(operation))):
            given = min(reads, slot.shared)
            slot.shared -= given
            reads -= given

    def refused(self, collection: str) -> None:
        """The database refused for want of quota. "": a request whose collection cannot be told; searches are still widened."""
        if collection:
            self._named(collection).refused_at = self._clock()
        else:
            self._everywhere = self._clock()

    def is_quiet(self, operation: Operation) -> bool:
        """Whether a refusal of this collection is so recent that its searches go as the client wrote them."""
        refused_at = self._of(operation).refused_at
        return refused_at is not None and self._clock() < refused_at + QUIET_SECONDS

    def is_recovering(self, operation: Operation) -> bool:
        """Whether a refusal is so recent that the share is not whole yet."""
        return self._risen(self._of(operation)) < 1.0

    def is_overdrawn(self, operation: Operation) -> bool:
        """Whether so many were sent beyond the budget that no search may be sent that would cost a further one if it failed."""
        held = self._of(operation)
        return self._shared(held) > self._allowed(held) + OVERDRAFT

    def __len__(self) -> int:
        return len(self._held)

    def _withheld(self, held: _Reads, kind: OwnRead, reads: int) -> Withheld | None:
        risen = self._risen(held)
        if kind in _ASKED_FOR:
            named = sum(slot.named for slot in self._recent(held))
            is_within = risen >= 1.0 or named + reads <= risen * self._clients(held) + ROUNDING
            return None if is_within else Withheld.REFUSED
        if self._shared(held) + reads <= self._allowed(held):
            return None
        return Withheld.BUDGET if risen >= 1.0 else Withheld.REFUSED

    def _allowed(self, held: _Reads) -> float:
        """How many of ours the last minute may have."""
        risen = self._risen(held)
        return (FREE if risen >= 1.0 else 0) + risen * self._share * self._clients(held) + ROUNDING

    def _risen(self, held: _Reads) -> float:
        """How much of the share there is: none for a while after a refusal, then a little more every second."""
        moments = [moment for moment in (held.refused_at, self._everywhere) if moment is not None]
        if not moments:
            return 1.0
        return min(1.0, max(0.0, (self._clock() - max(moments) - QUIET_SECONDS) / RISE_SECONDS))

    def _clients(self, held: _Reads) -> int:
        return sum(slot.clients for slot in self._recent(held))

    def _shared(self, held: _Reads) -> int:
        return sum(slot.shared for slot in self._recent(held))

    def _recent(self, held: _Reads) -> list[_Slot]:
        oldest = int(self._clock() / SLOT_SECONDS) - SLOTS
        return [slot for slot in held.slots if slot.number > oldest]

    def _slot(self, held: _Reads) -> _Slot:
        number = int(self._clock() / SLOT_SECONDS)
        if not held.slots or held.slots[-1].number != number:
            held.slots.append(_Slot(number))
        return held.slots[-1]

    def _spend(self, held: _Reads, kind: OwnRead, reads: int) -> None:
        slot = self._slot(held)
        if kind in _ASKED_FOR:
            slot.named += reads
        else:
            slot.shared += reads
        self._metrics.own_read(kind, reads)

    def _of(self, operation: Operation) -> _Reads:
        return self._named(operation.collection)

    def _named(self, collection: str) -> _Reads:
        held = self._held.setdefault(collection, _Reads())
        self._held.move_to_end(collection)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)
        return held


# What widened requests cost in reply bytes, per collection, and the budget that bounds it.
#
# Some backends bill the bytes of their replies: at 1536 dimensions a pool of 50 with its vectors is 1.1 MB of JSON where the
# plain answer has a few kB. What a search cost is what was read for it less what went out to the client, which is as large as
# the plain answer would have been. Where the plain answer was fetched beside it (shadow, or after a failure), all of it is
# extra. Of a reply that was cut before its end nothing is counted, and a client's content coding is not taken into account.

LOGGER = logging.getLogger("vecsieve.egress")


@dataclass(slots=True)
class _Spent:
    searches: int = 0
    extra_bytes: int = 0

    def add(self, extra_bytes: int, searches: int = 1) -> None:
        self.searches += searches
        self.extra_bytes += extra_bytes


class Egress:
    """Counts one process's extra bytes of this UTC calendar month, and says when the budget is spent.

    ``budget_bytes``: None without one. ``now``: seconds since the epoch; a clock that is set back does not begin a month
    anew. Searches under way when the budget runs out are finished: it may be passed by as many replies.
    """

    __slots__ = ("_budget_bytes", "_entries", "_held", "_is_told", "_month", "_now", "_others", "_total")

    def __init__(self, budget_bytes: int | None, *, now: Callable[[], float], entries: int = ENTRIES) -> None:
        self._budget_bytes = budget_bytes
        self._now = now
        self._entries = entries
        self._month = (0, 0)
        self._turn()

    def spend(self, operation: Operation, extra_bytes: int) -> None:
        """Count one search's extra bytes; a negative number counts as none."""
        self._turn()
        extra = max(0, extra_bytes)
        self._total.add(extra)
        held = self._held.setdefault((operation.backend, operation.collection), _Spent())
        held.add(extra)
        self._held.move_to_end((operation.backend, operation.collection))
        while len(self._held) > self._entries:
            _, oldest = self._held.popitem(last=False)
            self._others.add(oldest.extra_bytes, oldest.searches)
        self._tell()

    def resize(self, budget_bytes: int | None) -> None:
        """Another budget from now on; what is spent stays spent."""
        self._budget_bytes = budget_bytes
        self._is_told = False
        self._tell()

    @property
    def is_spent(self) -> bool:
        """Whether searches are to pass through until the month turns."""
        return self.remaining_bytes <= 0

    @property
    def remaining_bytes(self) -> float:
        """What this month may still cost; infinite without a budget."""
        if self._budget_bytes is None:
            return math.inf
        self._turn()
        return max(0, self._budget_bytes - self._total.extra_bytes)

    def as_json(self) -> bytes:
        """The figures of this month, the dearest collection first, ties by name."""
        self._turn()
        dearest = sorted(self._held.items(), key=lambda item: (-item[1].extra_bytes, item[0]))
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
        """Begin anew when the month has turned."""
        at = datetime.fromtimestamp(self._now(), UTC)
        month = (at.year, at.month)
        if month > self._month:
            self._month = month
            self._total, self._others = _Spent(), _Spent()
            self._held: OrderedDict[tuple[str, str], _Spent] = OrderedDict()
            self._is_told = False

    def _tell(self) -> None:
        """Say once a month that the budget is spent: what follows looks like a proxy that does nothing."""
        if self.is_spent and not self._is_told:
            self._is_told = True
            fields = {"budget_bytes": self._budget_bytes, "extra_bytes": self._total.extra_bytes}
            LOGGER.warning("this month's egress budget is spent: searches pass through", extra={"fields": fields})


def _figures(spent: _Spent) -> dict[str, int]:
    return {"searches": spent.searches, "extra_bytes": spent.extra_bytes}
