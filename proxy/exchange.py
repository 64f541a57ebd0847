"""One intercepted exchange on any transport: what was asked, how widened requests go out, and the answers made of what
comes back. What its attempt has met, and the report made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from vecsieve.adapters.contract import Malformed, Operation
from vecsieve.proxy.explain import Record, explain
from vecsieve.proxy.held_bytes import Hold
from vecsieve.proxy.labels import AttemptKind, FailOpen, OperationName, Outcome, Stage
from vecsieve.proxy.race import Gate
from vecsieve.proxy.report import Figures, Report, figures
from vecsieve.proxy.resolved import ResolvedPolicy
from vecsieve.proxy.search import Attempt, Rejected


class Weighed(Protocol):
    """A transport's answer."""

    @property
    def body_bytes(self) -> int:
        """The size of its body; only asked of one that was made here."""
        ...

    @property
    def is_success(self) -> bool:
        """Whether it says that the request was fine."""
        ...


A_co = TypeVar("A_co", bound=Weighed, covariant=True)


class Exchange(Protocol[A_co]):
    """One classified request whose body is read, on its transport."""

    @property
    def operation(self) -> Operation:
        """Which search it is."""
        ...

    @property
    def policy(self) -> ResolvedPolicy:
        """What it is answered by."""
        ...

    @property
    def plain(self) -> bytes:
        """The body without its content coding."""
        ...

    @property
    def client_timeout_seconds(self) -> float | None:
        """What the client gives the whole exchange; None when it does not say."""
        ...

    async def send(self, body: bytes, *, seconds: float, fits: Fits) -> bytes:
        """Send a widened request; the body of upstream's success. Raises Lost or Refused.

        ``fits``: asked as the body arrives, where a transport can tell; what does not fit is Lost to overload.
        """
        ...

    def answer(self, body: bytes, report: Report) -> A_co:
        """The head of upstream's last success around our body. Raises Rejected when there is none."""
        ...

    def refusal(self) -> A_co:
        """Upstream's last refusal, as it came."""
        ...

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> A_co:
        """Send the client's own bytes; upstream's own answer to them. ``kind``: whether widened ones went before. ``gate``: waited
        for when the answer begins, before anything of it goes out.
        """
        ...


class Lost(Exception):  # noqa: N818 - named for what became of the answer
    """A widened request brought no answer that can be read. ``received_bytes``: of what was dropped."""

    def __init__(self, reason: FailOpen, *, received_bytes: int = 0) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.received_bytes = received_bytes


class Refused(Exception):  # noqa: N818 - it is upstream's word, nobody's failure
    """Upstream answered a widened request, and not with success.

    ``status``, ``words``: as the dialect reads them. ``is_server_error``: its own failure. ``may_be_size``: of the kind that
    too many candidates can be refused with.
    """

    def __init__(self, status: int, words: bytes, *, is_server_error: bool, may_be_size: bool) -> None:
        super().__init__(status)
        self.status = status
        self.words = words
        self.is_server_error = is_server_error
        self.may_be_size = may_be_size


class Passed(Exception):  # noqa: N818 - the answer exists and passes through: nobody failed
    """Upstream's answer to the widened request is the client's answer as it is."""


Fits = Callable[[int], bool]
"""Whether a reply of at least so many bytes may be held."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What the widened attempt has met so far. Mutable: the rungs and the report read it.

    ``received_bytes``: body bytes of all answers to widened requests and lookups, refused ones as well. ``is_declined``:
    upstream refused a widened request as the client's mistake, without a reason that is known: it may have been too large.
    ``refusal``: a reply for want of quota that the transport calls a success.
    ``is_raced``: the original may go out beside the widened request; ``is_reserved``: the budget keeps a read for that; ``is_late``: the
    moment for it came; ``is_hedged``: it went out. ``room``: for what arrives; None where nothing is sent. ``deadline``: when, by the ladder's clock, the widened request last sent and its lookups must have been answered.
    """

    reason: FailOpen | None = None
    received_bytes: int = 0
    is_declined: bool = False
    refusal: bytes | None = None
    is_raced: bool = False
    is_reserved: bool = False
    is_late: bool = False
    is_hedged: bool = False
    deadline: float = 0.0
    room: Hold | None = None

    def received(self, size: int) -> None:
        """A body is here, whole."""
        self.received_bytes += size
        if self.room is not None:
            self.room.came(size)

    @property
    def has_asked(self) -> bool:
        """Whether a widened request has gone out."""
        return self.deadline > 0.0


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
    operation: Operation,
    attempt: Attempt,
    *,
    outcome: Outcome,
    reason: FailOpen | None = None,
    rows: tuple[Figures, ...] = (),
    hedged: bool = False,
) -> Report:
    """What the call has come to so far."""
    lookups = attempt.lookups
    return Report(
        backend=operation.backend,
        operation=OperationName.of(operation.name),
        outcome=outcome,
        total_seconds=attempt.watch.elapsed(),
        upstream_seconds=attempt.watch.seconds(Stage.UPSTREAM),
        fail_open=reason,
        searches=len(attempt.call.searches),
        top_k=sum(search.top_k for search in attempt.call.searches),
        figures=rows,
        grown=attempt.rounds > 1,
        hedged=hedged,
        overfetch_bytes=attempt.fetched_bytes + (0 if lookups is None else lookups.fetched_bytes),
        recall=attempt.recall,
        looked=None if lookups is None else lookups.looked,
        extra_read_units=0 if lookups is None else lookups.read_units,
        stages=attempt.watch.stages(),
        marks=attempt.watch.marks(),
    )


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
