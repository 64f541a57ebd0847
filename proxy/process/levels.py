"""The gauges of one process that are updated ten times a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..http.pools import Census
from ..search.context.canary import Canary
from ..search.limits import Admission, BytesInFlight
from ..search.memory.points import FeatureMemory
from ..telemetry.labels import InFlight, Side, UpstreamConnection, Waiting
from ..telemetry.metrics import Metrics
from ..telemetry.requests import RequestRecorder
from ..writes.events import Feed


@dataclass(slots=True)
class Levels:
    """Gauges that are updated ten times a second: shorter queues do not matter.

    ``clients``: the number of client connections. ``pools``: the pools of HTTP/1. ``shared``: the number of gRPC connections to the database.
    """

    metrics: Metrics
    recorder: RequestRecorder
    admission: Admission
    reserved: BytesInFlight
    clients: Callable[[], int]
    pools: Callable[[], Census]
    shared: Callable[[], int]
    feed: Feed
    canary: Canary
    features: FeatureMemory | None = None
    _opened: int = 0
    _evicted: int = 0
    _score_failures: int = 0

    def look(self) -> None:
        metrics, census = self.metrics, self.pools()
        metrics.in_flight.labels(InFlight.REQUESTS.value).set(self.recorder.requests_in_flight)
        metrics.in_flight.labels(InFlight.SEARCHES.value).set(self.recorder.searches_in_flight)
        metrics.selection_bytes_in_flight.set(self.reserved.total)
        metrics.connections.labels(Side.CLIENT.value).set(self.clients())
        # Requests count as in flight before they are admitted.
        waiting = max(0, self.recorder.requests_in_flight - self.admission.in_flight)
        metrics.requests_waiting.labels(Waiting.ADMISSION.value).set(waiting)
        metrics.requests_waiting.labels(Waiting.CONNECTION.value).set(census.waiting)
        for state, count in (
            (UpstreamConnection.BUSY, census.busy),
            (UpstreamConnection.IDLE, census.idle),
            (UpstreamConnection.SHARED, self.shared()),
        ):
            metrics.upstream_connections.labels(state.value).set(count)
        metrics.event_readers.set(self.feed.readers)
        self.canary.look()
        # The count of a pool that was closed since the last update is gone.
        metrics.upstream_connections_opened_total.inc(max(0, census.opened - self._opened))
        self._opened = census.opened
        if (features := self.features) is not None:
            metrics.memory_points.set(features.points)
            metrics.memory_bytes.set(features.stored_bytes)
            metrics.memory_evicted_total.inc(features.evicted - self._evicted)
            metrics.memory_score_failures_total.inc(features.score_failures - self._score_failures)
            self._evicted, self._score_failures = features.evicted, features.score_failures
