"""Every metric the proxy exports, each declared once with its variable, and the few ways in which the shell records.

Names carry their base unit and counters end in `_total`; a request is counted when it ends. Labels are closed sets, never text
from a request; they multiply out to at most 600 series for one backend, histograms included: a test counts them. Everything
is safe to call from any thread.
"""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry

from vecsieve.adapters.backends import BACKENDS, Backend
from vecsieve.adapters.contract import Reason
from vecsieve.proxy.search.report import Figures, Report
from vecsieve.proxy.telemetry.instruments import BACKEND, CounterSpec, GaugeSpec, HistogramSpec, Instruments, Label
from vecsieve.proxy.telemetry.labels import (
    OTHER,
    AttemptKind,
    BreakerState,
    Bypass,
    CodeClass,
    Collapse,
    ConnectionRejected,
    Divergence,
    Drifted,
    FailOpen,
    Guard,
    LocalError,
    MemoryLookup,
    Named,
    Origin,
    Outcome,
    OverrideName,
    OwnRead,
    Retry,
    Shed,
    Side,
    Stage,
    UpstreamConnection,
    UpstreamError,
    VectorFetchOutcome,
    Withheld,
)

DURATION = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# Of 400 searches of eight candidates with four dimensions none cost less than half a millisecond: finer buckets are empty.
OWN_COST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
# Coarse, since there are eight stages: dashboards show means, and the buckets tell the usual from the alarming. Above
# 100 ms only waiting for upstream counts, which has a histogram of its own.
STAGE = (0.0001, 0.0005, 0.0025, 0.01, 0.025, 0.1)
# Coarser than a client's whole time: what a database does is the database's to measure. The attempt's longest time is 5 s.
UPSTREAM = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
COUNT = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
REDUCTION = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
LOSS = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


def _requests(name: str, kinds: type[AttemptKind | OwnRead]) -> Label:
    """A label of requests by kind. A lookup is the request of either step, and not every backend has one."""

    def narrow(backend: Backend) -> tuple[str, ...]:
        has_lookups = backend.has_first_step or backend.has_second_step
        return tuple(kind.value for kind in kinds if has_lookups or kind != kinds.LOOKUP)

    return Label.of(name, kinds, narrow=narrow)


_NAMES = tuple(dict.fromkeys(name for row in BACKENDS.values() for name in row.operations))
_OPERATION = Label("operation", (*_NAMES, OTHER), lambda backend: (*backend.operations, OTHER))
_SEARCH = Label("operation", _NAMES, lambda backend: backend.operations)
_OUTCOME = Label.of("outcome", Outcome)
_LOOKED = Label.of(
    "result", VectorFetchOutcome, narrow=lambda backend: tuple(VectorFetchOutcome) if backend.has_second_step else ()
)
_NAMED = Label.of("result", Named, narrow=lambda backend: () if backend.naming is None else tuple(Named))


class Metrics(Instruments):
    """Every instrument of one process under its name without the prefix."""

    # Traffic
    requests_total = CounterSpec("Requests that ended.", BACKEND, _OPERATION, _OUTCOME)
    responses_total = CounterSpec(
        "Responses by status class and by who spoke.",
        BACKEND,
        Label.of("code_class", CodeClass),
        Label.of("origin", Origin),
    )
    request_duration_seconds = HistogramSpec("Whole time of a request.", DURATION, BACKEND, _OUTCOME)
    upstream_request_duration_seconds = HistogramSpec(
        "Time of one upstream request.", UPSTREAM, BACKEND, _requests("attempt", AttemptKind)
    )
    upstream_errors_total = CounterSpec("Upstream failures.", BACKEND, Label.of("kind", UpstreamError))
    retries_total = CounterSpec("Searches asked again as the client wrote them.", BACKEND, Label.of("reason", Retry))
    local_errors_total = CounterSpec("Errors the database would not have given.", BACKEND, Label.of("kind", LocalError))
    upstream_response_bytes_total = CounterSpec("Body bytes received from upstream.", BACKEND)
    client_response_bytes_total = CounterSpec("Body bytes sent to clients.", BACKEND)

    # Searches
    searches_total = CounterSpec(
        "Calls that rank results, by what became of them.",
        BACKEND,
        Label.of("outcome", (each for each in Outcome if each is not Outcome.PASSTHROUGH)),
    )
    fail_open_total = CounterSpec("Searches answered plainly after a failure.", BACKEND, Label.of("reason", FailOpen))
    bypass_total = CounterSpec("Searches deliberately left alone.", BACKEND, Label.of("reason", Bypass, Reason))
    added_latency_seconds = HistogramSpec("Time of a search not spent waiting for upstream.", OWN_COST, _SEARCH)
    stage_duration_seconds = HistogramSpec("Time of one stage of a search.", STAGE, Label.of("stage", Stage))
    candidates = HistogramSpec("Candidates of a search.", COUNT, BACKEND)
    clusters = HistogramSpec("Clusters of a search.", COUNT, BACKEND)
    results_returned = HistogramSpec("Results of a search.", COUNT, BACKEND)
    collapsed_ratio = HistogramSpec("Share of a search's candidates left out as duplicates.", REDUCTION, BACKEND)
    score_loss_ratio = HistogramSpec("How far selection moved a search's mean score.", LOSS, BACKEND)
    candidates_collapsed_total = CounterSpec(
        "Candidates left out as duplicates.", BACKEND, Label.of("reason", Collapse)
    )
    candidates_vetoed_total = CounterSpec(
        "Candidates that a guard kept from being collapsed.", BACKEND, Label.of("guard", Guard)
    )
    results_capped_total = CounterSpec("Candidates left out by a cap on their document or source.", BACKEND)
    candidates_unusable_total = CounterSpec("Candidates without a usable vector.", BACKEND)
    searches_restrained_total = CounterSpec(
        "Searches left alone: vectors alone would have collapsed most of a pool whose scores differ.", BACKEND
    )
    results_filled_total = CounterSpec("Duplicates returned for want of distinct results.", BACKEND)
    pool_exhausted_total = CounterSpec("Searches with fewer clusters than results wanted.", BACKEND)
    refetch_total = CounterSpec("Calls whose pool was grown.", BACKEND)
    mmr_swaps_total = CounterSpec("Representatives chosen by MMR over better ranked ones.", BACKEND)
    overfetch_bytes_total = CounterSpec("Body bytes of replies to widened requests.", BACKEND)
    vector_recalls_total = CounterSpec(
        "Searches fetched without vectors, memory having them.", BACKEND, Label.of("result", MemoryLookup)
    )
    lookups_total = CounterSpec("Searches whose vectors a second request was to bring.", BACKEND, _LOOKED)
    extra_read_units_total = CounterSpec("Read units of second requests.", BACKEND)
    own_reads_total = CounterSpec(
        "Reads sent on top of what clients read, a batch by its searches.", _requests("kind", OwnRead)
    )
    own_reads_withheld_total = CounterSpec("Reads of ours that were not sent.", Label.of("reason", Withheld))
    shadow_divergence_total = CounterSpec("Shadow answers unlike upstream's.", BACKEND, Label.of("kind", Divergence))
    profile_drift_total = CounterSpec("Times that pools ceased to look like their profile.", Label.of("kind", Drifted))
    profile_reload_failures_total = CounterSpec("Profile files that could not be taken.")
    searches_by_id_total = CounterSpec(
        "Searches of collections told by ids: unknown names are ruled by what stands before them.",
        BACKEND,
        _NAMED,
    )
    overrides_total = CounterSpec("Per-request overrides obeyed.", Label.of("header", OverrideName))

    # The process
    build_info = GaugeSpec("What runs; always 1.", Label("version"), Label("python"), Label("parser"), mode="livemax")
    requests_in_flight = GaugeSpec("Requests being served.")
    requests_in_flight_limit = GaugeSpec("Above this, requests wait, then are shed.")
    searches_in_flight = GaugeSpec("Searches being improved.")
    searches_in_flight_limit = GaugeSpec("Above this, searches pass through.")
    selection_bytes_in_flight = GaugeSpec("Bytes of requests and replies held for selection.")
    selection_bytes_in_flight_limit = GaugeSpec("Above this, searches pass through.")
    requests_waiting = GaugeSpec("Requests that wait for room, or whose bodies dribble in while others need it.")
    connections = GaugeSpec("Open connections.", Label.of("side", Side))
    connections_limit = GaugeSpec("Above this, client connections are closed at once.")
    upstream_connections = GaugeSpec("Connections to the database.", Label.of("state", UpstreamConnection))
    upstream_connections_opened_total = CounterSpec("Connections opened to the database over HTTP.")
    upstream_requests_waiting = GaugeSpec("Requests over HTTP that wait for a connection to the database.")
    requests_shed_total = CounterSpec("Requests refused for want of room.", Label.of("reason", Shed))
    connections_rejected_total = CounterSpec(
        "Client connections ended by the proxy.", Label.of("reason", ConnectionRejected)
    )
    breaker_state = GaugeSpec("1 for the state the breaker is in.", Label.of("state", BreakerState), mode="livemax")
    learned_collections = GaugeSpec("Collections of which a limit is remembered.")
    egress_budget_remaining_bytes = GaugeSpec("What widened replies may still cost this month; +Inf without a budget.")
    event_loop_lag_seconds = HistogramSpec("How late the event loop wakes.", LAG)
    memory_limit_bytes = GaugeSpec("The memory this process guards; 0 when unlimited.")
    process_resident_memory_bytes = GaugeSpec("Resident memory of a worker.", Label("worker"), mode="livemax")
    config_last_reload_successful = GaugeSpec("1 when the last reload was taken.", mode="livemin")
    config_last_reload_timestamp_seconds = GaugeSpec("When settings were last taken.", mode="livemax")
    config_info = GaugeSpec("1 for the settings in force.", Label("hash"), mode="livemax")
    log_dropped_total = CounterSpec("Log lines dropped because standard output blocked or failed.")
    spans_dropped_total = CounterSpec("Spans dropped because the collector was too slow or refused them.")

    def __init__(self, registry: CollectorRegistry, *, backend: str) -> None:
        super().__init__(registry, backend=backend)
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

    def looked_up(self, looked: VectorFetchOutcome, read_units: int) -> None:
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
