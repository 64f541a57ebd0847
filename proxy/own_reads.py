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

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.labels import OwnRead, Withheld
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.stopwatch import Clock

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
