"""How the lookups of a search go out on its transport, in what the search has left of its time, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from vecsieve.adapters.second_step import Lookup
from vecsieve.proxy.exchange import Lost, Refused, Seen
from vecsieve.proxy.labels import AttemptKind, FailOpen, Looked
from vecsieve.proxy.metrics import Metrics
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

    async def look_up(self, lookup: Lookup, *, seconds: float) -> bytes:
        """The body of upstream's success. Raises Lost or Refused."""
        ...


def look_of(exchange: object, seen: Seen, metrics: Metrics, clock: Clock) -> Look | None:
    """What sends an exchange's lookups; None where its transport cannot."""
    if not isinstance(exchange, LooksUp):
        return None

    async def look(lookup: Lookup) -> bytes:
        started = clock()
        try:
            return await _sent(exchange, lookup, received, seconds=seen.deadline - started)
        finally:
            metrics.upstream_done(AttemptKind.LOOKUP, clock() - started)

    def received(size: int) -> None:
        metrics.received(size)
        seen.received_bytes += size

    return look


async def _sent(exchange: LooksUp, lookup: Lookup, received: Callable[[int], None], *, seconds: float) -> bytes:
    if seconds <= 0:
        raise LookupFailed(Looked.TIMEOUT)
    try:
        body = await exchange.look_up(lookup, seconds=seconds)
    except Lost as lost:
        received(lost.received_bytes)
        raise LookupFailed(_LOOKED_BY.get(lost.reason, Looked.RESET)) from lost
    except Refused as refused:
        received(len(refused.words))
        raise LookupFailed(Looked.STATUS) from refused
    received(len(body))
    return body
