"""Whether and when the client's own search is sent beside a widened one: what is known of a collection's pace, and what the
budget has room for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.exchange import Exchange, Seen, Weighed
from vecsieve.proxy.labels import AttemptKind, OwnRead
from vecsieve.proxy.own_reads import OwnReads
from vecsieve.proxy.patience import HEDGE_LEAST_SECONDS, Patience
from vecsieve.proxy.race import Gate, Later, Race, later
from vecsieve.proxy.replays import Replays
from vecsieve.proxy.search import Attempt

A = TypeVar("A", bound=Weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedges:
    """Of one process."""

    patience: Patience
    own: OwnReads
    replays: Replays
    later: Later = later

    def may_widen(self, operation: Operation, attempt: Attempt, seen: Seen) -> bool:
        """Whether to send a widened request at all: where it may be slower than the client's own, only with room for both."""
        if self.patience.is_doubtful(operation):
            seen.is_reserved = self.own.reserve(operation, len(attempt.call.searches))
            return seen.is_reserved
        return True

    def race(self, exchange: Exchange[A], attempt: Attempt, seen: Seen) -> Race[A]:
        """The race of one search: at the last moment the original goes out whatever the budget."""
        operation, reads = exchange.operation, len(attempt.call.searches)

        def may(*, is_last: bool) -> bool:
            if attempt.reply is not None:
                return False  # there is something to answer from
            if not seen.is_late:
                self.patience.was_late(operation, is_late=True)
                seen.is_late = True
            if seen.is_reserved or is_last:
                self.done(operation, attempt, seen)
                self.own.spend(operation, OwnRead.HEDGE, reads)
            elif self.replays.is_spent or not self.own.take(operation, OwnRead.HEDGE, reads):
                return False
            seen.is_hedged = True
            return True

        async def send(gate: Gate) -> A:
            with self.replays.one():
                return await exchange.original(AttemptKind.HEDGE, gate)

        return Race(send, may, self.later)

    def seconds(self, exchange: Exchange[A], seen: Seen, now: float) -> float:
        """How long the next widened request may take. The first of a search is raced by the original; what follows it has what is
        left of the time that the first would have had alone.
        """
        timeout, is_first = exchange.client_timeout_seconds, not seen.has_asked
        if is_first:
            seen.deadline = now + self.patience.attempt_seconds(exchange.operation, timeout)
        if is_first and seen.is_raced:
            return self.patience.longest_seconds(timeout)
        return max(HEDGE_LEAST_SECONDS, seen.deadline - now)

    def timely(self, operation: Operation, attempt: Attempt, seen: Seen, seconds: float) -> None:
        """A widened request was answered."""
        self.patience.answered(operation, seconds)
        if attempt.reply is None and not seen.is_late:
            self.patience.was_late(operation, is_late=False)
        self.done(operation, attempt, seen)

    def done(self, operation: Operation, attempt: Attempt, seen: Seen) -> None:
        """What was reserved for a hedge is free again."""
        if seen.is_reserved:
            self.own.give_back(operation, len(attempt.call.searches))
            seen.is_reserved = False
