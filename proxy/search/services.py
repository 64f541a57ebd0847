"""What the planes of all transports share in one process."""

from __future__ import annotations

from dataclasses import dataclass

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.contract import Bounds
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.resources import MemoryGuard
from vecsieve.proxy.runtime import LongWork
from vecsieve.proxy.search.breaker import Breaker
from vecsieve.proxy.search.budgets import Egress, OwnReads
from vecsieve.proxy.search.collections import Invalidation, Learned, WriteInvalidation
from vecsieve.proxy.search.exchange import Shadow, VectorFetcher
from vecsieve.proxy.search.fetch import AdaptiveFetch
from vecsieve.proxy.search.hedge import Hedging, Replays
from vecsieve.proxy.search.limits import Admission, HeldBytes, Turns
from vecsieve.proxy.search.lookups import VectorMemory
from vecsieve.proxy.search.policy import RulesInForce
from vecsieve.proxy.search.profiles import Scaling
from vecsieve.proxy.search.report import Recent
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.requests import RequestRecorder
from vecsieve.proxy.telemetry.tracing import NO_TRACING, Clock, Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessServices:
    """One of each, made by the process and handed to the planes.

    ``vectors``: None where none are remembered. ``work``: closed by the process. ``keeps_marks``: as a Stopwatch does.
    """

    backend: str
    rules: RulesInForce
    limits: LimitSettings
    clock: Clock
    # What a request meets first.
    admission: Admission
    turns: Turns
    memory: MemoryGuard
    # What a search is improved with.
    learned: Learned
    scaling: Scaling
    vectors: VectorMemory | None
    adaptive_fetch: AdaptiveFetch
    looking: VectorFetcher
    hedges: Hedging
    shadow: Shadow
    work: LongWork
    # What bounds it.
    bounds: Bounds
    held: HeldBytes
    breaker: Breaker
    replays: Replays
    own: OwnReads
    egress: Egress
    # What is told of it.
    recorder: RequestRecorder
    metrics: Metrics
    recent: Recent
    tracing: Tracing = NO_TRACING
    keeps_marks: bool = False

    def write_invalidation(self, transport: Transport) -> WriteInvalidation:
        """What forgets when one transport's requests pass: vectors when records are written, everything when a collection is made,
        changed, deleted or called otherwise.
        """
        heard = []
        vectors = () if self.vectors is None else (self.vectors,)
        if transport.written is not None and vectors:
            heard.append(Invalidation(transport.written, vectors))
        if transport.reshaped is not None:
            heard.append(Invalidation(transport.reshaped, (self.learned, self.scaling, *vectors)))
        return WriteInvalidation(*heard)
