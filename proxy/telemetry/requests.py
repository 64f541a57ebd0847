"""What a request came to, counted once when it ends: the data plane's only writer of metrics and of the access log."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.fetch import Attempt
from vecsieve.proxy.search.report import Report
from vecsieve.proxy.telemetry.labels import (
    OTHER,
    AttemptKind,
    BypassReason,
    Divergence,
    FailOpen,
    LocalError,
    Origin,
    Outcome,
    OverrideName,
    Shed,
    UpstreamError,
)
from vecsieve.proxy.telemetry.log import Access
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.tracing import UNTRACED, Clock, Finish, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a request ended, as its transport saw it. ``is_loopback``, ``is_reused``: as in `Access`.

    ``status``: HTTP's, or the one HTTP gives a gRPC code; None: the client got none. ``code``: gRPC's own. ``is_relayed``: the
    answer's bytes have gone out and came from upstream as they are.
    """

    method: str
    status: int | None
    origin: Origin
    request_bytes: int
    response_bytes: int
    is_relayed: bool
    is_loopback: bool | None
    is_reused: bool | None = None
    code: int | None = None


class RequestRecord:
    """One request while it lasts: what is learned of it on the way to its end.

    ``request_id``: what the log calls it, here and nowhere else; nothing of the client's is in it.
    """

    __slots__ = (
        "_tally",
        "bypass",
        "fail_open",
        "operation",
        "outcome",
        "report",
        "request_id",
        "started",
        "trace",
        "trace_id",
    )

    def __init__(self, recorder: RequestRecorder, started: float, trace_id: str | None, trace: Trace) -> None:
        self._tally = recorder
        self.started = started
        self.trace_id = trace_id
        self.request_id = secrets.token_hex(8)
        self.trace = trace
        self.operation: Operation | None = None
        self.outcome = Outcome.PASSTHROUGH
        self.bypass: BypassReason | None = None
        self.fail_open: FailOpen | None = None
        self.report: Report | None = None

    @property
    def searches_in_flight(self) -> int:
        """How many searches are being improved now."""
        return self._tally.searches_in_flight

    def classified(self, operation: Operation) -> None:
        """It is a ranked search."""
        self.operation = operation
        self.trace.classified(operation.name)

    def bypassed(self, reason: BypassReason) -> None:
        """It is left alone on purpose."""
        self.outcome, self.bypass = Outcome.BYPASS, reason

    def failed_open(self, reason: FailOpen) -> None:
        """Our part failed before a pool was fetched; the client gets its plain answer."""
        self.outcome, self.fail_open = Outcome.FAIL_OPEN, reason

    def reported(self, report: Report) -> None:
        """The interceptor is done with it."""
        self.outcome, self.report = report.outcome, report
        self.trace.staged(report.marks)

    def shadowed(self) -> None:
        """Upstream's own answer went out; the measurement counts itself."""
        self.outcome = Outcome.SHADOW

    def shed(self, reason: Shed) -> None:
        """There was no room for it."""
        self._tally.shed(reason)

    def overridden(self, names: Iterable[OverrideName]) -> None:
        """Its headers changed the policy."""
        for name in names:
            self._tally.metrics.overrides_total.labels(name.value).inc()

    @contextmanager
    def original(self, attempt: AttemptKind) -> Iterator[None]:
        """Time the client's own bytes on their way and their answer on its way back, both streamed."""
        with self._tally.timed(attempt):
            yield

    def bad_request(self) -> None:
        """Its override headers cannot be obeyed."""
        self.outcome = Outcome.BYPASS
        self._tally.metrics.local_error(LocalError.BAD_REQUEST)

    def searching(self) -> AbstractContextManager[None]:
        """Hold one of the places for searches that are being improved."""
        return self._tally.searching()


class RequestRecorder:
    """Counts. ``clock``: monotonic seconds. ``log`` takes every ended request and must return at once."""

    __slots__ = ("_clock", "_log", "metrics", "requests_in_flight", "searches_in_flight")

    def __init__(self, metrics: Metrics, *, log: Callable[[Access], None], clock: Clock) -> None:
        self.metrics = metrics
        self._log = log
        self._clock = clock
        self.searches_in_flight = 0
        self.requests_in_flight = 0

    def begin(self, *, trace_id: str | None = None, trace: Trace = UNTRACED) -> RequestRecord:
        """Follow a request; whoever begins must end. ``trace_id``: of the recorded trace it belongs to, when ``trace`` has none."""
        self._requests(+1)
        return RequestRecord(self, self._clock(), trace.trace_id or trace_id, trace)

    def end(self, visit: RequestRecord, ended: Ended) -> None:
        """Count the request, however it ended."""
        self._requests(-1)
        self._count(visit, ended, self._clock() - visit.started)
        if visit.trace.trace_id is not None:
            visit.trace.end(_finish(visit, ended))

    @contextmanager
    def searching(self) -> Iterator[None]:
        """One more search is being improved."""
        self._searches(+1)
        try:
            yield
        finally:
            self._searches(-1)

    @contextmanager
    def timed(self, attempt: AttemptKind) -> Iterator[None]:
        """An exchange with upstream."""
        started = self._clock()
        try:
            yield
        finally:
            self.metrics.upstream_done(attempt, self._clock() - started)

    def shed(self, reason: Shed) -> None:
        """A request was refused for want of room."""
        self.metrics.requests_shed_total.labels(reason.value).inc()
        self.metrics.local_error(LocalError.SHED)

    def measured(self, report: Report, attempt: Attempt) -> None:
        """A shadow measurement ended."""
        self.metrics.search_done(report)
        for kind in divergences(attempt):
            self.metrics.diverged(kind)

    def _requests(self, change: int) -> None:
        self.requests_in_flight += change
        self.metrics.requests_in_flight.inc(change)

    def _searches(self, change: int) -> None:
        self.searches_in_flight += change
        self.metrics.searches_in_flight.inc(change)

    def _count(self, visit: RequestRecord, ended: Ended, seconds: float) -> None:
        operation = OTHER if visit.operation is None else visit.operation.name
        self.metrics.request_done(
            operation,
            visit.outcome,
            status=ended.status,
            origin=ended.origin,
            seconds=seconds,
            trace_id=visit.trace_id,
        )
        if ended.status is not None and ended.status >= 500 and ended.origin is Origin.UPSTREAM:
            self.metrics.upstream_failed(UpstreamError.SERVER_ERROR)
        if ended.is_relayed:
            self.metrics.received(ended.response_bytes)
        self.metrics.sent(ended.response_bytes)
        report = visit.report
        if report is None and (visit.bypass is not None or visit.fail_open is not None):
            report = Report(
                backend=self.metrics.backend,
                operation=operation,
                outcome=visit.outcome,
                total_seconds=seconds,
                upstream_seconds=seconds,
                bypass=visit.bypass,
                fail_open=visit.fail_open,
            )
        if report is not None:
            self.metrics.search_done(report, trace_id=visit.trace_id)
        self._log(
            Access(
                request_id=visit.request_id,
                method=ended.method,
                operation=operation,
                backend=self.metrics.backend,
                outcome=visit.outcome,
                origin=ended.origin,
                status=ended.status,
                seconds=seconds,
                request_bytes=ended.request_bytes,
                response_bytes=ended.response_bytes,
                is_loopback=ended.is_loopback,
                is_reused=ended.is_reused,
                report=report,
            )
        )


def _finish(visit: RequestRecord, ended: Ended) -> Finish:
    """What a trace says of the end: how far selection came, nothing of what it chose."""
    report = visit.report
    figures = () if report is None else report.figures
    return Finish(
        method=ended.method,
        outcome=visit.outcome,
        status=ended.status if ended.code is None else None,
        code=ended.code,
        fail_open=visit.fail_open if report is None else report.fail_open,
        candidates=sum(each.candidates for each in figures) if figures else None,
        collapsed=sum(each.collapsed for each in figures) if figures else None,
    )


def divergences(attempt: Attempt) -> list[Divergence]:
    """How the answer of each search would have differed from upstream's own page, once per search and kind."""
    found: list[Divergence] = []
    for search, selection in zip(attempt.call.searches, attempt.selections, strict=False):
        own = np.arange(len(selection.labels))[search.offset : search.offset + search.top_k]
        keep = selection.keep
        if len(own) != len(keep):
            found.append(Divergence.COUNT)
        if not np.array_equal(np.sort(keep), own):
            found.append(Divergence.IDS)
        elif not np.array_equal(keep, own):
            found.append(Divergence.ORDER)
    return found
