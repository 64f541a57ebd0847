"""The contract of upserts with vectors that are compared with stored points. All verbs are pure.

A transport without it passes such writes through like any other request (``Transport.writes`` of its row).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .contract import NativeAnswer, Operation, Question, Reason, RequestHead, UnsupportedError

# An operation of this contract is an endpoint that stores points; its name is no metric label.


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNeeds:
    """What is read of each point. ``vector_name``: the vector to compare by; None: the only dense one. ``keys``: top-level payload keys.
    ``most``: the largest number of points; a larger write is not parsed. ``known``: the parsed description of the collection, for an adapter that describes
    collections; None without one. ``notes``: the write may get notes: one without a place for them is unsupported. ``is_stored``: the write
    was already done.
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

    ``ids``: canonical JSON, so that equal ids are equal bytes. ``vectors``: (n, d) float32, a row of NaN for a point without a vector of
    that name; ``vector_name``: its name, "" for the unnamed one. ``fields``: per point the raw JSON of each key, None if absent.
    ``document``: the adapter's own. ``has_ids``: False if the database creates them; ``ids`` are then the places of the points, as in
    `numbered`.
    """

    ids: tuple[bytes, ...]
    vectors: npt.NDArray[np.float32]
    vector_name: str
    keys: tuple[str, ...]
    fields: tuple[tuple[bytes | None, ...], ...]
    document: object
    has_ids: bool = True


Tenant = tuple[tuple[str, bytes], ...]
"""Payload keys with the required value of a neighbour, as JSON: a string, an integer or a boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """The requested neighbours: ``count`` for each of the points ``which``, with the same keys as the points.

    ``tenants``: one for each of ``which``. ``vectors``: whether the neighbours' vectors are requested. ``least``: neighbours with lower scores
    are not needed, and a database with such a filter need not send them; None if scores are no similarities.
    """

    which: tuple[int, ...]
    tenants: tuple[Tenant, ...]
    count: int
    vectors: bool
    least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Stored points near those of a write, nearest first for each: m in all.

    ``of``: (m,) the point of the write to which each is near. ``ids``, ``fields``: as in ``NewPoints``. ``scores``: (m,) float64, the
    database's. ``vectors``: (m, d) float32, rows of NaN for missing ones; d is 0 if none were requested.
    """

    of: npt.NDArray[np.intp]
    ids: tuple[bytes, ...]
    scores: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]
    fields: tuple[tuple[bytes | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The client's answer, from the database's answer to the rest of its write. ``refused``: the left out points whose originals in the same
    write the database did not store; ``failed``: the sent points that it did not store. ``is_read``: False if these are unknown.
    """

    body: bytes
    refused: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    is_read: bool = True


@runtime_checkable
class LeavesPointsOut(Protocol):
    """Further verbs of a transport on which points can be left out of a write, or the whole write refused. All are pure.

    A single point is the JSON that `vecsieve undo` stores, in one form for all transports of a backend.
    """

    conflict: int
    """The status of a refusal because a similar point exists."""
    has_receipts: bool
    """Whether `receipt` parses answers."""

    def collection(self, write: Operation, points: NewPoints) -> str:
        """The collection in the form that `vecsieve undo` opens."""

    def point(self, points: NewPoints, row: int) -> bytes:
        """A single point. Raises UnsupportedError for one without an exact JSON form."""

    def partition(self, points: NewPoints) -> bytes:
        """The part of the collection that the write names, as JSON; b"" without one. Raises UnsupportedError."""

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """The write without some of its points, but not without all of what it does. All other bytes are the client's."""

    def only(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """The write of some of its points alone, which were left out before. All other bytes are the client's."""

    def does_more(self, points: NewPoints) -> bool:
        """Whether the write does more than store its points."""

    def ask_stored(
        self, write: Operation, points: NewPoints, ids: Sequence[bytes], *, whole: bool
    ) -> Sequence[Question]:
        """The reads that show which of these ids are stored. ``whole``: with their complete points."""

    def shows(self, points: NewPoints, query: str) -> bool:
        """Whether a read after the answer to this write shows it: the database answers when it is done, and reads do not lag."""

    def shows_unread(self, query: str, body: bytes, known: object | None) -> bool:
        """The same of a write that was not parsed, a deletion, or a partial update. ``known``: as in ``WriteNeeds``. Never raises."""

    def stored(self, points: NewPoints, body: bytes) -> Mapping[bytes, bytes]:
        """By id, as in ``NewPoints``, the single points in one answer. Raises MalformedReplyError, nothing else."""

    def receipt(self, write: Operation, points: NewPoints, copies: Mapping[int, int | None], body: bytes) -> Receipt:
        """The client's answer, from the answer to the write without some points. ``copies``: by such a point its original in the same write,
        None for a stored one. Raises MalformedReplyError; DeclinedError if the database refused the write.
        """

    def acknowledged(self, write: Operation, points: NewPoints, query: str) -> NativeAnswer:
        """The answer to a write without remaining points. ``query``: of the client's target, with its question mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Points that a client deletes, or changes in part. ``collection``, ``partition``: as `LeavesPointsOut` names them; None: all. ``ids``: as in
    ``NewPoints``; None: all points. ``is_certain``: False if unknown ones of these are deleted, as with a filter.
    ``is_change``: they stay stored, with another content.
    """

    collection: str | None
    partition: bytes | None = None
    ids: tuple[bytes, ...] | None = None
    is_certain: bool = True
    is_change: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The names of the payload and the vectors in a single point."""

    payload: str = "payload"
    vectors: tuple[str, ...] = ("vector",)

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        """Empty if there is none."""
        value = point.get(self.payload)
        return dict(value) if isinstance(value, dict) else {}

    def vectors_of(self, point: Mapping[str, object]) -> dict[str, object]:
        """By name; empty if there are none."""
        return {name: point[name] for name in self.vectors if name in point}

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        """The point with another payload. ``vectors``: the point whose vectors are used."""
        rest = {name: value for name, value in point.items() if name not in self.vectors}
        return {**rest, **self.vectors_of(vectors), self.payload: payload}

    def same(self, one: Mapping[str, object], other: Mapping[str, object]) -> bool:
        """Whether two points have the same payload, as far as the database distinguishes values."""
        return self.payload_of(one) == self.payload_of(other)


PLAIN = Form()


@runtime_checkable
class MergesPoints(LeavesPointsOut, Protocol):
    """Further verbs of a transport on which a new point can replace a stored one. All are pure."""

    def form_of(self, points: NewPoints) -> Form:
        """The form of this collection's single points."""

    def restores(self, points: NewPoints) -> bool:
        """Whether stored points are read so completely that `undo` can store them again."""

    def holds(self, points: NewPoints, row: int, point: bytes) -> bool:
        """Whether the database can store a single point in the place of this one: each value that differs from the client's has the type of
        its field, and a place.
        """

    def waits(self, points: NewPoints, query: str) -> bool:
        """Whether the database answers when the write is done, not when it is accepted."""

    def merged(self, write: Operation, points: NewPoints, rows: Collection[int], merged: Mapping[int, bytes]) -> bytes:
        """The write without some of its points, and with some replaced by single points. All other bytes are the client's."""

    def ask_removed(self, write: Operation, points: NewPoints, victims: Mapping[bytes, bytes]) -> Sequence[Question]:
        """Remove stored points by their ids; where the database compares, only those that still have the values of these. They were read again
        and compared completely right before.
        """

    def removed(self, body: bytes) -> None:
        """Parse a successful answer to `ask_removed`. Raises MalformedReplyError; DeclinedError if the database refused it."""


class WriteAdapter(Protocol):
    """An adapter that needs a collection's description to parse a write also has the verbs of ``DescribesCollections``."""

    def classify(self, head: RequestHead) -> Operation | None:
        """The upsert of a request; None for any other. Never raises."""

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        """Raises UnsupportedError, nothing else."""

    def ask_metric(self, write: Operation, body: bytes) -> Question:
        """The read whose answer `is_cosine` takes. Raises UnsupportedError."""

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """Whether the scores of this vector are cosine similarities; False if the description does not show it. Never raises."""

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Sequence[Question]:
        """The reads for the neighbours of all points of the inquiry: one if the database has batches. Raises UnsupportedError."""

    def neighbours(self, points: NewPoints, inquiry: Inquiry, bodies: Sequence[bytes]) -> Neighbours:
        """Read the successful answers to `ask`, in its order. Raises MalformedReplyError, nothing else."""

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The write with a note, the JSON of an object, as the member NOTE of the payloads of some points, replacing an existing one. All
        other bytes are the client's. Raises UnsupportedError if a payload has no place for it.
        """


def numbered(count: int, needs: WriteNeeds) -> tuple[bytes, ...]:
    """Ids of points whose ids the database will create: their places in the write, in a form that no id has. Raises UnsupportedError for a
    write that is already stored: its points would be their own copies.
    """
    if needs.is_stored:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return tuple([b'"#%d"' % row for row in range(count)])


def by_tenant(inquiry: Inquiry) -> Mapping[Tenant, Sequence[int]]:
    """The requested points by their tenants, for a read with one filter for all its vectors."""
    groups: dict[Tenant, list[int]] = {}
    for row, tenant in zip(inquiry.which, inquiry.tenants, strict=True):
        groups.setdefault(tenant, []).append(row)
    return groups


def name_of(points: Sequence[Mapping[str, object]], requested: str | None) -> str:
    """The vector of a write to compare by. ``points``: the vectors of each point, by name. Raises UnsupportedError if several are possible."""
    names = {name for vectors in points for name in vectors}
    if requested is not None:
        names &= {requested}
    if len(names) != 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD if names else Reason.NOTHING_TO_DO)
    return names.pop()
