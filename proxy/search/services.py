"""What the planes of all transports share in one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.contract import Bounds
from vecsieve.config.schema import LimitSettings

from ..runtime.loop import LongWork
from ..runtime.memory import MemoryGuard
from ..telemetry.metrics import Metrics
from ..telemetry.reports import Report
from ..telemetry.requests import RequestRecorder
from ..telemetry.tracing import NO_TRACING, Clock, Tracing
from .budgets import Egress, OwnReads
from .collections.learned import Invalidation, Learned, WriteInvalidation
from .collections.profiles import Scaling
from .collections.texts import CollectionTexts
from .context.sessions import Sessions
from .exchange import Shadow, VectorFetcher
from .fetch import Attempt, Depths
from .hedge import Hedging, Replays
from .limits import Admission, Breaker, HeldBytes, Turns
from .memory.points import FeatureMemory
from .policy import RulesInForce


class Observer(Protocol):
    """Keeps improved answers for the admin port. The answer does not depend on it."""

    def answered(self, attempt: Attempt, report: Report) -> None:
        """An improved answer is ready. Must return at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessServices:
    """What all searches of a process share.

    ``features``: None if nothing is remembered. ``work``: closed by the process. ``keeps_marks``: as for Stopwatch.
    """

    backend: str
    rules: RulesInForce
    limits: LimitSettings
    clock: Clock
    # Admission.
    admission: Admission
    turns: Turns
    memory: MemoryGuard
    # What improves a search.
    learned: Learned
    scaling: Scaling
    texts: CollectionTexts
    features: FeatureMemory | None
    depths: Depths
    vector_fetcher: VectorFetcher
    hedges: Hedging
    shadow: Shadow
    work: LongWork
    # What limits it.
    bounds: Bounds
    held: HeldBytes
    breaker: Breaker
    replays: Replays
    own: OwnReads
    egress: Egress
    # Where it is recorded.
    recorder: RequestRecorder
    metrics: Metrics
    observer: Observer
    tracing: Tracing = NO_TRACING
    keeps_marks: bool = False
    sessions: Sessions

    def write_invalidation(self, transport: Transport) -> WriteInvalidation:
        """Invalidates what is known of a collection when it is created, changed, deleted or renamed."""
        if transport.reshaped is None:
            return WriteInvalidation()
        features = () if self.features is None else (self.features,)
        return WriteInvalidation(Invalidation(transport.reshaped, (self.learned, self.scaling, self.texts, *features)))
