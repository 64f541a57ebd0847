"""A classified search whose body is read, from there to its answer: prepared, left alone, measured or improved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.exchange import Exchange, Weighed
from vecsieve.proxy.fence import first_standing
from vecsieve.proxy.knowing import Knowing
from vecsieve.proxy.labels import AttemptKind, Bypass, BypassReason, FailOpen, OwnRead
from vecsieve.proxy.ladder import Ladder
from vecsieve.proxy.memory import MemoryGuard, Pressure
from vecsieve.proxy.own_reads import OwnReads
from vecsieve.proxy.report import Report
from vecsieve.proxy.search import TURN_BYTES, Attempt
from vecsieve.proxy.shadow import Shadow
from vecsieve.proxy.tally import Visit
from vecsieve.proxy.turns import Turns

A = TypeVar("A", bound=Weighed)


def nobody() -> int:
    """Waits where every request is looked at as it comes."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """The way of every search of one transport.

    ``most``: how many may be improved at once in this process, those included that are ``waiting`` to be looked at, where the transport
    keeps a queue of its own; ``lag_seconds``: none while turns of its loop take longer.
    """

    ladder: Ladder
    knowing: Knowing
    shadow: Shadow
    memory: MemoryGuard
    turns: Turns
    own: OwnReads
    lag_seconds: float
    most: int
    waiting: Callable[[], int] = nobody

    def no_room(self, visit: Visit) -> FailOpen | None:
        """Why no search can be improved now; None while there is room."""
        if visit.searches_in_flight + self.waiting() >= self.most or self.turns.lag_seconds > self.lag_seconds:
            return FailOpen.OVERLOAD
        return FailOpen.MEMORY if self.memory.pressure() is Pressure.HIGH else None

    async def answer(self, exchange: Exchange[A], visit: Visit, *, sample: float) -> A:
        """Answer it. ``sample``: the share of searches that mode shadow measures."""

        async def prepare() -> Attempt | BypassReason:
            if self.own.is_quiet(exchange.operation):
                return Bypass.QUOTA  # nothing of ours is sent, so nothing of ours is refused in the client's place
            too_large = self.ladder.too_large(exchange)
            if len(exchange.plain) > TURN_BYTES:
                await asyncio.sleep(0)
            return too_large or self.ladder.prepare(exchange, await self.knowing.of(exchange))

        with visit.searching():
            prepared = await first_standing([prepare], lambda _: visit.failed_open(FailOpen.INTERNAL))
            if prepared is None:
                return await exchange.original(AttemptKind.ORIGINAL)
            if not isinstance(prepared, Attempt):
                self.own.asked(exchange.operation)
                visit.bypassed(prepared)
                return await exchange.original(AttemptKind.ORIGINAL)
            self.own.asked(exchange.operation, len(prepared.call.searches))
            if exchange.policy.mode == "shadow":
                return await self._shadowed(exchange, prepared, visit, sample)
            answer, report = await self.ladder.answer(exchange, prepared)
            visit.reported(report)
            return answer

    async def _shadowed(self, exchange: Exchange[A], attempt: Attempt, visit: Visit, sample: float) -> A:
        async def measure() -> Report | None:
            report = await self.ladder.measure(exchange, attempt)
            if report is not None:
                visit.trace.staged(report.marks)
            return report

        answer = await exchange.original(AttemptKind.ORIGINAL)
        if not self.shadow.is_due(sample):
            visit.bypassed(Bypass.SHADOW_NOT_SAMPLED)
        elif not self.own.take(exchange.operation, OwnRead.SHADOW, len(attempt.call.searches)):
            visit.bypassed(Bypass.QUOTA)
        else:
            self.shadow.follow(measure, attempt)
            visit.shadowed()
        return answer

    def heard_own(self, operation: Operation, status: int, body: bytes = b"", *, seconds: float) -> None:
        """A client's own search was answered so, after so many seconds."""
        self.ladder.patience.answered_plainly(operation, seconds)
        self.heard(operation.collection, status, body)

    def heard(self, collection: str, status: int, body: bytes = b"") -> None:
        """The database refused a client's own request. ``collection``: "" where it cannot be told; ``body``: as Dialect.is_quota."""
        if self.ladder.dialect.is_quota(status, body):
            self.own.refused(collection)

    def heard_success(self, collection: str, body: bytes) -> None:
        """The whole of a reply that the transport calls a success."""
        if self.ladder.dialect.is_quota_in_success(body):
            self.own.refused(collection)
