"""The contract of upserts that bring vectors, for a transport on which they are compared with what is stored. All verbs are pure.

A transport without it passes such writes through like any other request (``Transport.writes`` of its row).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import NativeAnswer, Operation, Question, Reason, RequestHead, UnsupportedError

# An operation of the contract is an endpoint that stores points; its name is no metric label.


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNeeds:
    """What is read of each point. ``vector_name``: the vector to compare by; None: the only dense one. ``keys``: top-level payload
    keys. ``most``: points; a larger write is not read.
    """

    vector_name: str | None
    keys: tuple[str, ...]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPoints:
    """The points of one write, in its order.

    ``ids``: canonical JSON, so that equal ids are equal bytes. ``vectors``: (n, d) float32, a row of NaN where a point has none of
    that name; ``vector_name``: its name, "" for the unnamed one. ``fields``: per point the raw JSON of each key, None where absent.
    ``document``: the adapter's own.
    """

    ids: tuple[bytes, ...]
    vectors: npt.NDArray[np.float32]
    vector_name: str
    keys: tuple[str, ...]
    fields: tuple[tuple[bytes | None, ...], ...]
    document: object


Tenant = tuple[tuple[str, bytes], ...]
"""Payload keys with the JSON of the value that a neighbour must have: a string, an integer or a boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Which neighbours are asked for: ``count`` for each of the points ``which``, with the same keys as the points.

    ``tenants``: one for each of ``which``. ``vectors``: whether the neighbours' vectors are wanted.
    """

    which: tuple[int, ...]
    tenants: tuple[Tenant, ...]
    count: int
    vectors: bool


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


@runtime_checkable
class LeavesPointsOut(Protocol):
    """Further verbs of a transport on which points can be left out of a write. All are pure."""

    def point(self, points: NewPoints, row: int) -> bytes:
        """One point as the backend takes it alone, in the client's own bytes."""
        ...

    def partition(self, points: NewPoints) -> bytes:
        """The part of the collection that the write names, as it is spelled there; b"" without one."""
        ...

    def without(self, points: NewPoints, rows: Collection[int]) -> bytes:
        """The write without some of its points, but not all. All other bytes are the client's."""
        ...

    def ask_stored(self, write: Operation, points: NewPoints, rows: Sequence[int]) -> Question:
        """One read for which of these points' ids are stored."""
        ...

    def stored(self, body: bytes) -> frozenset[bytes]:
        """The ids in the answer, as of ``NewPoints``. Raises MalformedReplyError, nothing else."""
        ...

    def acknowledged(self, write: Operation, query: str) -> NativeAnswer:
        """The answer to a write of which nothing is left. ``query``: of the client's target, with its question mark."""
        ...


class WriteAdapter(Protocol):
    def classify(self, head: RequestHead) -> Operation | None:
        """The upsert of a request; None for any other. Never raises."""
        ...

    def parse(self, write: Operation, body: bytes, needs: WriteNeeds) -> NewPoints:
        """Raises UnsupportedError, nothing else."""
        ...

    def describe(self, write: Operation) -> Question:
        """The read whose answer `is_cosine` takes."""
        ...

    def is_cosine(self, body: bytes, vector_name: str) -> bool:
        """Whether the scores of this vector are cosine similarities; False where the description does not tell. Never raises."""
        ...

    def ask(self, write: Operation, points: NewPoints, inquiry: Inquiry) -> Question:
        """One read for the neighbours of all points of the inquiry."""
        ...

    def found(self, points: NewPoints, inquiry: Inquiry, body: bytes) -> Neighbours:
        """Read the successful answer to `ask`. Raises MalformedReplyError, nothing else."""
        ...

    def annotated(self, points: NewPoints, notes: Mapping[int, bytes]) -> bytes:
        """The write with a note, the JSON of an object, as the member NOTE of the payloads of some points, in place of any that is
        there. All other bytes are the client's.
        """
        ...


def name_of(each: Sequence[Mapping[str, object]], wanted: str | None) -> str:
    """The vector of a write to compare by. ``each``: a point's vectors, by name. Raises UnsupportedError where several could be meant."""
    names = {name for vectors in each for name in vectors}
    if wanted is not None:
        names &= {wanted}
    if len(names) != 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD if names else Reason.NOTHING_TO_DO)
    return names.pop()
