"""The contract of upserts that bring vectors, for a transport on which they are compared with what is stored. All verbs are pure.

A transport without it passes such writes through like any other request (``Transport.writes`` of its row).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .contract import NativeAnswer, Operation, Question, Reason, RequestHead, UnsupportedError

# An operation of the contract is an endpoint that stores points; its name is no metric label.


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNeeds:
    """What is read of each point. ``vector_name``: the vector to compare by; None: the only dense one. ``keys``: top-level payload
    keys. ``most``: points; a larger write is not read. ``known``: the parsed description of the collection, for an adapter that
    describes collections; None where there is none. ``notes``: the write may get notes: one that has no place for them is unsupported. ``is_stored``: it was
    carried out.
    """

    vector_name: str | None
    keys: tuple[str, ...]
    most: int
    known: object | None = None
    notes: bool = False
    is_stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPoints:
    """The points of one write, in its order.

    ``ids``: canonical JSON, so that equal ids are equal bytes. ``vectors``: (n, d) float32, a row of NaN where a point has none of
    that name; ``vector_name``: its name, "" for the unnamed one. ``fields``: per point the raw JSON of each key, None where absent.
    ``document``: the adapter's own. ``has_ids``: else the database makes them, and these are the places of the points, as of `numbered`.
    """

    ids: tuple[bytes, ...]
    vectors: npt.NDArray[np.float32]
    vector_name: str
    keys: tuple[str, ...]
    fields: tuple[tuple[bytes | None, ...], ...]
    document: object
    has_ids: bool = True


Tenant = tuple[tuple[str, bytes], ...]
"""Payload keys with the JSON of the value that a neighbour must have: a string, an integer or a boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Which neighbours are asked for: ``count`` for each of the points ``which``, with the same keys as the points.

    ``tenants``: one for each of ``which``. ``vectors``: whether the neighbours' vectors are wanted. ``least``: neighbours with lower
    scores are of no use, and a database that can leave them out need not send them; None where scores are no similarities.
    """

    which: tuple[int, ...]
    tenants: tuple[Tenant, ...]
    count: int
    vectors: bool
    least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Stored points near those of a write, the nearest of each first: m in all.

    ``of``: (m,) the point of the write that each is near. ``ids``, ``fields``: as of ``NewPoints``. ``scores``: (m,) float64, the
    database's. ``vectors``: (m, d) float32, rows of NaN where one is missing; d is 0 where none were asked for.
    """

    of: npt.NDArray[np.intp]
    ids: tuple[bytes, ...]
    scores: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]
    fields: tuple[tuple[bytes | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the client gets of the database's answer to the rest of its write. ``refused``: of the points that were left out, those whose
    originals in the same write the database did not take; ``failed``: of the points that were sent, those that it did not take.
    ``is_read``: else that is not known.
    """

    body: bytes
    refused: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    is_read: bool = True


@runtime_checkable
class LeavesPointsOut(Protocol):
    """Further verbs of a transport on which points can be left out of a write, or the whole write refused. All are pure.

    A point alone is the JSON that `vecsieve undo` stores: of one form for all transports of a backend.
    """

    conflict: int
    """The status of a refusal: something like it is there already."""
    is_told: bool
    """Whether `told` reads answers."""

    def collection(self, write: Operation, points: NewPoints) -> str:
        """The collection as `vecsieve undo` opens it."""

    def point(self, points: NewPoints, row: int) -> bytes:
        """One point alone. Raises UnsupportedError for one that has no exact JSON form."""

    def partition(self, points: NewPoints) -> bytes:
        """The part of the collection that the write names, as JSON; b"" without one. Raises UnsupportedError."""

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """The write without some of its points, but not all. All other bytes are the client's."""

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        """The reads for which of these ids are stored. ``whole``: with all that is stored of them, where points are merged."""

    def stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        """By id, as of ``NewPoints``, the points in one answer, each alone. Raises MalformedReplyError, nothing else."""

    def told(self, write: Operation, points: NewPoints, gone: Mapping[int, int | None], body: bytes) -> Told:
        """The client's answer, from the one to the write without some points. ``gone``: for each of them its original in the same write,
        None for a stored one. Raises MalformedReplyError; DeclinedError where the database refused the write.
        """

    def acknowledged(self, write: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """The answer to a write of which nothing is left. ``query``: of the client's target, with its question mark."""


@dataclass(frozen=True, slots=True)
class Form:
    """Where a point alone has its payload and its vectors."""

    payload: str = "payload"
    vectors: tuple[str, ...] = ("vector",)

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        """Empty where there is none."""
        found = point.get(self.payload)
        return dict(found) if isinstance(found, dict) else {}

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        """The point with another payload. ``vectors``: the point whose vectors it gets."""
        rest = {name: value for name, value in point.items() if name not in self.vectors}
        return {**rest, **{name: vectors[name] for name in self.vectors if name in vectors}, self.payload: payload}


PLAIN = Form()


@runtime_checkable
class MergesPoints(LeavesPointsOut, Protocol):
    """Further verbs of a transport on which a new point can take a stored one's place. All are pure."""

    form: Form
    is_conditional: bool
    """Whether `ask_removed` compares. Else the points are read once more right before it, and compared whole."""

    def waits(self, points: NewPoints, query: str) -> bool:
        """Whether the client is answered when its write has been carried out, not when it was accepted."""

    def merged(self, write: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The write without some of its points, and with others in place of some, each alone. The rest are the client's bytes."""

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """Remove stored points, by their ids; where that is conditional, unless they changed: as far as the database can compare them with
        these points alone.
        """

    def removed(self, body: bytes) -> None:
        """Read a successful answer to `ask_removed`. Raises MalformedReplyError; DeclinedError where the database refused it."""


class WriteAdapter(Protocol):
    """One that must know a collection before it reads a write also has the verbs of ``DescribesCollections``."""

    def classify(self, head: RequestHead) -> Operation | None:
        """The upsert of a request; None for any other. Never raises."""

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        """Raises UnsupportedError, nothing else."""

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        """The read whose answer `is_cosine` takes. Raises UnsupportedError."""

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """Whether the scores of this vector are cosine similarities; False where the description does not tell. Never raises."""

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """The reads for the neighbours of all points of the inquiry, one where the database takes a batch. Raises UnsupportedError."""

    def found(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """Read the successful answers to `ask`, in its order. Raises MalformedReplyError, nothing else."""

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The write with a note, the JSON of an object, as the member NOTE of the payloads of some points, in place of any that is
        there. All other bytes are the client's. Raises UnsupportedError where a payload has no place for it after all.
        """


def numbered(count: int, needs: WriteNeeds) -> tuple[bytes, ...]:
    """Ids of points whose ids the database will make: their places in the write, as no id is written. Raises UnsupportedError for a write that was stored
    already: its points would be found as their own copies.
    """
    if needs.is_stored:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return tuple([b'"#%d"' % row for row in range(count)])


def by_tenant(inquiry: Inquiry) -> Mapping[Tenant, Sequence[int]]:
    """The points asked for by their tenants, for a read that has one filter for all its vectors."""
    groups: dict[Tenant, list[int]] = {}
    for row, tenant in zip(inquiry.which, inquiry.tenants, strict=True):
        groups.setdefault(tenant, []).append(row)
    return groups


def name_of(each: Sequence[Mapping[str, object]], wanted: str | None) -> str:
    """The vector of a write to compare by. ``each``: a point's vectors, by name. Raises UnsupportedError where several could be meant."""
    names = {name for vectors in each for name in vectors}
    if wanted is not None:
        names &= {wanted}
    if len(names) != 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD if names else Reason.NOTHING_TO_DO)
    return names.pop()
