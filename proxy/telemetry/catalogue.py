"""Every time series the proxy exports, as a table: name, help, labels with their closed sets, buckets.

Rule of this file: data only. Names carry their base unit and counters end in `_total`; a request is counted when it
ends. The sets multiply out to at most 600 series for one backend, histograms included: a test counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from vecsieve.adapters.backends import BACKENDS, Backend
from vecsieve.adapters.contract import Reason
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
    Looked,
    Named,
    Origin,
    Outcome,
    OverrideName,
    OwnRead,
    Recall,
    Retry,
    Shed,
    Side,
    Stage,
    UpstreamConnection,
    UpstreamError,
    Withheld,
)

PREFIX = "vecsieve_"

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

GaugeMode = Literal["livesum", "livemax", "livemin"]
"""How a gauge of several workers becomes one number."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label and every value it may take; no values where they are not known before the process runs."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterSpec:
    """A counter. All its series exist at 0 from the start, so that the first event is an increase."""

    name: str
    help: str
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class GaugeSpec:
    """A gauge; ``mode`` says how workers add up."""

    name: str
    help: str
    labels: tuple[Label, ...] = ()
    mode: GaugeMode = "livesum"


@dataclass(frozen=True, slots=True)
class HistogramSpec:
    """A histogram. Series with labels other than the backend appear with their first observation."""

    name: str
    help: str
    buckets: tuple[float, ...]
    labels: tuple[Label, ...] = ()


Spec = CounterSpec | GaugeSpec | HistogramSpec


def _label(name: str, *sets: Iterable[StrEnum]) -> Label:
    return Label(name, tuple(member.value for each in sets for member in each))


BACKEND = Label("backend", tuple(BACKENDS))
_NAMES = tuple(dict.fromkeys(name for row in BACKENDS.values() for name in row.operations))
_OPERATION, _SEARCH = Label("operation", (*_NAMES, OTHER)), Label("operation", _NAMES)
_OUTCOME = _label("outcome", Outcome)
_ATTEMPT = _label("attempt", AttemptKind)
_LOOKED = _label("result", Looked)
_NAMED = _label("result", Named)
_SEARCH_OUTCOME = _label("outcome", [outcome for outcome in Outcome if outcome is not Outcome.PASSTHROUGH])


def values_of(label: Label, backend: Backend) -> tuple[str, ...]:
    """The values a label may take in a process that speaks to this backend. Series of what it never does would be dead."""
    if label is BACKEND:
        return (backend.name,)
    if label in {_OPERATION, _SEARCH}:
        return (*backend.operations, OTHER) if label is _OPERATION else backend.operations
    if label is _NAMED and backend.naming is None:
        return ()
    if backend.has_second_step:
        return label.values
    # A lookup is the request of either step.
    if label is _LOOKED:
        return ()
    return tuple(value for value in label.values if backend.has_first_step or value != AttemptKind.LOOKUP)


TRAFFIC: tuple[Spec, ...] = (
    CounterSpec("requests_total", "Requests that ended.", (BACKEND, _OPERATION, _OUTCOME)),
    CounterSpec(
        "responses_total",
        "Responses by status class and by who spoke.",
        (BACKEND, _label("code_class", CodeClass), _label("origin", Origin)),
    ),
    HistogramSpec("request_duration_seconds", "Whole time of a request.", DURATION, (BACKEND, _OUTCOME)),
    HistogramSpec(
        "upstream_request_duration_seconds",
        "Time of one upstream request.",
        UPSTREAM,
        (BACKEND, _ATTEMPT),
    ),
    CounterSpec("upstream_errors_total", "Upstream failures.", (BACKEND, _label("kind", UpstreamError))),
    CounterSpec("retries_total", "Searches asked again as the client wrote them.", (BACKEND, _label("reason", Retry))),
    CounterSpec(
        "local_errors_total", "Errors the database would not have given.", (BACKEND, _label("kind", LocalError))
    ),
    CounterSpec("upstream_response_bytes_total", "Body bytes received from upstream.", (BACKEND,)),
    CounterSpec("client_response_bytes_total", "Body bytes sent to clients.", (BACKEND,)),
)

SEARCHES: tuple[Spec, ...] = (
    CounterSpec("searches_total", "Calls that rank results, by what became of them.", (BACKEND, _SEARCH_OUTCOME)),
    CounterSpec("fail_open_total", "Searches answered plainly after a failure.", (BACKEND, _label("reason", FailOpen))),
    CounterSpec("bypass_total", "Searches deliberately left alone.", (BACKEND, _label("reason", Bypass, Reason))),
    HistogramSpec("added_latency_seconds", "Time of a search not spent waiting for upstream.", OWN_COST, (_SEARCH,)),
    HistogramSpec("stage_duration_seconds", "Time of one stage of a search.", STAGE, (_label("stage", Stage),)),
    HistogramSpec("candidates", "Candidates of a search.", COUNT, (BACKEND,)),
    HistogramSpec("clusters", "Clusters of a search.", COUNT, (BACKEND,)),
    HistogramSpec("results_returned", "Results of a search.", COUNT, (BACKEND,)),
    HistogramSpec("collapsed_ratio", "Share of a search's candidates left out as duplicates.", REDUCTION, (BACKEND,)),
    HistogramSpec("score_loss_ratio", "How far selection moved a search's mean score.", LOSS, (BACKEND,)),
    CounterSpec(
        "candidates_collapsed_total", "Candidates left out as duplicates.", (BACKEND, _label("reason", Collapse))
    ),
    CounterSpec(
        "candidates_vetoed_total",
        "Candidates that a guard kept from being collapsed.",
        (BACKEND, _label("guard", Guard)),
    ),
    CounterSpec("results_capped_total", "Candidates left out by a cap on their document or source.", (BACKEND,)),
    CounterSpec("candidates_unusable_total", "Candidates without a usable vector.", (BACKEND,)),
    CounterSpec(
        "searches_restrained_total",
        "Searches left alone: vectors alone would have collapsed most of a pool whose scores differ.",
        (BACKEND,),
    ),
    CounterSpec("results_filled_total", "Duplicates returned for want of distinct results.", (BACKEND,)),
    CounterSpec("pool_exhausted_total", "Searches with fewer clusters than results wanted.", (BACKEND,)),
    CounterSpec("refetch_total", "Calls whose pool was grown.", (BACKEND,)),
    CounterSpec("mmr_swaps_total", "Representatives chosen by MMR over better ranked ones.", (BACKEND,)),
    CounterSpec("overfetch_bytes_total", "Body bytes of replies to widened requests.", (BACKEND,)),
    CounterSpec(
        "vector_recalls_total",
        "Searches fetched without vectors, memory having them.",
        (BACKEND, _label("result", Recall)),
    ),
    CounterSpec(
        "lookups_total",
        "Searches whose vectors a second request was to bring.",
        (BACKEND, _LOOKED),
    ),
    CounterSpec("extra_read_units_total", "Read units of second requests.", (BACKEND,)),
    CounterSpec(
        "own_reads_total",
        "Reads sent on top of what clients read, a batch by its searches.",
        (_label("kind", OwnRead),),
    ),
    CounterSpec("own_reads_withheld_total", "Reads of ours that were not sent.", (_label("reason", Withheld),)),
    CounterSpec("shadow_divergence_total", "Shadow answers unlike upstream's.", (BACKEND, _label("kind", Divergence))),
    CounterSpec(
        "profile_drift_total", "Times that pools ceased to look like their profile.", (_label("kind", Drifted),)
    ),
    CounterSpec("profile_reload_failures_total", "Profile files that could not be taken."),
    CounterSpec(
        "searches_by_id_total",
        "Searches of collections told by ids: unknown names are ruled by what stands before them.",
        (BACKEND, _NAMED),
    ),
    CounterSpec("overrides_total", "Per-request overrides obeyed.", (_label("header", OverrideName),)),
)

PROCESS: tuple[Spec, ...] = (
    GaugeSpec("build_info", "What runs; always 1.", (Label("version"), Label("python"), Label("parser")), "livemax"),
    GaugeSpec("requests_in_flight", "Requests being served."),
    GaugeSpec("requests_in_flight_limit", "Above this, requests wait, then are shed."),
    GaugeSpec("searches_in_flight", "Searches being improved."),
    GaugeSpec("searches_in_flight_limit", "Above this, searches pass through."),
    GaugeSpec("selection_bytes_in_flight", "Bytes of requests and replies held for selection."),
    GaugeSpec("selection_bytes_in_flight_limit", "Above this, searches pass through."),
    GaugeSpec("requests_waiting", "Requests that wait for room, or whose bodies dribble in while others need it."),
    GaugeSpec("connections", "Open connections.", (_label("side", Side),)),
    GaugeSpec("connections_limit", "Above this, client connections are closed at once."),
    GaugeSpec("upstream_connections", "Connections to the database.", (_label("state", UpstreamConnection),)),
    CounterSpec("upstream_connections_opened_total", "Connections opened to the database over HTTP."),
    GaugeSpec("upstream_requests_waiting", "Requests over HTTP that wait for a connection to the database."),
    CounterSpec("requests_shed_total", "Requests refused for want of room.", (_label("reason", Shed),)),
    CounterSpec(
        "connections_rejected_total", "Client connections ended by the proxy.", (_label("reason", ConnectionRejected),)
    ),
    GaugeSpec("breaker_state", "1 for the state the breaker is in.", (_label("state", BreakerState),), "livemax"),
    GaugeSpec("learned_collections", "Collections of which a limit is remembered."),
    GaugeSpec(
        "egress_budget_remaining_bytes", "What widened replies may still cost this month; +Inf without a budget."
    ),
    HistogramSpec("event_loop_lag_seconds", "How late the event loop wakes.", LAG),
    GaugeSpec("memory_limit_bytes", "The memory this process guards; 0 when unlimited.", (), "livesum"),
    GaugeSpec("process_resident_memory_bytes", "Resident memory of a worker.", (Label("worker"),), "livemax"),
    GaugeSpec("config_last_reload_successful", "1 when the last reload was taken.", (), "livemin"),
    GaugeSpec("config_last_reload_timestamp_seconds", "When settings were last taken.", (), "livemax"),
    GaugeSpec("config_info", "1 for the settings in force.", (Label("hash"),), "livemax"),
    CounterSpec("log_dropped_total", "Log lines dropped because standard output blocked or failed."),
    CounterSpec("spans_dropped_total", "Spans dropped because the collector was too slow or refused them."),
)

CATALOGUE: tuple[Spec, ...] = TRAFFIC + SEARCHES + PROCESS
