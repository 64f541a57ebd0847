"""Declares every metric of the proxy once, as a class attribute of `Metrics`, and has the methods that record several at once.

Names contain their base unit. Counters end in `_total`. A request is counted when it ends. Labels are closed sets, never text
from a request. There are at most 640 series for one backend, histograms included (a test counts them), and four more
for each rule that the operator has named.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry

from vecsieve.adapters.backends import BACKENDS, Backend
from vecsieve.adapters.contract import Reason
from vecsieve.adapters.fusions import Undivided

from .instruments import (
    BACKEND,
    Counter,
    CounterSpec,
    Domain,
    GaugeSpec,
    HistogramSpec,
    InfoSpec,
    Instruments,
    Label,
    Store,
    WorkerGaugeSpec,
)
from .labels import (
    CODE_CLASSES,
    OTHER,
    ApiRoute,
    AttemptKind,
    BreakerState,
    Bypass,
    CanaryState,
    CodeClass,
    Collapse,
    ConnectionRejected,
    CopiesResult,
    Delivery,
    EventSink,
    Evidence,
    FailOpen,
    FusionOutcome,
    InFlight,
    LeftOutBy,
    LocalError,
    MemoryRecall,
    Named,
    Origin,
    Outcome,
    OverrideName,
    PointResult,
    ProfileFailure,
    ReadKind,
    Retry,
    RuleLabel,
    SampledResult,
    Shed,
    Side,
    Stage,
    Telemetry,
    TextsKnown,
    UpstreamConnection,
    UpstreamError,
    VectorFetchOutcome,
    Waiting,
    Withheld,
    WriteOutcome,
    WriteTier,
)
from .reports import Figures, Report

DURATION = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# Of 400 searches of eight candidates with four dimensions none cost less than half a millisecond: finer buckets are empty.
ADDED_COST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
# Coarse, because there are six stages: dashboards show means. Above 100 ms only waiting for upstream matters, which has its
# own histogram.
STAGE = (0.0001, 0.0005, 0.0025, 0.01, 0.025, 0.1)
# Coarser than the whole time of a request: the database measures itself. An attempt takes at most 5 s.
UPSTREAM = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
# A request of 50 chunks takes a few milliseconds, one of 500 with long texts some hundred.
API = (0.0025, 0.01, 0.025, 0.1, 0.5, 2.5)
LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
# The deadline of a write is 2 s.
WAIT = (0.005, 0.025, 0.1, 0.5, 2.0)
COUNT = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
REDUCTION = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
LOSS = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


def _requests(name: str, kinds: type[AttemptKind | ReadKind]) -> Label:
    """A label of request kinds. LOOKUP is left out for backends without vector fetches and descriptions, NEIGHBOURS without a gate,
    RETRIEVERS without fusions.
    """

    def narrow(backend: Backend) -> tuple[str, ...]:
        has_lookups = backend.has_first_step or backend.has_second_step
        left_out: set[str] = set() if has_lookups else {kinds.LOOKUP.value}
        left_out |= set() if backend.gates_writes else {ReadKind.NEIGHBOURS.value}
        left_out |= set() if backend.has_fusions else {ReadKind.RETRIEVERS.value}
        return tuple(kind.value for kind in kinds if kind.value not in left_out)

    return Label.of(name, kinds, narrow=narrow)


_NAMES = tuple(dict.fromkeys(name for row in BACKENDS.values() for name in row.operations))
_OPERATION = Label("operation", (*_NAMES, OTHER), lambda backend: (*backend.operations, OTHER))
_SEARCH = Label("operation", _NAMES, lambda backend: backend.operations)
_OUTCOME = Label.of("outcome", Outcome)
_SELECTED = Label.of("outcome", (Outcome.DEDUP, Outcome.SHADOW))
_LOOKED = Label.of(
    "result", VectorFetchOutcome, narrow=lambda backend: tuple(VectorFetchOutcome) if backend.has_second_step else ()
)
_RULE = Label.of("rule", RuleLabel)
_FUSED = Label.of(
    "result", FusionOutcome, Undivided, narrow=lambda row: (*FusionOutcome, *Undivided) if row.has_fusions else ()
)


def _if_gated(name: str, kinds: type[WriteOutcome | WriteTier | CopiesResult | PointResult]) -> Label:
    """A label of the write gate, for backends that have one."""
    return Label.of(
        name, kinds, narrow=lambda backend: tuple(kind.value for kind in kinds) if backend.gates_writes else ()
    )


_NAMED = Label.of("result", Named, narrow=lambda backend: () if backend.naming is None else tuple(Named))


class Metrics(Instruments):
    # Traffic
    requests_total = CounterSpec("Requests that ended.", BACKEND, _OPERATION, _OUTCOME)
    responses_total = CounterSpec(
        "Responses by status class and by who made them.",
        BACKEND,
        Label.of("code_class", CodeClass),
        Label.of("origin", Origin),
    )
    request_duration_seconds = HistogramSpec("Duration of a whole request.", DURATION, BACKEND, _OUTCOME)
    upstream_request_duration_seconds = HistogramSpec(
        "Duration of one upstream request.", UPSTREAM, BACKEND, _requests("attempt", AttemptKind)
    )
    upstream_errors_total = CounterSpec("Upstream failures.", BACKEND, Label.of("kind", UpstreamError))
    retries_total = CounterSpec(
        "Searches sent again as the client wrote them, after a widened request failed.",
        BACKEND,
        Label.of("reason", Retry),
    )
    local_errors_total = CounterSpec("Errors made by the proxy.", BACKEND, Label.of("kind", LocalError))
    upstream_response_bytes_total = CounterSpec("Body bytes received from upstream.", BACKEND)
    client_response_bytes_total = CounterSpec("Body bytes sent to clients.", BACKEND)

    # Searches
    searches_total = CounterSpec(
        "Calls that rank results, by outcome.",
        BACKEND,
        Label.of("outcome", (outcome for outcome in Outcome if outcome is not Outcome.PASSTHROUGH)),
    )
    fail_open_total = CounterSpec("Searches answered plainly after a failure.", BACKEND, Label.of("reason", FailOpen))
    bypass_total = CounterSpec("Searches deliberately not changed.", BACKEND, Label.of("reason", Bypass, Reason))
    added_latency_seconds = HistogramSpec("Duration of a search minus its wait for upstream.", ADDED_COST, _SEARCH)
    stage_duration_seconds = HistogramSpec("Duration of one stage of a search.", STAGE, Label.of("stage", Stage))
    candidates = HistogramSpec("Candidates of a search.", COUNT, BACKEND)
    clusters = HistogramSpec("Clusters of a search.", COUNT, BACKEND)
    results_returned = HistogramSpec("Results of a search.", COUNT, BACKEND)
    collapsed_ratio = HistogramSpec("Share of a search's candidates removed as duplicates.", REDUCTION, BACKEND)
    score_loss_ratio = HistogramSpec("Relative change of a search's mean score by selection.", LOSS, BACKEND)
    candidates_collapsed_total = CounterSpec("Candidates removed as duplicates.", BACKEND, Label.of("reason", Collapse))
    results_left_out_total = CounterSpec(
        "Results removed other than as duplicates.", BACKEND, Label.of("reason", LeftOutBy)
    )
    candidates_unusable_total = CounterSpec("Candidates without a usable vector.", BACKEND)
    searches_restrained_total = CounterSpec(
        "Searches not changed: vectors alone would collapse most of a pool whose scores differ.", BACKEND
    )
    results_filled_total = CounterSpec("Duplicates returned because distinct results were too few.", BACKEND)
    results_repeated_total = CounterSpec("Results of the database's own pages that repeat a better one.", BACKEND)
    pool_exhausted_total = CounterSpec("Searches with fewer clusters than requested results.", BACKEND)
    refetch_total = CounterSpec("Calls whose pool was grown.", BACKEND)
    overfetch_bytes_total = CounterSpec("Body bytes of replies to widened requests.", BACKEND)
    memory_recalls_total = CounterSpec(
        "Calls sent without vectors, by how many of them the feature memory had.",
        BACKEND,
        Label.of("result", MemoryRecall),
    )
    memory_evicted_total = CounterSpec("Points evicted from the feature memory.")
    memory_score_failures_total = CounterSpec("Pools with a score that did not fit the stored vector.")
    fusions_total = CounterSpec(
        "Fusions of several lists under per_retriever: divided, or the reason why not.",
        BACKEND,
        _FUSED,
    )
    lookups_total = CounterSpec("Searches whose vectors need a second request.", BACKEND, _LOOKED)
    extra_read_units_total = CounterSpec("Read units of second requests.", BACKEND)
    own_reads_total = CounterSpec(
        "Reads sent in addition to those of clients; each search of a batch counts.", _requests("kind", ReadKind)
    )
    own_reads_withheld_total = CounterSpec("Additional reads that were not sent.", Label.of("reason", Withheld))
    answers_changed_total = CounterSpec(
        "Answers that differ from the database's own page; in mode shadow those that would.", BACKEND, _SELECTED
    )
    results_replaced_total = CounterSpec(
        "Results of the database's own pages that left as copies, by whether their texts prove it.",
        BACKEND,
        _SELECTED,
        Label.of("evidence", Evidence),
    )
    tokens_saved_total = CounterSpec("Estimated tokens of the results that left as copies.", BACKEND, _SELECTED)
    sampled_results_total = CounterSpec(
        "Results of sampled searches, by whether preset meaning would remove them.",
        BACKEND,
        Label.of("result", SampledResult),
    )
    profile_failures_total = CounterSpec(
        "Profiles that pools stopped matching, or whose file could not be loaded.", Label.of("kind", ProfileFailure)
    )
    searches_by_id_total = CounterSpec(
        "Searches that name their collection by id, by whether its name is known.",
        BACKEND,
        _NAMED,
    )
    rule_searches_total = CounterSpec("Searches with a selection, by the rule of their policy.", _RULE)
    rule_candidates_total = CounterSpec("Candidates, by the rule of the search's policy.", _RULE)
    rule_candidates_collapsed_total = CounterSpec("Candidates removed as duplicates, by rule.", _RULE)
    rule_results_filled_total = CounterSpec(
        "Duplicates returned because distinct results were too few, by rule.", _RULE
    )
    overrides_total = CounterSpec("Per-request overrides applied.", Label.of("header", OverrideName))

    # Our own API: series appear with the first request
    api_requests_total = CounterSpec(
        "Requests of the API that ended, by status class.",
        Label.of("route", ApiRoute, narrow=lambda _backend: ()),
        Label.of("status", CodeClass),
    )
    api_request_duration_seconds = HistogramSpec(
        "Duration of a request of the API.",
        API,
        Label.of(
            "route",
            (ApiRoute.OPTIMIZE, ApiRoute.FUSE, ApiRoute.CHECK, ApiRoute.ADD, ApiRoute.ADD_BATCH),
            narrow=lambda _backend: (),
        ),
    )

    # Writes
    writes_total = CounterSpec("Writes handled by the write gate.", BACKEND, _if_gated("outcome", WriteOutcome))
    write_points_total = CounterSpec(
        "Points of judged writes, by the tier of the most similar point.", BACKEND, _if_gated("tier", WriteTier)
    )
    write_copies_total = CounterSpec("Points of judged writes that are copies.", BACKEND)
    writes_with_copies_total = CounterSpec(
        "Writes with copies that were annotated or rejected.", BACKEND, _if_gated("result", CopiesResult)
    )
    write_points_settled_total = CounterSpec(
        "Points of judged writes, and stored points that they replaced.", BACKEND, _if_gated("result", PointResult)
    )
    event_readers = GaugeSpec("Clients that read the event feed.")
    events_dropped_total = CounterSpec("Events of writes that were dropped.", Label.of("sink", EventSink))
    webhook_requests_total = CounterSpec("Requests of the webhook.", Label.of("result", Delivery))
    write_wait_seconds = HistogramSpec("How long writes waited to be judged.", WAIT, BACKEND)

    # The process
    build_info = InfoSpec("Version, Python and parser; always 1.", Label("version"), Label("python"), Label("parser"))
    in_flight = GaugeSpec("Requests in progress, and searches being improved.", Label.of("kind", InFlight))
    in_flight_limit = GaugeSpec(
        "Above this, requests wait and then are refused, and searches pass through.", Label.of("kind", InFlight)
    )
    selection_bytes_in_flight = GaugeSpec("Bytes of requests and replies held for selection.")
    selection_bytes_in_flight_limit = GaugeSpec("Above this, searches pass through.")
    session_store_failures_total = CounterSpec("Reads and writes of sessions that failed.")
    memory_points = GaugeSpec("Points in the feature memory.")
    memory_bytes = GaugeSpec("Bytes of the feature memory in use.")
    requests_waiting = GaugeSpec(
        "Requests that wait to be served, or for a connection to the database.",
        Label.of("wait", Waiting),
    )
    connections = GaugeSpec("Open connections.", Label.of("side", Side))
    connections_limit = GaugeSpec("Above this, client connections are closed at once.")
    upstream_connections = GaugeSpec("Connections to the database.", Label.of("state", UpstreamConnection))
    upstream_connections_opened_total = CounterSpec("Connections opened to the database over HTTP.")
    requests_shed_total = CounterSpec("Requests refused because of overload.", Label.of("reason", Shed))
    connections_rejected_total = CounterSpec(
        "Client connections ended by the proxy.", Label.of("reason", ConnectionRejected)
    )
    breaker_state = GaugeSpec("1 for the breaker's current state.", Label.of("state", BreakerState), mode="livemax")
    canary_state = GaugeSpec(
        "1 for the canary's current state; all but none and on: it was stopped, and why.",
        Label.of("state", CanaryState),
        mode="livemax",
    )
    learned_collections = GaugeSpec("Collections with a learned limit.")
    texts_collections = GaugeSpec(
        "Collections by what is known of where their texts are.", Label.of("texts", TextsKnown), mode="livemax"
    )
    egress_budget_remaining_bytes = GaugeSpec("Remaining egress budget of this month; +Inf without a budget.")
    event_loop_lag_seconds = HistogramSpec("How late the event loop wakes.", LAG)
    memory_limit_bytes = GaugeSpec("The memory limit of this process; 0 if unlimited.")
    process_resident_memory_bytes = WorkerGaugeSpec("Resident memory of a worker.")
    config_last_reload_successful = GaugeSpec("1 if the last reload was accepted.", mode="livemin")
    config_last_reload_timestamp_seconds = GaugeSpec("When settings were last accepted.", mode="livemax")
    config_info = InfoSpec("1 for the settings in force.", Label("hash"))
    telemetry_dropped_total = CounterSpec(
        "Log lines and spans that their receiver was too slow for, or refused.",
        Label.of("kind", Telemetry),
        is_threaded=True,
    )

    def __init__(
        self, registry: CollectorRegistry, *, backend: str, rules: Iterable[str] = (), store: Store | None = None
    ) -> None:
        """``rules``: the names of the operator's rules; others are counted as RuleLabel.OTHER."""
        super().__init__(registry, Domain.of(backend, rule=rules), store=store)
        self.breaker_is(BreakerState.CLOSED)
        self.canary_is(CanaryState.NONE)

    def request_done(  # noqa: PLR0913 - all that is counted of a request
        self,
        operation: str,
        outcome: Outcome,
        *,
        status: int | None,
        origin: Origin,
        seconds: float,
        response_bytes: int = 0,
        is_relayed: bool = False,
        trace_id: str | None = None,
    ) -> None:
        """Counts a request that ended. ``status`` None: the client got no status. ``response_bytes``: of the body to the client;
        ``is_relayed``: they came from upstream. ``trace_id``: of a recorded trace.
        """
        code_class = CODE_CLASSES.get((status or 0) // 100, CodeClass.NONE)
        self.requests_total.labels(operation, outcome).inc()
        self.responses_total.labels(code_class, origin).inc()
        self.request_duration_seconds.labels(outcome).observe(seconds, trace_id)
        self.client_response_bytes_total.inc(response_bytes)
        if is_relayed:
            self.upstream_response_bytes_total.inc(response_bytes)
        if (status or 0) >= 500 and origin is Origin.UPSTREAM:
            self.upstream_errors_total.labels(UpstreamError.SERVER_ERROR).inc()

    def upstream_done(self, attempt: AttemptKind, seconds: float, received_bytes: int = 0) -> None:
        """``received_bytes``: of a body that was read here."""
        self.upstream_response_bytes_total.inc(received_bytes)
        self.upstream_request_duration_seconds.labels(attempt).observe(seconds)

    def looked_up(self, looked: VectorFetchOutcome, read_units: int) -> None:
        """Counts a vector fetch. Failed ones count, too, because they are billed."""
        self.lookups_total.labels(looked).inc()
        self.extra_read_units_total.inc(read_units)

    def named(self, named: Named) -> None:
        """Count a search whose collection is addressed by id."""
        self.searches_by_id_total.labels(named).inc()

    def sampled(self, reworded: int, results: int) -> None:
        """Count the results of a sampled search, and those that others say in other words."""
        self.sampled_results_total.labels(SampledResult.REWORDED).inc(reworded)
        self.sampled_results_total.labels(SampledResult.STAYS).inc(results - reworded)

    def search_done(self, report: Report, *, trace_id: str | None = None) -> None:
        """Record a classified call: outcome, reason, stages, and each of its searches."""
        self.searches_total.labels(report.outcome).inc()
        if report.bypass is not None:
            self.bypass_total.labels(report.bypass.value).inc()
            return
        if report.fail_open is not None:
            self.fail_open_total.labels(report.fail_open).inc()
        self.added_latency_seconds.labels(report.operation).observe(report.added_seconds, trace_id)
        of_stage = self.stage_duration_seconds.labels
        for stage, seconds in report.stages:
            of_stage(stage).observe(seconds)
        self.overfetch_bytes_total.inc(report.overfetch_bytes)
        if report.grown:
            self.refetch_total.inc()
        if report.recall is not None:
            self.memory_recalls_total.labels(report.recall).inc()
        for figures in report.figures:
            self._search_counted(report, figures)

    def _search_counted(self, report: Report, figures: Figures) -> None:
        outcome = report.outcome
        rule = report.rule if report.rule in self.rule_searches_total else RuleLabel.OTHER
        self.candidates.observe(figures.candidates)
        self.clusters.observe(figures.clusters)
        self.results_returned.observe(figures.returned)
        if figures.candidates:
            self.collapsed_ratio.observe(figures.collapsed / figures.candidates)
        self.score_loss_ratio.observe(figures.score_loss)
        for reason, count in figures.collapsed_by:
            self.candidates_collapsed_total.labels(reason).inc(count)
        self.rule_searches_total.labels(rule).inc()
        self.rule_candidates_total.labels(rule).inc(figures.candidates)
        most_have_none: tuple[tuple[Counter, tuple[str, ...], int], ...] = (
            (self.results_left_out_total, (LeftOutBy.CAP,), figures.capped),
            (self.results_left_out_total, (LeftOutBy.BUDGET,), figures.over_budget),
            (self.results_left_out_total, (LeftOutBy.SHOWN,), figures.earlier),
            (self.candidates_unusable_total, (), figures.unusable),
            (self.searches_restrained_total, (), figures.restrained),
            (self.results_filled_total, (), figures.filled),
            (self.results_repeated_total, (), figures.repeats),
            (self.pool_exhausted_total, (), figures.exhausted),
            (self.rule_candidates_collapsed_total, (rule,), figures.collapsed),
            (self.rule_results_filled_total, (rule,), figures.filled),
        )
        for counter, labels, count in most_have_none:
            if count:
                (counter.labels(*labels) if labels else counter).inc(count)
        if figures.changed:
            self.answers_changed_total.labels(outcome).inc()
            self.results_replaced_total.labels(outcome, Evidence.PROVEN).inc(figures.proven)
            self.results_replaced_total.labels(outcome, Evidence.JUDGED).inc(figures.judged)
            self.tokens_saved_total.labels(outcome).inc(figures.saved_tokens)

    def api_request_done(self, route: ApiRoute, *, status: int | None, seconds: float) -> None:
        """``status`` None: the client got none."""
        self.api_requests_total.labels(route, CODE_CLASSES.get((status or 0) // 100, CodeClass.NONE)).inc()
        if route in self.api_request_duration_seconds:
            self.api_request_duration_seconds.labels(route).observe(seconds)

    def breaker_is(self, state: BreakerState) -> None:
        for member in BreakerState:
            self.breaker_state.labels(member).set(member is state)

    def canary_is(self, state: CanaryState) -> None:
        for member in CanaryState:
            self.canary_state.labels(member).set(member is state)

    def texts_known(self, standings: Mapping[TextsKnown, int]) -> None:
        for member in TextsKnown:
            self.texts_collections.labels(member).set(standings.get(member, 0))

    def built(self, *, version: str, parser: str) -> None:
        """``parser``: the HTTP parser in use, "c" or "python"."""
        self.build_info.set(version, platform.python_version(), parser)

    def config_taken(self, settings_hash: str, *, at: float) -> None:
        """Show the settings in force. ``at``: seconds since the epoch."""
        self.config_info.set(settings_hash)
        self.config_last_reload_successful.set(1)
        self.config_last_reload_timestamp_seconds.set(at)

    def config_refused(self) -> None:
        """The last reload was refused; the old settings stay."""
        self.config_last_reload_successful.set(0)
