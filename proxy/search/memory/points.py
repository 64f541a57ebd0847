"""The feature memory: vectors and payload values of points from earlier replies, so that they need not be sent again.

A point is identified by its id and, if the database has versions, its version: a write makes another key. If scores are plain similarities
that differ enough, each recalled row must reproduce the score in the reply; a row that does not is out of date, and its collection is
forgotten. If neither holds, nothing is recalled.

Memory only decides which candidates are copies. The content of a result always comes from the reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count, repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...selection.metric import metric_by, scores_fit, scores_prove, scores_tell, scoring_of
from ...selection.values import Metric
from ..candidates import Record
from ..collections.learned import Lru, is_of
from .shelves import (
    FEW_DIMENSIONS,
    POINT_BYTES,
    SCANNED,
    Asked,
    Decided,
    Key,
    Matrix,
    Points,
    Recalled,
    Shelf,
    Slots,
    is_coarse,
    packed,
)

Clock = Callable[[], float]

QUIET_SECONDS = (
    60.0  # seconds after a write: reads may still show the earlier state, and long writes are still in progress
)
WINDOW = 8  # pools
# The share of the last pools that must have been known as a whole, so that a search requests no vectors. Below it, too many searches would
# need a second read.
PROMISING = 0.7
COLLECTIONS = 1024
# Remembered selections, 3 kB each, and as many from the first candidates only, 1 kB each. Those belong to repeated requests and are kept
# apart, because pools that are seen once would evict them.
DECIDED = 2048

# As for scores_fit. The largest error of a correct row is 6e-6 with 16-bit rows; a changed vector passes in 2 % of cases.
SCORE_TOLERANCE = 5e-5
SCORE_MARGIN = 3.0  # a score counts as a plain similarity of its collection only if it is this many times closer

# Entries of forgotten collections that are freed with each pool that is learned.
SWEPT = 512
# Bytes for unpacked payload values, and the same as a share of a bound that is reached. Others are packed, this many at a time: packing
# takes 3 microseconds each, unpacking 4.
READ_BYTES, READ_SHARE, PACKED = 64 << 20, 3 / 4, 64


@dataclass(slots=True, eq=False)
class _Table:
    """The points of one ``Key``. ``scoring``: how scores follow from vectors, once it is known that they do and that they tell vectors
    apart.
    """

    shelf: Shelf
    number: int
    slots: dict[bytes, int] = field(default_factory=dict)
    scoring: int | None = None
    is_plain: bool = True


class Learnt(NamedTuple):
    """``rows``: (n, d) as they will be recalled. ``squares``: their squared lengths; ``metric``: the one that gives the scores; None if not
    computed. ``until``: when the first payload value becomes too old to be recalled; None if the pool could not be recalled now.
    """

    rows: Matrix
    squares: Matrix | None = None
    metric: Metric | None = None
    until: float | None = None


class _Brought(NamedTuple):
    """A pool to store: ``values`` (n, d) as stored, and the ``rows`` that they decode to."""

    names: Sequence[bytes]
    values: npt.NDArray[np.int16 | np.float32]
    scales: Matrix
    rows: Matrix
    squares: Matrix
    records: Sequence[Record] | None


@dataclass(slots=True)
class _Collection:
    quiet_until: float = float("-inf")
    is_versioned: bool = False
    tables: dict[Key, _Table] = field(default_factory=dict)
    known: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))


class FeatureMemory:
    """Points of earlier replies, in at most ``limit_bytes``. ``ttl_seconds``: how long a point is trusted whose score proves nothing.
    ``clock``: monotonic seconds.
    """

    __slots__ = (
        "_all_quiet_until",
        "_buried",
        "_clock",
        "_collections",
        "_decided",
        "_decided_parts",
        "_limit_bytes",
        "_shelves",
        "_stamp",
        "_tables",
        "_ttl_seconds",
        "evicted",
        "learnt",
        "score_failures",
    )  # fmt: skip

    def __init__(self, limit_bytes: int, *, ttl_seconds: float, clock: Clock) -> None:
        self._limit_bytes = limit_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._collections: dict[str, _Collection] = {}  # least recently used first
        self._shelves: dict[tuple[int, bool], Shelf] = {}
        self._buried: list[_Table] = []
        self._stamp = 0
        self._tables = count()
        self._decided = Lru[tuple[int, bytes, Hashable], Decided](DECIDED)
        self._decided_parts = Lru[tuple[int, bytes, Hashable], Decided](DECIDED)
        self._all_quiet_until = float("-inf")
        self.learnt = self.evicted = self.score_failures = 0

    @property
    def points(self) -> int:
        """Number of points held now."""
        return sum([shelf.points for shelf in self._shelves.values()])

    @property
    def held_bytes(self) -> int:
        """Approximate memory use."""
        return sum([shelf.held_bytes for shelf in self._shelves.values()])

    def is_promising(self, collection: str) -> bool:
        """Whether this collection's next pool is probably known."""
        state = self._collections.get(collection)
        if state is None or len(state.known) < WINDOW or self._clock() < state.quiet_until:
            return False
        return sum(state.known) >= PROMISING * WINDOW

    def is_versioned(self, collection: str) -> bool:
        """Whether points of this collection have versions, so that payload values are remembered too."""
        state = self._collections.get(collection)
        return state is not None and state.is_versioned

    def quiet_ended(self, collection: str) -> float | None:
        """When storing resumed after everything was forgotten; minus infinity if nothing ever was; None while it has not resumed."""
        state = self._collections.get(collection)
        until = self._all_quiet_until if state is None else state.quiet_until
        return until if self._clock() >= until else None

    def believed_until(self) -> float:
        """Until when values seen now are trusted without proof."""
        return self._clock() + self._ttl_seconds

    def is_past(self, until: float) -> bool:
        """Whether payload values that are trusted until ``until`` are too old."""
        return self._clock() > until

    def learn(
        self,
        collection: str,
        key: Key,
        points: Points,
        vectors: Matrix,
        records: Sequence[Record] | None,
        *,
        counts: bool = True,
    ) -> Learnt:
        """Store a pool: ``vectors`` (n, d) of n points.

        Rows that are not finite are not stored. ``records``: None if the database has no versions. ``counts``: whether the pool predicts
        that the next one will be known.
        """
        state, names = self._collection(collection), points.names
        self._sweep(SWEPT)
        if self._clock() < state.quiet_until or vectors.shape[1] != key.dimension:
            return Learnt(vectors)
        state.is_versioned = records is not None
        values, scales = packed(vectors)
        rows = np.multiply(values, scales[:, None], dtype=np.float32)
        squares = np.einsum("ij,ij->i", rows, rows)
        is_exact = key.dimension <= FEW_DIMENSIONS or is_coarse(rows, squares, scales)
        table = self._table(state, key, is_exact=is_exact)
        if table is None:
            return Learnt(vectors)
        brought = _Brought(names, values, scales, rows, squares, records)
        if table.shelf.is_exact:
            rows, squares = vectors, np.einsum("ij,ij->i", vectors, vectors)
            brought = _Brought(names, vectors, scales, rows, squares, records)
        slots = np.fromiter(map(table.slots.get, names, repeat(-1)), np.intp, len(names))
        if not _says_the_same(table.shelf, slots, brought):
            self.forget(collection)  # writes do not pass through this process: other points may be out of date as well
            return Learnt(vectors)
        self._prove(table, points, brought)
        is_proven = _is_proven(table, points, brought.rows, brought.squares)
        if counts:
            can_be = state.is_versioned or is_proven
            self._count(state, table.shelf, slots if can_be else slots[:0], has_records=records is not None)
        is_whole, until = self._store(table, slots, brought), None
        if is_whole and (state.is_versioned or is_proven):
            until = float("inf") if records is None else self.believed_until()
        if not scales.all():
            return Learnt(np.where(np.isfinite(vectors), rows, vectors))
        return Learnt(rows, squares, None if table.scoring is None else metric_by(table.scoring), until)

    def recall(
        self, collection: str, key: Key, points: Points, *, counts: bool = True, with_records: bool = False
    ) -> Recalled | None:
        """What is known of a pool's points (n > 0); None if any is unknown.

        ``with_records``: whether payload values must be known too. No score proves them.
        """
        state, names = self._collection(collection), points.names
        table = state.tables.get(key)
        if table is None or self._clock() < state.quiet_until or not (state.is_versioned or table.scoring is not None):
            if counts:
                state.known.append(False)
            return None
        slots, shelf = np.fromiter(map(table.slots.get, names, repeat(-1)), np.intp, len(names)), table.shelf
        learnt = shelf.learnt_seconds.take(slots, mode="wrap")
        is_old = learnt < self._clock() - self._ttl_seconds
        lacks = slots < 0
        if table.scoring is None or with_records:
            lacks |= is_old
            if with_records and shelf.records:
                lacks |= [each is None for each in map(shelf.records.__getitem__, slots.tolist())]
        is_known = not lacks.any()
        if is_known:
            rows, squares = shelf.rows(slots), shelf.squares[slots]
            if not _fits(table, points, rows, squares):
                self.score_failures += 1
                self.forget(collection)
                return None
            is_proven = _is_proven(table, points, rows, squares)
            is_known = is_proven or (state.is_versioned and not is_old.any())
        if counts:
            state.known.append(is_known)
        if not is_known:
            return None
        self._stamp += 1
        shelf.stamps[slots] = self._stamp
        records = shelf.recall(slots.tolist(), unpacks=with_records)
        self._make_room()
        until = float("inf") if is_proven and not with_records else float(learnt.min()) + self._ttl_seconds
        metric = None if table.scoring is None else metric_by(table.scoring)
        return Recalled(rows, squares, records, metric, slots, until)

    def decided(self, collection: str, asked: Asked, *, counts: bool = True, is_part: bool = False) -> Decided | None:
        """The selection remembered for these points with these scores; None if there is none, or if scores prove nothing.

        Its rows are not read: the same names mean the same rows, which gave these scores then. ``counts``: as for ``recall``. ``is_part``:
        whether these are the first candidates only.
        """
        state = self._collections.get(collection)
        table = None if state is None else state.tables.get(asked.key)
        if state is None or table is None or table.scoring is None:
            return None
        found = (self._decided_parts if is_part else self._decided).get((table.number, asked.digest, asked.rest))
        if found is None or self._clock() > found.until:
            return None
        if counts:
            state.known.append(True)
        self._stamp += 1
        table.shelf.stamps[found.slots] = (
            self._stamp
        )  # some slots may have another point by now, which is then evicted later
        return found

    def decide(self, collection: str, asked: Asked, decided: Decided, *, is_part: bool = False) -> None:
        """Remember a selection. ``is_part``: as for ``decided``."""
        state = self._collections.get(collection)
        table = None if state is None else state.tables.get(asked.key)
        if table is not None and table.scoring is not None:
            held = self._decided_parts if is_part else self._decided
            held.hold((table.number, asked.digest, asked.rest), decided)

    def forget(self, collection: str | None) -> None:
        """Forget this collection and its parts, or all, and store nothing of them for QUIET_SECONDS."""
        until = self._clock() + QUIET_SECONDS
        if collection is None:
            self._all_quiet_until = until
        else:
            self._collection(collection)
        for name, state in self._collections.items():
            if is_of(collection, name):
                self._buried += state.tables.values()
                state.tables.clear()
                state.known.clear()
                state.quiet_until = until

    def _collection(self, name: str) -> _Collection:
        state = self._collections.pop(name, None) or _Collection(self._all_quiet_until)
        self._collections[name] = state
        if len(self._collections) > COLLECTIONS:
            oldest = next(iter(self._collections))
            self._buried += self._collections.pop(oldest).tables.values()
        return state

    def _table(self, state: _Collection, key: Key, *, is_exact: bool) -> _Table | None:
        """The table of a key; None if not even one pool fits. A table whose rows need more precision is started anew."""
        table = state.tables.get(key)
        if table is not None and (table.shelf.is_exact or not is_exact):
            return table
        row_bytes = key.dimension * (4 if is_exact else 2)
        capacity = self._limit_bytes // (row_bytes + POINT_BYTES)
        if not capacity:
            return None
        shelf = self._shelves.get((key.dimension, is_exact))
        if shelf is None:
            shelf = self._shelves[key.dimension, is_exact] = Shelf(key.dimension, capacity, is_exact=is_exact)
        if table is not None:
            self._buried.append(table)
        state.tables[key] = made = _Table(shelf, next(self._tables))
        return made

    def _prove(self, table: _Table, points: Points, brought: _Brought) -> None:
        """Learn how scores follow from vectors, if they do."""
        if not table.is_plain or not points.names:
            return
        pool, form = (points.query, brought.rows, points.scores), table.scoring
        if form is None:
            form = scoring_of(*pool, SCORE_TOLERANCE / SCORE_MARGIN)
            table.scoring = form if form is not None and scores_tell(form, *pool, SCORE_TOLERANCE) else None
        elif not scores_fit(form, *pool, SCORE_TOLERANCE, brought.squares):
            table.scoring = form = None
        table.is_plain = form is not None

    def _count(self, state: _Collection, shelf: Shelf, slots: Slots, *, has_records: bool) -> None:
        """Count whether a search would have recalled a pool."""
        is_known = len(slots) > 0 and bool((slots >= 0).all())
        if is_known and has_records:
            is_known = not (shelf.learnt_seconds[slots] < self._clock() - self._ttl_seconds).any()
        state.known.append(is_known)

    def _store(self, table: _Table, slots: Slots, brought: _Brought) -> bool:
        """Keep points: those of ``slots`` (n,) in their places, others (-1) in free ones. Return whether all of them are kept now."""
        shelf, records = table.shelf, brought.records
        self._stamp += 1
        may = brought.scales > 0.0
        if records is not None and any(map(_IS_CUT, records)):
            may &= np.array([not record.is_cut for record in records])
        if len(set(brought.names)) < len(brought.names):
            may &= np.array([brought.names.index(name) == place for place, name in enumerate(brought.names)])
        is_new = may & (slots < 0)
        for place in is_new.nonzero()[0].tolist():
            slots[place] = self._taken(table, brought.names[place])
        # Making room for the last points of a pool may have evicted its first.
        has = (
            may if not is_new.any() else np.fromiter(map(table.slots.get, brought.names, repeat(-1)), np.intp) == slots
        )
        has &= may & (slots >= 0)
        new, kept = slots[is_new & has], has.nonzero()[0].tolist()
        rows = is_new & has
        shelf.values[new], shelf.scales[new] = brought.values[rows], brought.scales[rows]
        shelf.squares[new] = brought.squares[rows]
        at = slots[has]
        shelf.stamps[at], shelf.learnt_seconds[at] = self._stamp, self._clock()
        shelf.keep(at.tolist(), None if records is None else [records[place] for place in kept])
        self.learnt += len(kept)
        self._make_room()
        return bool(has.all()) and all(map(table.slots.__contains__, brought.names))

    def _taken(self, table: _Table, name: bytes) -> int:
        slot = table.shelf.take(table.slots, name)
        if slot is None:
            self.evicted += table.shelf.evict()
            slot = table.shelf.take(table.slots, name)
        return -1 if slot is None else slot

    def _make_room(self) -> None:
        """Stay within the bounds: free forgotten entries, then pack payload values, then evict the least recently used points."""
        for shelf in self._shelves.values():
            while shelf.read_bytes > READ_BYTES and shelf.pack(PACKED):
                pass
        while self.held_bytes > self._limit_bytes and self.points:
            if self._sweep(SCANNED):
                continue
            read = max(self._shelves.values(), key=lambda each: each.read_bytes)
            if read.read_bytes <= READ_SHARE * self._limit_bytes or not read.pack(PACKED):
                # From the largest shelf: otherwise points of one dimension could keep out those of another forever.
                self.evicted += max(self._shelves.values(), key=lambda each: each.points).evict()

    def _sweep(self, count: int) -> int:
        """Free up to ``count`` points of forgotten tables; return how many were freed."""
        freed = 0
        while self._buried and freed < count:
            table = self._buried[-1]
            if not table.slots:
                self._buried.pop()
                continue
            _, slot = table.slots.popitem()
            table.shelf.drop(slot)
            freed += 1
        return freed


def _fits(table: _Table, points: Points, rows: Matrix, squares: Matrix) -> bool:
    """Whether the rows give the scores of the reply, where scores are plain."""
    form, (_, query, scores) = table.scoring, points
    return form is None or scores_fit(form, query, rows, scores, SCORE_TOLERANCE, squares)


def _is_proven(table: _Table, points: Points, rows: Matrix, squares: Matrix) -> bool:
    """Whether the scores of the reply prove rows that fit them."""
    form, (_, query, scores) = table.scoring, points
    return form is not None and scores_prove(form, query, rows, scores, SCORE_TOLERANCE, squares)


_IS_CUT = attrgetter("is_cut")


def _says_the_same(shelf: Shelf, slots: Slots, brought: _Brought) -> bool:
    """Whether the known points, by ``slots`` (n,), have the same rows and records as those received."""
    places = (slots >= 0).nonzero()[0]
    if not len(places):
        return True
    if not np.array_equal(shelf.values[slots[places]], brought.values[places]):
        return False
    records = brought.records
    if records is None:
        return True
    known = (shelf.records[slot] for slot in slots[places].tolist())
    for old, place in zip(known, places.tolist(), strict=True):
        read = Record.unpacked(old) if isinstance(old, bytes) else old
        if read is not None and not read.says_the_same(records[place]):
            return False
    return True
