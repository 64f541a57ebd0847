"""A search over gRPC: its widened messages go out with the client's own metadata, its answers with upstream's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from vecsieve.adapters.contract import Operation, Question, is_oversized
from vecsieve.proxy.grpc.status import Answer, Code, Failure
from vecsieve.proxy.search.errors import FailureKind, LostReplyError, RefusedReplyError, RejectedReplyError
from vecsieve.proxy.search.exchange import Fits, Gate
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.search.report import REPORT_HEADER, Report, header_value
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen

# Codes of a refusal that may be about the size of what was asked for. UNKNOWN is what Weaviate, and every server whose
# handlers just return an error, says of nearly all mistakes of clients: it is an answer, no failure of the database.
TOO_LARGE = frozenset({Code.UNKNOWN, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE})
SERVER_ERRORS = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS})
# Of the words for a message that is too long our own end's words: its bound is `limits.reply_body_bytes`, and the message was never held.
_TOO_LONG_FOR_US = "Received message larger than max"
LOST_BY = {FailureKind.TIMEOUT: FailOpen.OVERFETCH_TIMEOUT}

Outcome = Answer | Failure
Send = Callable[[bytes, float], Awaitable[Outcome]]
"""Sends one message within so many seconds, and returns what came of it."""


@dataclass(slots=True, kw_only=True)
class GrpcExchange:
    """One classified call. ``plain``: its message. ``widened``, ``relayed``: how one of ours, and the client's own, go out.

    ``asked``: how a question of another method goes out.
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

    async def send(self, body: bytes, *, seconds: float, fits: Fits) -> bytes:
        """Send a widened message; the message of upstream's success. Raises LostReplyError or RefusedReplyError."""
        outcome = await self.widened(body, seconds)
        if isinstance(outcome, Failure):
            raise self._refused(outcome)
        self._success = outcome
        return outcome.message

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """Send a question; the message of upstream's success. Raises LostReplyError."""
        outcome = await self.asked(question, seconds)
        if isinstance(outcome, Failure):
            raise LostReplyError(FailOpen.OVERFETCH_STATUS if outcome.kind is None else FailOpen.OVERFETCH_RESET)
        return outcome.message

    def _refused(self, failure: Failure) -> LostReplyError | RefusedReplyError:
        if failure.kind is not None:
            return LostReplyError(LOST_BY.get(failure.kind, FailOpen.OVERFETCH_RESET))
        if failure.code == Code.RESOURCE_EXHAUSTED and _TOO_LONG_FOR_US in failure.details:
            return LostReplyError(FailOpen.TOO_LARGE)
        self._refusal = failure
        words = failure.details.encode(errors="replace")
        return RefusedReplyError(
            failure.code,
            words,
            is_server_error=failure.code in SERVER_ERRORS,
            may_be_size=is_oversized(failure.code, words) or failure.code in TOO_LARGE,
        )

    def answer(self, body: bytes, report: Report) -> Outcome:
        """Upstream's own metadata around our message. Raises RejectedReplyError when there is none."""
        if self._success is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        initial = self._success.initial
        if self.report_header and report.figures:
            initial = (*initial, (REPORT_HEADER, header_value(report)))
        return replace(self._success, message=body, initial=initial)

    def refusal(self) -> Outcome:
        """Upstream's last refusal, as it came."""
        if self._refusal is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        return self._refusal

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> Outcome:
        """Upstream's own answer to the client's own message."""
        return await self.relayed(kind, gate)
