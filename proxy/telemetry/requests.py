"""One request, counted once when it ends. Only this module writes its metrics and its access log line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Operation

from .labels import (
    OTHER,
    Bypass,
    BypassReason,
    FailOpen,
    LocalError,
    Outcome,
    OverrideName,
    Shed,
)
from .log import Access, Ended
from .metrics import Metrics
from .reports import Report
from .tracing import Clock, Trace, Tracing, sampled_trace_id

Watch = Callable[[int | None, float, Report | None], None]
"""Gets the status, the seconds and the report of a search that ended; the report is None if the client disconnected."""


@dataclass(slots=True)
class RequestRecord:
    """One request until its end.

    ``is_refused``: the database refused the client's own search as the client's error, so there was nothing to improve.
    ``request_id``: its random id in the log, used nowhere else and not derived from the client. ``watch``: called at its end; None for most.
    """

    _recorder: RequestRecorder
    started: float
    trace_id: str | None
    trace: Trace | None
    request_id: str
    operation: Operation | None = None
    outcome: Outcome = Outcome.PASSTHROUGH
    bypass: BypassReason | None = None
    fail_open: FailOpen | None = None
    report: Report | None = None
    watch: Watch | None = None
    is_refused: bool = False

    def classified(self, operation: Operation) -> None:
        """The request is a ranked search."""
        self.operation = operation
        if self.trace is not None:
            self.trace.operation = operation.name

    def bypassed(self, reason: BypassReason) -> None:
        self.outcome, self.bypass = Outcome.BYPASS, reason

    def failed_open(self, reason: FailOpen) -> None:
        """VecSieve failed before a pool was fetched; the client gets its plain answer."""
        self.outcome, self.fail_open = Outcome.FAIL_OPEN, reason

    def reported(self, report: Report) -> None:
        self.outcome, self.report = report.outcome, report
        if self.trace is not None:
            self.trace.staged(report.marks)

    def settle(self) -> None:
        """A search that its database refuses did not fall back, whatever became of the widened one; an error of ours stays one."""
        reason = self.fail_open if self.report is None else self.report.fail_open
        if self.is_refused and reason not in {None, FailOpen.INTERNAL}:
            self.bypassed(Bypass.REFUSED)
            self.fail_open, report = None, self.report
            self.report = report and report._replace(outcome=self.outcome, bypass=self.bypass, fail_open=None)

    def shadowed(self) -> None:
        """Upstream's own answer was sent; the measurement is counted separately."""
        self.outcome = Outcome.SHADOW

    def shed(self, reason: Shed) -> None:
        """The request was refused for lack of room."""
        self._recorder.shed(reason)

    def overridden(self, names: Iterable[OverrideName]) -> None:
        """Override headers changed the policy."""
        for name in names:
            self._recorder.metrics.overrides_total.labels(name).inc()

    def bad_request(self) -> None:
        """The override headers are invalid."""
        self.outcome = Outcome.BYPASS
        self._recorder.metrics.local_errors_total.labels(LocalError.BAD_REQUEST).inc()


class RequestRecorder:
    """Records requests. ``clock``: monotonic seconds. ``log`` takes every ended request and must return at once. ``tracing``: None if no request is
    recorded.
    """

    __slots__ = ("_log", "_tracing", "clock", "metrics", "requests_in_flight", "searches_in_flight")

    def __init__(
        self, metrics: Metrics, *, log: Callable[[Access], None], clock: Clock, tracing: Tracing | None = None
    ) -> None:
        self.metrics, self._tracing = metrics, tracing
        self._log = log
        self.clock = clock
        self.searches_in_flight = 0
        self.requests_in_flight = 0

    def begin(self, traceparents: Sequence[str] = ()) -> RequestRecord:
        """Start the record of a request with these traceparent fields; the same code must call ``end``."""
        self.requests_in_flight += 1
        trace = None if self._tracing is None else self._tracing.begin(traceparents)
        trace_id = None if trace is None else trace.trace_id
        if trace is None and traceparents:
            trace_id = sampled_trace_id(traceparents)  # another process may record it
        # It tells requests apart in a log, and is no secret. Python seeds this generator again after a fork, but no other.
        request_id = f"{random.getrandbits(64):016x}"
        return RequestRecord(self, self.clock(), trace_id, trace, request_id=request_id)

    def end(self, record: RequestRecord, ended: Ended) -> None:
        self.requests_in_flight -= 1
        record.settle()
        seconds, metrics, report = self.clock() - record.started, self.metrics, record.report
        operation = OTHER if record.operation is None else record.operation.name
        metrics.request_done(
            operation,
            record.outcome,
            status=ended.status,
            origin=ended.origin,
            seconds=seconds,
            response_bytes=ended.response_bytes,
            is_relayed=ended.is_relayed,
            trace_id=record.trace_id,
        )
        if report is None and (record.bypass is not None or record.fail_open is not None):
            report = Report(
                backend=metrics.backend,
                operation=operation,
                outcome=record.outcome,
                total_seconds=seconds,
                upstream_seconds=seconds,
                added_seconds=0.0,
                bypass=record.bypass,
                fail_open=record.fail_open,
            )
        if report is not None:
            metrics.search_done(report, trace_id=record.trace_id)
        if record.watch is not None:
            record.watch(ended.status, seconds, report)
        self._log(Access(record.request_id, operation, metrics.backend, record.outcome, seconds, ended, report))
        if record.trace is not None:
            figures = () if report is None else report.figures
            record.trace.end(
                method=ended.method,
                outcome=record.outcome,
                status=ended.status if ended.code is None else None,
                code=ended.code,
                fail_open=record.fail_open if report is None else report.fail_open,
                candidates=sum(figure.candidates for figure in figures) if figures else None,
                collapsed=sum(figure.collapsed for figure in figures) if figures else None,
            )

    def shed(self, reason: Shed) -> None:
        """A request was refused for lack of room."""
        self.metrics.requests_shed_total.labels(reason).inc()
        self.metrics.local_errors_total.labels(LocalError.SHED).inc()

    def measured(self, report: Report) -> None:
        """A shadow measurement ended."""
        self.metrics.search_done(report)
