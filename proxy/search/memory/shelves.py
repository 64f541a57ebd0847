"""Rows and payload values of points by slot, in arrays that are allocated once; their pages use memory only when written."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool

from ...selection.geometry import median_of, pairs
from ...selection.policy import Policy
from ...selection.values import Metric, Selection
from ...telemetry.reports import Figures
from ..candidates import Record

Matrix = npt.NDArray[np.float32]
Slots = npt.NDArray[np.intp]

# 16-bit rows may change a squared distance by this share of the pool's typical one, the median of some of its candidates' pairs. Above it, as
# far from the origin or in few dimensions, rows are kept as float32.
COARSE, COMPARED = 1e-6, 16
FEW_DIMENSIONS = 64
LARGEST = 32767.0

# Bytes of a point beside its row, name and payload values: its name's object, and its entries in a dictionary, lists and arrays.
POINT_BYTES = 200
# Slots that are examined per eviction.
SCANNED, EVICTED = 8192, 1024


class Shelf:
    """Points of one dimension: 16 bits per number with a scale, or float32.

    ``owners``: for each slot, the dictionary that maps the point's name to it; None for a free slot. ``records``: None if payload values
    are unknown; packed when there is no room for more unpacked ones; ``read``: slots with an unpacked record, oldest first; ``read_bytes``: their size.
    ``squares``: squared lengths of the rows. ``stamps``: of the last use.
    """

    __slots__ = (
        "dimension", "free", "hand", "held_bytes", "is_exact", "learnt_seconds", "names", "owners", "points", "read", "read_bytes", "records", "scales", "sizes",
        "squares", "stamps", "values",
    )  # fmt: skip

    def __init__(self, dimension: int, capacity: int, *, is_exact: bool) -> None:
        self.dimension = dimension
        self.is_exact = is_exact
        self.values: npt.NDArray[np.int16 | np.float32] = np.empty(
            (capacity, dimension), np.float32 if is_exact else np.int16
        )
        self.scales = np.empty(capacity, np.float32)
        self.squares = np.empty(capacity, np.float32)
        self.sizes = np.empty(capacity, np.int32)
        self.stamps = np.empty(capacity, np.int64)
        self.learnt_seconds = np.empty(capacity, np.float64)
        self.owners: list[dict[bytes, int] | None] = []
        self.names: list[bytes] = []
        self.records: list[Record | bytes | None] = []
        self.read: OrderedDict[int, None] = OrderedDict()
        self.free: list[int] = []
        self.hand = 0
        self.points = self.held_bytes = self.read_bytes = 0

    def rows(self, slots: Slots) -> Matrix:
        """(n, d) float32."""
        found = self.values[slots]
        if self.is_exact:
            return found.astype(np.float32, copy=False)
        return np.multiply(found, self.scales[slots, None], dtype=np.float32)

    def take(self, owner: dict[bytes, int], name: bytes) -> int | None:
        """A free slot, now taken; None if there is none."""
        if self.free:
            slot = self.free.pop()
            self.owners[slot], self.names[slot] = owner, name
        elif (slot := len(self.owners)) < len(self.values):
            self.owners.append(owner)
            self.names.append(name)
            self.records.append(None)
        else:
            return None
        owner[name] = slot
        self.sizes[slot] = 0
        self.points += 1
        return slot

    def drop(self, slot: int) -> None:
        """Free a slot. Its owner no longer refers to it."""
        self._hold(slot, None, 0)
        self.read.pop(slot, None)
        self.owners[slot], self.names[slot] = None, b""
        self.free.append(slot)
        self.points -= 1

    def keep(self, slots: Sequence[int], records: Sequence[Record] | None) -> None:
        """Keep these points' payload values, if they were received and not known before."""
        row_bytes = self.dimension * self.values.itemsize + POINT_BYTES
        for place, slot in enumerate(slots):
            is_new = not self.sizes[slot]
            if records is not None and not isinstance(self.records[slot], Record):
                self._hold(slot, records[place], row_bytes + len(self.names[slot]) + records[place].nbytes)
                self.read[slot] = None
            elif is_new:
                self._hold(slot, None, row_bytes + len(self.names[slot]))

    def recall(self, slots: Sequence[int], *, unpacks: bool) -> tuple[Record, ...] | None:
        """The payload values of these points; None if one of them is unknown, or packed when it must not be unpacked."""
        found: list[Record] = []
        for slot in slots:
            record = self.records[slot]
            if isinstance(record, bytes) and unpacks:
                packed, record = record, Record.unpacked(record)
                self._hold(slot, record, int(self.sizes[slot]) - sys.getsizeof(packed) + record.nbytes)
                self.read[slot] = None
            if not isinstance(record, Record):
                return None
            found.append(record)
        return tuple(found)

    def pack(self, most: int) -> int:
        """Pack the texts that were read first, together with the features that are slow to compute; return how many."""
        packed = 0
        while self.read and packed < most:
            slot, _ = self.read.popitem(last=False)
            record = self.records[slot]
            if isinstance(record, Record) and record.text is not None:
                small = record.packed()
                self._hold(slot, small, int(self.sizes[slot]) - record.nbytes + sys.getsizeof(small))
                packed += 1
        return packed

    def _hold(self, slot: int, record: Record | bytes | None, size: int) -> None:
        had = int(self.sizes[slot])
        self.read_bytes += size * isinstance(record, Record) - had * isinstance(self.records[slot], Record)
        self.held_bytes += size - had
        self.records[slot], self.sizes[slot] = record, size

    def evict(self) -> int:
        """Drop the least recently used of the next SCANNED points; return how many."""
        size = len(self.owners)
        start = self.hand % max(size, 1)
        window = [slot for slot in range(start, min(start + SCANNED, size)) if self.owners[slot] is not None]
        self.hand = start + SCANNED
        if not window:
            return 0
        count = max(1, min(EVICTED, len(window) // 8))
        longest = np.argpartition(self.stamps[window], count - 1)[:count].tolist()
        for slot in [window[place] for place in longest]:
            owner = self.owners[slot]
            if owner is not None:
                owner.pop(self.names[slot], None)
            self.drop(slot)
        return count


def packed(vectors: Matrix) -> tuple[npt.NDArray[np.int16], Matrix]:
    """Rows (n, d) as 16-bit numbers, and their scales (n,): 0 for a row that is zero or not finite."""
    peaks = np.abs(vectors).max(axis=1, initial=0.0)
    fine = np.isfinite(peaks)
    if fine.all() and peaks.all():
        scales = peaks / np.float32(LARGEST)
        found = vectors / scales[:, None]
        return np.rint(found, out=found).astype(np.int16), scales
    scales = np.where(fine, peaks, 0.0).astype(np.float32) / np.float32(LARGEST)
    with np.errstate(all="ignore"):
        found = np.rint(vectors / np.where(scales > 0.0, scales, 1.0)[:, None])
        return np.nan_to_num(found).astype(np.int16), scales


def is_coarse(rows: Matrix, squares: Matrix, scales: Matrix) -> bool:
    """Whether 16 bits blurred the differences between these rows. ``squares``: their squared lengths (n,)."""
    fine = (scales > 0.0).nonzero()[0]
    some = fine[:: -(-len(fine) // COMPARED) or 1]
    lengths = squares[some]
    apart = pairs(np.add.outer(lengths, lengths) - 2.0 * (rows[some] @ rows[some].T))
    error = rows.shape[1] * float(np.square(scales[fine]).max(initial=0.0)) / 12.0
    apart = apart[apart > error]  # copies do not say how far apart others are
    return bool(len(apart) and error > COARSE * median_of(apart))


# Keys and results of the memory.


class Key(NamedTuple):
    """Which points may be compared. ``partition``: the part of the collection within which ids are unique. ``reads``: the payload fields
    that are read.
    """

    partition: bytes
    vector: str
    dimension: int
    reads: object


class Points(NamedTuple):
    """The points of one reply, best first: n ``names``, each an id with its version if there is one; ``scores`` (n,) for ``query`` (d,)."""

    names: Sequence[bytes]
    query: Matrix
    scores: npt.NDArray[np.float64]


class Asked(NamedTuple):
    """What the selection from a pool depends on: its points, their scores and the query as a ``digest``; other things as ``rest``."""

    key: Key
    digest: bytes
    rest: Hashable

    @classmethod
    def of(cls, key: Key, pool: Pool, query: Matrix, rest: Hashable) -> Asked:
        """The digest (128 bits) is equal only for equal ids and versions, scores and queries: identifiers are JSON, without NUL."""
        sizes = b"%d %d" % (len(pool.ids), len(pool.versions))
        whole = b"\0".join((sizes, *pool.ids, *pool.versions, pool.scores.tobytes(), query.tobytes()))
        return cls(key, blake2b(whole, digest_size=16).digest(), rest)


@dataclass(frozen=True, slots=True)
class Recalled:
    """``rows``: (n, d) float32, ``squares``: their squared lengths. ``records``: one per point; None if payload values are not remembered.
    ``metric``: the one that gives the scores; None if they are not plain. ``slots``: (n,) their places in memory. ``until``: when the first
    record becomes too old.
    """

    rows: Matrix
    squares: Matrix
    records: tuple[Record, ...] | None
    metric: Metric | None
    slots: Slots
    until: float


class Remembered(NamedTuple):
    """What memory has of one pool. ``records``: None if the reply has the payload values. ``found``: everything else."""

    records: tuple[Record, ...] | None
    found: Recalled


class Decided(NamedTuple):
    """A selection with its ``figures``, and the ``policy`` that made it: while it is held here, no other policy has its identity.

    ``slots``, ``until``: as in Recalled.
    """

    selection: Selection
    figures: Figures
    policy: Policy
    slots: Slots
    until: float


class Enough(NamedTuple):
    """How many of the first candidates an answer under this ``policy`` depended on."""

    candidates: int
    policy: Policy


class Repeat(NamedTuple):
    """A request, by its bytes. ``is_known``: memory has its points. ``is_old``: memory had them, and they are too old now.

    ``enough``: from its last answer; None if the whole pool is needed.
    """

    collection: str
    digest: int
    is_known: bool
    is_old: bool
    enough: Enough | None = None
