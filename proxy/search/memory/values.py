"""What the feature memory is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool
from vecsieve.proxy.search.candidates import Record
from vecsieve.proxy.search.memory.shelves import Matrix, Slots
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.values import Metric, Selection
from vecsieve.proxy.telemetry.reports import Figures


class Key(NamedTuple):
    """Which points may be compared. ``partition``: the part of the collection in which ids are unique. ``reads``: what of a
    payload is read.
    """

    partition: bytes
    vector: str
    dimension: int
    reads: object


class Points(NamedTuple):
    """The points of one reply, best first: n ``names``, an id with its version where there is one; ``scores`` (n,) for
    ``query`` (d,).
    """

    names: Sequence[bytes]
    query: Matrix
    scores: npt.NDArray[np.float64]


class Asked(NamedTuple):
    """What the selection from a pool depends on: its points, their scores and the query as a ``digest``, and the ``rest``."""

    key: Key
    digest: bytes
    rest: Hashable

    @classmethod
    def of(cls, key: Key, pool: Pool, query: Matrix, rest: Hashable) -> Asked:
        """The digest (128 bits) is equal for equal ids and versions, scores and queries alone: identifiers are JSON, without NUL."""
        sizes = b"%d %d" % (len(pool.ids), len(pool.versions))
        whole = b"\0".join((sizes, *pool.ids, *pool.versions, pool.scores.tobytes(), query.tobytes()))
        return cls(key, blake2b(whole, digest_size=16).digest(), rest)


@dataclass(frozen=True, slots=True)
class Recalled:
    """``rows``: (n, d) float32, ``squares``: their squared lengths. ``records``: one a point; None where payload values are not remembered. ``metric``: that gives the
    scores; None where they are not plain. ``slots``: (n,) where they are kept. ``until``: when one of the records is too old.
    """

    rows: Matrix
    squares: Matrix
    records: tuple[Record, ...] | None
    metric: Metric | None
    slots: Slots
    until: float


class Remembered(NamedTuple):
    """What memory has of one pool. ``records``: None where the reply has the payload values. ``found``: the rest of it."""

    records: tuple[Record, ...] | None
    found: Recalled


class Decided(NamedTuple):
    """A selection with its ``figures``, and the ``policy`` that made it: while it is held here no other policy has its identity.

    ``slots``, ``until``: as in Recalled.
    """

    selection: Selection
    figures: Figures
    policy: Policy
    slots: Slots
    until: float
