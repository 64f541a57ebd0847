"""How the lookups of a search go out on its transport, in what the search has left of its time, and what they cost.

A breaker of their own ends them for a while when they keep failing: each would be waited for, and paid for, in vain.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from vecsieve.adapters.contract import Dialect, Operation
from vecsieve.adapters.second_step import Lookup
from vecsieve.proxy.breaker import Breaker
from vecsieve.proxy.exchange import Lost, Refused, Seen
from vecsieve.proxy.labels import AttemptKind, FailOpen, Looked, OwnRead
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.own_reads import OwnReads
from vecsieve.proxy.second_step import Look, LookupFailed
from vecsieve.proxy.stopwatch import Clock

_LOOKED_BY = {
    FailOpen.OVERFETCH_TIMEOUT: Looked.TIMEOUT,
    FailOpen.TOO_LARGE: Looked.TOO_LARGE,
    FailOpen.MALFORMED: Looked.MALFORMED,
}


@runtime_checkable
class LooksUp(Protocol):
    """A transport that can send lookups."""

    @property
    def operation(self) -> Operation:
        """Which search they belong to."""
        ...

    async def look_up(self, lookup: Lookup, *, seconds: float) -> bytes:
        """The body of upstream's success. Raises Lost or Refused."""
        ...


@dataclass(frozen=True, slots=True)
class Looking:
    """The lookups of a process. ``breaker``: theirs alone, so that searches are widened whatever becomes of them."""

    breaker: Breaker
    own: OwnReads
    metrics: Metrics
    clock: Clock

    def of(self, exchange: object, seen: Seen, dialect: Dialect) -> Look | None:
        """What sends an exchange's lookups; None where its transport cannot."""
        if not isinstance(exchange, LooksUp):
            return None

        async def look(lookup: Lookup) -> bytes:
            return await self._look(exchange, seen, lookup, dialect)

        return look

    async def _look(self, exchange: LooksUp, seen: Seen, lookup: Lookup, dialect: Dialect) -> bytes:
        started = self.clock()
        if started >= seen.deadline:
            raise LookupFailed(Looked.TIMEOUT)
        if not self.breaker.allow():
            raise LookupFailed(Looked.BREAKER)
        if not self.own.take(exchange.operation, OwnRead.LOOKUP):
            self.breaker.abandoned()
            raise LookupFailed(Looked.WITHHELD)
        try:
            body = await exchange.look_up(lookup, seconds=seen.deadline - started)
        except Lost as lost:
            self._failed(seen, lost.received_bytes)
            raise LookupFailed(_LOOKED_BY.get(lost.reason, Looked.RESET)) from lost
        except Refused as refused:
            self._failed(seen, len(refused.words))
            if dialect.is_quota(refused.status, refused.words):
                self.own.refused(exchange.operation.collection)
            raise LookupFailed(Looked.STATUS) from refused
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        finally:
            self.metrics.upstream_done(AttemptKind.LOOKUP, self.clock() - started)
        self.breaker.succeeded()
        self._received(seen, len(body))
        return body

    def _failed(self, seen: Seen, received_bytes: int) -> None:
        self.breaker.failed()
        self._received(seen, received_bytes)

    def _received(self, seen: Seen, size: int) -> None:
        self.metrics.received(size)
        seen.received(size)
