"""One intercepted exchange: what was asked, what its attempt has met, and the answer and report made of both."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from vecsieve.adapters.contract import Malformed, Operation
from vecsieve.proxy.explain import Record, explain
from vecsieve.proxy.http.headers import Headers, framed
from vecsieve.proxy.http.raw_response import RawResponse
from vecsieve.proxy.http.target import Target
from vecsieve.proxy.labels import FailOpen, OperationName, Outcome, Stage
from vecsieve.proxy.report import REPORT_HEADER, Figures, Report, figures, header_value
from vecsieve.proxy.resolved import ResolvedPolicy
from vecsieve.proxy.search import Attempt, Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One classified request, its body read. ``plain``: the body without its content coding."""

    request: web.BaseRequest
    target: Target
    operation: Operation
    policy: ResolvedPolicy
    plain: bytes
    client_timeout_seconds: float | None
    report_header: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of upstream's answer, kept for the answer that is made of it."""

    status: int
    reason: str
    headers: Headers


@dataclass(slots=True)
class Seen:
    """What the widened attempt has met so far. Mutable: the rungs and the report read it.

    ``received_bytes``: body bytes of all answers to widened requests, refused ones as well. ``is_declined``: upstream
    refused one as the client's mistake, without a reason that is known: it may have been too large.
    """

    head: Head | None = None
    verbatim: RawResponse | None = None
    reason: FailOpen | None = None
    received_bytes: int = 0
    is_declined: bool = False


class Passed(Exception):  # noqa: N818 - the answer exists and passes through: nobody failed
    """Upstream's answer to the widened request is the client's answer as it is."""


def answer_of(exchange: Exchange, seen: Seen, body: bytes, report: Report) -> RawResponse:
    """Upstream's own head around our body. Raises Rejected when there is no head."""
    head = seen.head
    if head is None:
        raise Rejected(FailOpen.INTERNAL)
    headers = framed(head.headers, length=len(body), chunked=False)
    if exchange.report_header and report.figures:  # a plain answer has none, and `returned=0` beside results is false
        headers.append((REPORT_HEADER, header_value(report)))
    return RawResponse(head.status, head.reason, headers, body=body)


def rows_of(attempt: Attempt) -> tuple[Figures, ...]:
    """The figures of an improved answer, search by search."""
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    searches = zip(attempt.call.searches, attempt.reply.pools, attempt.selections, strict=True)
    return tuple(figures(search, pool, selection) for search, pool, selection in searches)


def records_of(attempt: Attempt) -> tuple[Record, ...]:
    """What an improved answer is made of, search by search, without those that were sent as the client wrote them."""
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    searches = zip(attempt.call.searches, attempt.reply.pools, attempt.selections, attempt.plan, strict=True)
    return tuple(
        explain(attempt.call.operation, search, pool, selection)
        for search, pool, selection, planned in searches
        if planned is not None
    )


def report_of(
    exchange: Exchange,
    attempt: Attempt,
    *,
    outcome: Outcome,
    reason: FailOpen | None = None,
    rows: tuple[Figures, ...] = (),
) -> Report:
    """What the call has come to so far."""
    return Report(
        backend=exchange.operation.backend,
        operation=OperationName.of(exchange.operation.name),
        outcome=outcome,
        total_seconds=attempt.watch.elapsed(),
        upstream_seconds=attempt.watch.seconds(Stage.UPSTREAM),
        fail_open=reason,
        figures=rows,
        grown=attempt.rounds > 1,
        overfetch_bytes=attempt.fetched_bytes,
        recall=attempt.recall,
        stages=attempt.watch.stages(),
    )


def verbatim_of(seen: Seen) -> RawResponse:
    """The answer that Passed speaks of."""
    assert seen.verbatim is not None  # noqa: S101 - Passed is raised right after it is set
    return seen.verbatim


def note(seen: Seen, error: Exception) -> None:
    """Remember the first reason why a rung fell: later ones follow from it."""
    if seen.reason is not None:
        return
    if isinstance(error, Rejected):
        seen.reason = error.reason
    elif isinstance(error, Malformed):
        seen.reason = FailOpen.MALFORMED
    elif isinstance(error, MemoryError):
        seen.reason = FailOpen.MEMORY
    else:
        seen.reason = FailOpen.INTERNAL
