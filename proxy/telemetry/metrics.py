"""The instruments of one process, made from the catalogue, and the few ways in which the shell records.

Every recording method takes members of closed sets, never text from a request. All are safe to call from any thread.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from vecsieve.adapters.backends import BACKENDS, Backend
from vecsieve.proxy.search.report import Figures, Report
from vecsieve.proxy.telemetry.catalogue import (
    BACKEND,
    CATALOGUE,
    PREFIX,
    CounterSpec,
    GaugeSpec,
    HistogramSpec,
    Label,
    Spec,
    values_of,
)
from vecsieve.proxy.telemetry.labels import (
    AttemptKind,
    BreakerState,
    CodeClass,
    Divergence,
    LocalError,
    Looked,
    Named,
    Origin,
    Outcome,
    OwnRead,
    Retry,
    UpstreamError,
    Withheld,
)

# One instrument of the client library made from its line of the catalogue.


def instrument(spec: Spec, registry: CollectorRegistry, backend: Backend) -> Counter | Gauge | Histogram:
    """The instrument, bound where the backend is its only label, and with all its series where they are few."""
    made = _unbound(spec, registry)
    if [label.name for label in spec.labels] == [BACKEND.name]:
        return made.labels(backend.name)
    if not isinstance(spec, HistogramSpec):
        for values in _combinations(spec.labels, backend):
            made.labels(*values)
    return made


def _unbound(spec: Spec, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name = PREFIX + spec.name
    labels = [label.name for label in spec.labels]
    match spec:
        case CounterSpec():
            return Counter(name, spec.help, labels, registry=registry)
        case GaugeSpec():
            return Gauge(name, spec.help, labels, registry=registry, multiprocess_mode=spec.mode)
        case HistogramSpec():
            return Histogram(name, spec.help, labels, registry=registry, buckets=spec.buckets)


def _combinations(labels: tuple[Label, ...], backend: Backend) -> Iterator[tuple[str, ...]]:
    if not labels:
        return iter(())  # it has one series already
    return product(*(values_of(label, backend) for label in labels))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Metrics:
    """Every instrument under its name without the prefix. ``backend``: the one this process speaks.

    An instrument whose only label is the backend is bound to it: ``metrics.candidates.observe(50)``.
    """

    backend: str
    requests_total: Counter
    responses_total: Counter
    request_duration_seconds: Histogram
    upstream_request_duration_seconds: Histogram
    upstream_errors_total: Counter
    retries_total: Counter
    local_errors_total: Counter
    upstream_response_bytes_total: Counter
    client_response_bytes_total: Counter
    searches_total: Counter
    fail_open_total: Counter
    bypass_total: Counter
    added_latency_seconds: Histogram
    stage_duration_seconds: Histogram
    candidates: Histogram
    clusters: Histogram
    results_returned: Histogram
    collapsed_ratio: Histogram
    score_loss_ratio: Histogram
    candidates_collapsed_total: Counter
    candidates_vetoed_total: Counter
    results_capped_total: Counter
    candidates_unusable_total: Counter
    searches_restrained_total: Counter
    results_filled_total: Counter
    pool_exhausted_total: Counter
    refetch_total: Counter
    mmr_swaps_total: Counter
    overfetch_bytes_total: Counter
    vector_recalls_total: Counter
    lookups_total: Counter
    extra_read_units_total: Counter
    own_reads_total: Counter
    own_reads_withheld_total: Counter
    shadow_divergence_total: Counter
    profile_drift_total: Counter
    profile_reload_failures_total: Counter
    searches_by_id_total: Counter
    overrides_total: Counter
    build_info: Gauge
    requests_in_flight: Gauge
    requests_in_flight_limit: Gauge
    searches_in_flight: Gauge
    searches_in_flight_limit: Gauge
    selection_bytes_in_flight: Gauge
    selection_bytes_in_flight_limit: Gauge
    requests_waiting: Gauge
    connections: Gauge
    connections_limit: Gauge
    upstream_connections: Gauge
    upstream_connections_opened_total: Counter
    upstream_requests_waiting: Gauge
    requests_shed_total: Counter
    connections_rejected_total: Counter
    breaker_state: Gauge
    learned_collections: Gauge
    egress_budget_remaining_bytes: Gauge
    event_loop_lag_seconds: Histogram
    memory_limit_bytes: Gauge
    process_resident_memory_bytes: Gauge
    config_last_reload_successful: Gauge
    config_last_reload_timestamp_seconds: Gauge
    config_info: Gauge
    log_dropped_total: Counter
    spans_dropped_total: Counter

    def __init__(self, registry: CollectorRegistry, *, backend: str) -> None:
        # 43 of 228 lines of a scrape were `_created` timestamps that nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # - the library is half typed
        object.__setattr__(self, "backend", backend)
        for spec in CATALOGUE:
            object.__setattr__(self, spec.name, instrument(spec, registry, BACKENDS[backend]))
        self.breaker_is(BreakerState.CLOSED)

    def request_done(
        self,
        operation: str,
        outcome: Outcome,
        *,
        status: int | None,
        origin: Origin,
        seconds: float,
        trace_id: str | None = None,
    ) -> None:
        """Count a request when it ends. ``status`` None: the client got none. ``trace_id``: of a recorded trace."""
        self.requests_total.labels(self.backend, operation, outcome.value).inc()
        self.responses_total.labels(self.backend, CodeClass.of(status).value, origin.value).inc()
        self.request_duration_seconds.labels(self.backend, outcome.value).observe(seconds, _exemplar(trace_id))

    def upstream_done(self, attempt: AttemptKind, seconds: float) -> None:
        """Time one upstream request, whatever came of it."""
        self.upstream_request_duration_seconds.labels(self.backend, attempt.value).observe(seconds)

    def upstream_failed(self, kind: UpstreamError) -> None:
        """Count a failure of upstream."""
        self.upstream_errors_total.labels(self.backend, kind.value).inc()

    def retried(self, reason: Retry) -> None:
        """Count a search that is asked again."""
        self.retries_total.labels(self.backend, reason.value).inc()

    def local_error(self, kind: LocalError) -> None:
        """Count an error that the database would not have given."""
        self.local_errors_total.labels(self.backend, kind.value).inc()

    def received(self, body_bytes: int) -> None:
        """Count body bytes from upstream."""
        self.upstream_response_bytes_total.inc(body_bytes)

    def looked_up(self, looked: Looked, read_units: int) -> None:
        """Count a search's second step, whatever the client got of it: it is billed."""
        self.lookups_total.labels(self.backend, looked.value).inc()
        self.extra_read_units_total.inc(read_units)

    def own_read(self, kind: OwnRead, reads: int) -> None:
        """Count reads of ours that are sent."""
        self.own_reads_total.labels(kind.value).inc(reads)

    def withheld(self, reason: Withheld) -> None:
        """Count a read of ours that is not."""
        self.own_reads_withheld_total.labels(reason.value).inc()

    def sent(self, body_bytes: int) -> None:
        """Count body bytes to clients."""
        self.client_response_bytes_total.inc(body_bytes)

    def named(self, named: Named) -> None:
        """Count a search of a collection that is told by its id."""
        self.searches_by_id_total.labels(self.backend, named.value).inc()

    def diverged(self, kind: Divergence) -> None:
        """Count a shadow answer unlike upstream's."""
        self.shadow_divergence_total.labels(self.backend, kind.value).inc()

    def search_done(self, report: Report, *, trace_id: str | None = None) -> None:
        """Record one classified call: its outcome, its reason, its stages, and each of its searches."""
        self.searches_total.labels(self.backend, report.outcome.value).inc()
        if report.bypass is not None:
            self.bypass_total.labels(self.backend, report.bypass.value).inc()
            return
        if report.fail_open is not None:
            self.fail_open_total.labels(self.backend, report.fail_open.value).inc()
        self.added_latency_seconds.labels(report.operation).observe(report.added_seconds, _exemplar(trace_id))
        for stage, seconds in report.stages:
            self.stage_duration_seconds.labels(stage.value).observe(seconds)
        self.overfetch_bytes_total.inc(report.overfetch_bytes)
        self.refetch_total.inc(report.grown)
        if report.recall is not None:
            self.vector_recalls_total.labels(self.backend, report.recall.value).inc()
        for each in report.figures:
            self._search_counted(each)

    def _search_counted(self, each: Figures) -> None:
        self.candidates.observe(each.candidates)
        self.clusters.observe(each.clusters)
        self.results_returned.observe(each.returned)
        if each.candidates:
            self.collapsed_ratio.observe(each.collapsed / each.candidates)
        self.score_loss_ratio.observe(each.score_loss)
        for reason, count in each.collapsed_by:
            self.candidates_collapsed_total.labels(self.backend, reason.value).inc(count)
        for guard, count in each.vetoed_by:
            self.candidates_vetoed_total.labels(self.backend, guard.value).inc(count)
        self.results_capped_total.inc(each.capped)
        self.candidates_unusable_total.inc(each.unusable)
        self.searches_restrained_total.inc(each.restrained)
        self.results_filled_total.inc(each.filled)
        self.pool_exhausted_total.inc(each.exhausted)
        self.mmr_swaps_total.inc(each.mmr_swaps)

    def breaker_is(self, state: BreakerState) -> None:
        """Show the breaker's state."""
        for each in BreakerState:
            self.breaker_state.labels(each.value).set(each is state)

    def built(self, *, version: str, parser: str) -> None:
        """Show what runs. ``parser``: the HTTP parser in use, "c" or "python"."""
        self.build_info.labels(version, platform.python_version(), parser).set(1)

    def config_taken(self, settings_hash: str, *, previous: str | None, at: float) -> None:
        """Show the settings in force. ``previous``: the hash they replace; ``at``: seconds since the epoch."""
        if previous is not None and previous != settings_hash:
            # Series cannot be removed from files shared between workers; the exposition leaves out what is 0.
            self.config_info.labels(previous).set(0)
        self.config_info.labels(settings_hash).set(1)
        self.config_last_reload_successful.set(1)
        self.config_last_reload_timestamp_seconds.set(at)

    def selection_bytes_held(self, change: int) -> None:
        """So many more bytes of requests and replies are held for selection; fewer, when negative."""
        self.selection_bytes_in_flight.inc(change)

    def config_refused(self) -> None:
        """Say that the last reload was refused and the old settings stay."""
        self.config_last_reload_successful.set(0)


def _exemplar(trace_id: str | None) -> dict[str, str] | None:
    """What leads from a histogram's bucket to one trace in it. Files shared between workers have no room for it."""
    return None if trace_id is None else {"trace_id": trace_id}
