"""A search over gRPC: widened messages are sent with the client's metadata, answers are returned with upstream's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from vecsieve.adapters.base import is_oversized
from vecsieve.adapters.contract import Operation, Question
from vecsieve.adapters.fusions import SAME, Ending

from ..search.errors import FailureKind, LostReplyError, RefusedReplyError, RejectedReplyError
from ..search.hedge import Fits, Gate
from ..search.policy import ResolvedPolicy
from ..search.report import report_headers
from ..telemetry.labels import AttemptKind, FailOpen
from ..telemetry.reports import Report
from ..telemetry.spans import Code
from .status import Answer, Failure

# Codes of refusals that may be caused by the size of the request. UNKNOWN is what Weaviate, and every server whose handlers just return an
# error, returns for nearly all client errors: it is an answer, not a failure of the database.
TOO_LARGE = frozenset({Code.UNKNOWN, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE})
SERVER_ERRORS = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS})
# The words of our own core for a message that is too long: its bound is `limits.reply_body_bytes`, and the message was never held.
_TOO_LONG_FOR_US = "Received message larger than max"
LOST_BY = {FailureKind.TIMEOUT: FailOpen.OVERFETCH_TIMEOUT}

Outcome = Answer | Failure
Send = Callable[[bytes, float, Ending], Awaitable[Outcome]]
"""Sends one message within this many seconds to the call's method, or to one with another last part of its name; returns the outcome."""


def refused(failure: Failure) -> LostReplyError | RefusedReplyError:
    """The exception for a failed read of ours."""
    if failure.kind is not None:
        return LostReplyError(LOST_BY.get(failure.kind, FailOpen.OVERFETCH_RESET))
    if failure.code == Code.RESOURCE_EXHAUSTED and _TOO_LONG_FOR_US in failure.details:
        return LostReplyError(FailOpen.TOO_LARGE)
    words = failure.details.encode(errors="replace")
    return RefusedReplyError(
        failure.code,
        words,
        is_server_error=failure.code in SERVER_ERRORS,
        may_be_size=is_oversized(failure.code, words) or failure.code in TOO_LARGE,
    )


def message_of(outcome: Outcome) -> bytes:
    """The message of a successful reply to a read of ours. Raises LostReplyError or RefusedReplyError."""
    if isinstance(outcome, Failure):
        raise refused(outcome)
    return outcome.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Additional reads beside a write. ``plain``: its message. ``asked``: sends a read, over gRPC or REST, and ``sent`` the call with another
    message; both return the message or body of a successful reply. Raises LostReplyError or RefusedReplyError.
    """

    operation: Operation
    plain: bytes
    client_timeout_seconds: float | None
    asked: Callable[[Question, float], Awaitable[bytes]]
    sent: Callable[[bytes, float], Awaitable[bytes]]

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        return await self.asked(question, seconds)

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        """As in the protocol."""
        return await self.sent(body, seconds)


@dataclass(slots=True, kw_only=True)
class GrpcExchange:
    """One classified call. ``plain``: its message.

    ``widened``, ``relayed``, ``asked``: send a message of ours, the client's own message, and a read of another method.
    """

    operation: Operation
    policy: ResolvedPolicy
    plain: bytes
    client_timeout_seconds: float | None
    report_header: bool
    widened: Send
    relayed: Callable[[AttemptKind, Gate | None], Awaitable[Outcome]]
    asked: Callable[[Question, float], Awaitable[Outcome]]
    _success: Answer | None = field(default=None, init=False)
    _refusal: Failure | None = field(default=None, init=False)

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        outcome = await self.widened(body, seconds, ending)
        if isinstance(outcome, Failure):
            raise self._refused(outcome)
        self._success = outcome
        return outcome.message

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """Return the message of a successful reply. Raises LostReplyError."""
        outcome = await self.asked(question, seconds)
        if isinstance(outcome, Failure):
            raise LostReplyError(FailOpen.OVERFETCH_STATUS if outcome.kind is None else FailOpen.OVERFETCH_RESET)
        return outcome.message

    def _refused(self, failure: Failure) -> LostReplyError | RefusedReplyError:
        error = refused(failure)
        if isinstance(error, RefusedReplyError):
            self._refusal = failure
        return error

    def answer(self, body: bytes, report: Report) -> Outcome:
        """Send ``body`` with upstream's own metadata. Raises RejectedReplyError when there is none."""
        if self._success is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        initial = (*self._success.initial, *report_headers(report, is_wanted=self.report_header))
        return replace(self._success, message=body, initial=initial)

    def refusal(self) -> Outcome:
        if self._refusal is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        return self._refusal

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> Outcome:
        return await self.relayed(kind, gate)
