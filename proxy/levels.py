"""What a process holds at the moment, read off its holders ten times a second: queues last longer than that, or do not matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.proxy.admission import Admission
from vecsieve.proxy.http.pools import Census
from vecsieve.proxy.labels import UpstreamConnection
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.tally import Tally


@dataclass(slots=True)
class Levels:
    """Shows the levels. ``pools``: of HTTP/1. ``shared``: how many connections gRPC has to the database."""

    metrics: Metrics
    tally: Tally
    admission: Admission
    pools: Callable[[], Census]
    shared: Callable[[], int]
    _opened: int = 0

    def look(self) -> None:
        """Show them as they are now."""
        metrics, census = self.metrics, self.pools()
        # A request is counted before it asks for room, and inside once it has it.
        metrics.requests_waiting.set(max(0, self.tally.requests_in_flight - self.admission.in_flight))
        for state, count in (
            (UpstreamConnection.BUSY, census.busy),
            (UpstreamConnection.IDLE, census.idle),
            (UpstreamConnection.SHARED, self.shared()),
        ):
            metrics.upstream_connections.labels(state.value).set(count)
        metrics.upstream_requests_waiting.set(census.waiting)
        # Pools that were closed before the last look have opened none.
        metrics.upstream_connections_opened_total.inc(max(0, census.opened - self._opened))
        self._opened = census.opened
