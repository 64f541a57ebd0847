"""What the planes of all transports share in one process, and what each is built from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.adapters.contract import Adapter, Dialect
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.resources import MemoryGuard
from vecsieve.proxy.runtime import LongWork
from vecsieve.proxy.search.collections import Heard, Overhearing, Touches
from vecsieve.proxy.search.exchange import Knowing, Shadow
from vecsieve.proxy.search.limits import Admission, Turns
from vecsieve.proxy.search.lookups import VectorMemory
from vecsieve.proxy.search.policy import RulesInForce
from vecsieve.proxy.search.profiles import Scaling
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.search.service import Conduct, Ladder, Surroundings, nobody
from vecsieve.proxy.telemetry.requests import Tally
from vecsieve.proxy.telemetry.tracing import NO_TRACING, Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One of each. ``vectors``: None where none are remembered. ``work``: whoever makes the parts closes it."""

    rules: RulesInForce
    limits: LimitSettings
    backend: str
    admission: Admission
    memory: MemoryGuard
    turns: Turns
    tally: Tally
    around: Surroundings
    shadow: Shadow
    scaling: Scaling
    vectors: VectorMemory | None
    work: LongWork
    tracing: Tracing = NO_TRACING

    def conduct(
        self, adapter: Adapter, dialect: Dialect, *, number_bytes: int, waiting: Callable[[], int] = nobody
    ) -> Conduct:
        """The way of one transport's searches. ``number_bytes``: what one number of a vector takes on it. ``waiting``: how many of
        its calls nobody has looked at yet.
        """
        searcher = Searcher(adapter, self.scaling, self.vectors, self.work)
        return Conduct(
            ladder=Ladder(searcher, dialect, self.around, number_bytes=number_bytes),
            knowing=Knowing(adapter, self.around.metrics, self.around.clock, self.around.learned.told),
            shadow=self.shadow,
            memory=self.memory,
            turns=self.turns,
            own=self.around.own,
            lag_seconds=self.limits.searches_lag_seconds,
            most=self.limits.searches_in_flight,
            waiting=waiting,
        )

    def overhearing(self, *, written: Touches | None, reshaped: Touches | None) -> Overhearing:
        """What forgets when one transport's requests pass: vectors when records are written, everything when a collection is made,
        changed, deleted or called otherwise. None: nobody can tell.
        """
        heard = []
        vectors = () if self.vectors is None else (self.vectors,)
        if written is not None and vectors:
            heard.append(Heard(written, vectors))
        if reshaped is not None:
            heard.append(Heard(reshaped, (self.around.learned, self.scaling, *vectors)))
        return Overhearing(*heard)
