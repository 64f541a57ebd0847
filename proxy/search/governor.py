"""What a widened search may cost the database, and what it has cost: reads, bytes and seconds, behind one object a search.

    prepared ─► opened ─► sent, once or more ─► closed
                  └─ a reason: nothing is sent

The bounds themselves are in budgets, hedge and limits. A grant asks them in one order and tells them how each request ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from vecsieve.adapters.contract import DeclinedError, Dialect, MalformedReplyError, Operation
from vecsieve.adapters.fusions import SAME, Ending

from ..telemetry.labels import AttemptKind, Bypass, FailOpen, ReadKind, UpstreamError
from ..telemetry.metrics import Metrics
from ..telemetry.tracing import Clock
from .budgets import Egress, ReadBudget, ReservedReads
from .collections.learned import Learned
from .errors import LostReplyError, PassedReplyError, RefusedReplyError, RejectedReplyError
from .hedge import AttemptTimeout, Fits, Gate, Later, Pace, Race, Replays
from .limits import Breaker, BytesInFlight, Hold

A = TypeVar("A")
Sizes = Sequence[int | None]
"""Candidates for each search of a call; None for a search that is not widened."""


class Send(Protocol):
    """Sends a widened request, as ``Exchange.send``."""

    async def __call__(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Governor:
    """The bounds of all searches of a process, and what their ends teach. ``later``: calls a function after some seconds."""

    learned: Learned
    bytes_in_flight: BytesInFlight
    breaker: Breaker
    replays: Replays
    reads: ReadBudget
    egress: Egress
    attempt_timeout: AttemptTimeout
    metrics: Metrics
    clock: Clock
    later: Later

    def withheld(self, operation: Operation) -> Bypass | None:
        """Why no search of this collection is widened now, whatever it requests; None if it may be."""
        if self.reads.is_quiet(operation):
            return Bypass.QUOTA  # no additional request is sent, so none can use up the client's quota
        return Bypass.BUDGET if self.egress.remaining_bytes <= 0 else None

    def room(self, candidate_bytes: int) -> int:
        """How many candidates of this size a reply may have now."""
        return int(min(self.bytes_in_flight.reply_bytes, self.egress.remaining_bytes)) // candidate_bytes


@dataclass(slots=True)
class Grant:
    """The cost of one search. The state of its requests is here, so that a fallback can answer from what has come."""

    _governor: Governor
    _dialect: Dialect
    _pace: Pace
    operation: Operation
    _timeout_seconds: float | None  # the client's; None if unknown
    searches: int = 1  # of the call
    is_paged: bool = False  # whether any of them has an offset
    candidate_bytes: int = 0  # expected size of one candidate
    reserved: ReservedReads | None = None  # reads that the budget reserves for what memory may lack
    # What became of its requests.
    reason: FailOpen | None = None  # why the answer is plain; None if it is not
    has_pool: bool = False  # whether there is a reply to answer from
    received_bytes: int = 0  # body bytes of all replies, refused ones included
    deadline: float = 0.0  # of the last widened request and its lookups, by the clock; 0 before the first
    refusal: bytes | None = None  # a quota refusal that the transport calls a success
    is_declined: bool = False  # a widened request was refused as a client error of unknown cause, perhaps its size
    is_hedged: bool = False  # the original was sent as well
    _room: Hold | None = None
    _options: tuple[Sizes, ...] = ()
    _seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)  # as of Pace.times
    _is_late: bool = False
    _is_raced: bool = False
    _is_reserved: bool = False

    @property
    def has_sent(self) -> bool:
        """Whether a widened request was sent."""
        return self.deadline > 0.0

    def opened(self, *options: Sizes) -> Sizes | None:
        """The first of these pools that there is room for, reserved until the grant is closed; None, with a reason, if no request is sent. The last
        one is the plan.
        """
        governor = self._governor
        if governor.replays.is_spent:
            self.reason = FailOpen.BREAKER
            return None
        if governor.reads.is_overdrawn(self.operation):
            self.reason = FailOpen.BUDGET
            return None
        for place, sizes in enumerate(options):
            self._room = governor.bytes_in_flight.hold(sizes, self.candidate_bytes)
            if self._room is not None:
                self._options = options[place:]
                break
        else:
            self.reason = FailOpen.OVERLOAD
            return None
        if not governor.breaker.allow():  # last: if allowed, this search may be the probe, which must then be sent
            self.reason = FailOpen.BREAKER
            return None
        self._seconds = self._pace.times(self._timeout_seconds)
        return sizes

    def race(self, original: Callable[[AttemptKind, Gate], Awaitable[A]]) -> Race[A] | None:
        """The race of this search and its original; None, with a reason, if it may be slower than its original, and there is no room for both."""
        governor = self._governor
        if self._pace.is_doubtful:
            self._is_reserved = governor.reads.reserve(self.operation, self.searches)
            if not self._is_reserved:
                governor.breaker.abandoned()
                self.reason = FailOpen.SLOW
                return None
        self._is_raced = True

        async def send(gate: Gate) -> A:
            with governor.replays.one():
                return await original(AttemptKind.HEDGE, gate)

        return Race(send, self._may_hedge, governor.later, *self._seconds[:2])

    def _may_hedge(self, *, is_last: bool) -> bool:
        """Whether to send the original now. At the last moment it is sent regardless of the budget."""
        governor = self._governor
        if self.has_pool:
            return False  # a pool to answer from exists
        if not self._is_late:
            self._pace.late.append(True)
            self._is_late = True
        if self._is_reserved or is_last:
            self._give_back()
            governor.reads.spend(self.operation, ReadKind.HEDGE, self.searches)
        elif governor.replays.is_spent or not governor.reads.take(self.operation, ReadKind.HEDGE, self.searches):
            return False
        self.is_hedged = True
        return True

    async def fetch(self, send: Send, body: bytes, *, ending: Ending = SAME, further: ReadKind | None = None) -> bytes:
        """Send a widened request. ``ending``: as for ``Exchange.send``. ``further``: what it counts as if it is not the first. Raises
        RejectedReplyError, or PassedReplyError when the refusal is the client's answer.
        """
        governor, room = self._governor, self._room
        if further is not None:
            governor.reads.grant(self.operation, further, self.searches, reserved=self.reserved, is_paged=self.is_paged)
        started, received_bytes = governor.clock(), 0
        assert room is not None  # noqa: S101 - opened() has reserved it
        try:
            fetched = await send(body, seconds=self._timeout_at(started), fits=room.arriving(), ending=ending)
        except LostReplyError as lost:
            self._lost(lost)
            raise RejectedReplyError(lost.reason) from lost
        except RefusedReplyError as refused:
            received_bytes = len(refused.words)
            self._timely(governor.clock() - started)
            raise self._verdict(refused) from refused
        else:
            received_bytes = len(fetched)
        finally:
            governor.metrics.upstream_done(AttemptKind.OVERFETCH, governor.clock() - started, received_bytes)
        now = governor.clock()
        self._timely(now - started)
        self.deadline = max(self.deadline, now + self._pace.bounds.hedge_least)
        self.received(len(fetched))
        governor.breaker.succeeded()
        if self._dialect.is_quota_in_success(fetched):
            self.refusal = fetched
            raise self._limited()
        return fetched

    def _timeout_at(self, now: float) -> float:
        """The timeout of the next widened request. The first one, and those sent beside it, race against the original; later ones get what
        is left of the time that the first would have had alone.
        """
        if self.deadline <= 0.0:
            self.deadline = now + self._seconds[1]
        if self._is_raced and not self.has_pool:
            return self._seconds[2]
        return max(self._pace.bounds.hedge_least, self.deadline - now)

    def _timely(self, seconds: float) -> None:
        """A widened request was answered in time."""
        self._pace.widened.append(seconds)
        self._pace.slow = None
        if not (self.has_pool or self._is_late):
            self._pace.late.append(False)
        if self._is_reserved:
            self._give_back()

    def received(self, size: int) -> None:
        """Bytes of a whole reply, of a lookup or another request of ours."""
        self.received_bytes += size
        if self._room is not None:
            self._room.came(size)

    def _lost(self, lost: LostReplyError) -> None:
        self.received_bytes += lost.received_bytes
        if lost.reason is FailOpen.TOO_LARGE:
            # The client's own limit may fit where five times as many candidates do not, and the plan where more do not.
            planned = max([size or 0 for size in self._options[-1]])
            is_deeper = self.has_pool or len(self._options) > 1
            self._governor.learned.refused(self.operation, planned if is_deeper else None)
        if lost.reason in {FailOpen.TOO_LARGE, FailOpen.MALFORMED, FailOpen.OVERLOAD}:
            self._governor.breaker.succeeded()  # the database answered
        else:
            self._governor.breaker.failed()

    def _verdict(self, refused: RefusedReplyError) -> Exception:
        """The exception for an unsuccessful answer; learns from it."""
        governor, dialect = self._governor, self._dialect
        self.received(len(refused.words))
        if refused.is_server_error and not dialect.is_quota(refused.status, refused.words):
            governor.breaker.failed()
            governor.metrics.upstream_errors_total.labels(UpstreamError.SERVER_ERROR).inc()
        else:
            governor.breaker.succeeded()  # the database answered: refusing the request is no failure of the database
        if dialect.is_quota(refused.status, refused.words):
            return self._limited()
        is_unknown = dialect.names_unknown_vector(refused.status, refused.words)
        if not refused.is_server_error:
            self.is_declined = self._declined(refused.status, refused.words) and refused.may_be_size
        return RejectedReplyError(FailOpen.NOT_FOUND_VECTOR if is_unknown else FailOpen.OVERFETCH_STATUS)

    def _limited(self) -> Exception:
        """The exception for a quota refusal: the refusal is the client's answer, unless there is already a pool."""
        self._governor.reads.refused(self.operation.collection)
        if self.has_pool:
            return RejectedReplyError(FailOpen.OVERFETCH_STATUS)
        self.reason = FailOpen.OVERFETCH_STATUS
        return PassedReplyError()  # sending the original as well would use up the client's quota twice

    def _declined(self, status: int, words: bytes) -> bool:
        """Learn from a refusal for what was requested; whether its cause is unknown."""
        learned = self._governor.learned
        if (limit := self._dialect.refused_limit(status, words)) is not None:
            learned.refused(self.operation, limit)
            return False
        if self._dialect.names_unknown_vector(status, words):
            learned.forget(self.operation.collection)  # the collection has been replaced
            return False
        learned.contradicted(self.operation)  # the field may have existed when the collection was described
        return True

    def declined(self, declined: DeclinedError) -> None:
        """A success that refuses what was requested: learn from it."""
        self._declined(0, declined.words)

    def failed(self, error: Exception) -> None:
        """Record the reason of the first failure: later failures follow from it."""
        if self.reason is not None:
            return
        if isinstance(error, RejectedReplyError):
            self.reason = error.reason
        elif isinstance(error, MalformedReplyError):
            self.reason = FailOpen.MALFORMED
        else:
            self.reason = FailOpen.MEMORY if isinstance(error, MemoryError) else FailOpen.INTERNAL

    def overtaken(self, *, is_overdue: bool) -> None:
        """The original was answered first."""
        self.reason = FailOpen.OVERFETCH_TIMEOUT
        if is_overdue:
            self._governor.breaker.failed()

    def gave_up(self, seconds: float) -> None:
        """The client disconnected without an answer."""
        self._pace.gave_up(seconds)

    def free(self) -> None:
        """No reply is held any more: the original's answer is streamed."""
        if self._room is not None:
            self._room.release()

    def close(self) -> None:
        """Release what is still reserved."""
        if self._is_reserved:
            self._give_back()
        self.free()
        if self.reserved is not None:
            self.reserved.release()

    def _give_back(self) -> None:
        if self._is_reserved:
            self._is_reserved = False
            self._governor.reads.give_back(self.operation, self.searches)
