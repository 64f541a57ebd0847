"""The feature memory: vectors of points from earlier replies, so that they need not be sent again.

A point is identified by its id and, if the database has versions, its version: a write makes another key. If scores are plain similarities
that differ enough, each recalled row must reproduce the score in the reply; a row that does not is out of date, and its collection is
forgotten. If neither holds, nothing is recalled.

Memory only decides which candidates are copies. The content of a result always comes from the reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...selection.metric import metric_by, scores_distinguish, scores_fit, scores_prove, scoring_of
from ...selection.values import Metric
from ..collections.learned import is_of
from .shelves import FEW_DIMENSIONS, POINT_BYTES, SCANNED, Matrix, Shelf, Slots, is_coarse, packed

Clock = Callable[[], float]

QUIET_SECONDS = (
    60.0  # seconds after a write: reads may still show the earlier state, and long writes are still in progress
)
WINDOW = 8  # pools
# The share of the last pools that must have been known as a whole, so that a search requests no vectors. Below it, too many searches would
# need a second read.
PROMISING = 0.7
COLLECTIONS = 1024

# As for scores_fit. The largest error of a correct row is 6e-6 with 16-bit rows; a changed vector passes in 2 % of cases.
SCORE_TOLERANCE = 5e-5
SCORE_MARGIN = 3.0  # a score counts as a plain similarity of its collection only if it is this many times closer

# Points of forgotten collections that are freed with each pool that is learned.
SWEPT = 512
_ALWAYS = float("inf")


class Key(NamedTuple):
    """Which points may be compared. ``partition``: the part of the collection within which ids are unique."""

    partition: bytes
    vector: str
    dimension: int


class Points(NamedTuple):
    """The points of one reply, best first: n ``names``, each an id with its version if there is one; ``scores`` (n,) for ``query`` (d,)."""

    names: Sequence[bytes]
    query: Matrix
    scores: npt.NDArray[np.float64]
    is_versioned: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """``rows``: (n, d) float32, as they are recalled; ``squares``: their squared lengths, ``metric``: the one that gives the scores; None if not
    known. ``identity``: equal only for equal rows; b"" if these are not all kept. ``until``: when they become too old; None if memory could not
    recall them now.
    """

    rows: Matrix
    squares: Matrix | None = None
    metric: Metric | None = None
    identity: bytes = b""
    until: float | None = None


class Repeat(NamedTuple):
    """A request, by a digest of its bytes. ``is_known``: memory has its points."""

    digest: int
    is_known: bool


@dataclass(slots=True, eq=False)
class _Table:
    """The points of one ``Key``. ``scoring``: how scores follow from vectors, once it is known that they do and that they tell vectors
    apart.
    """

    shelf: Shelf
    slots: dict[bytes, int] = field(default_factory=dict)
    scoring: int | None = None
    is_plain: bool = True

    def find(self, names: Sequence[bytes]) -> Slots:
        """(n,) the slots; -1 for an unknown point."""
        return np.fromiter(map(self.slots.get, names, repeat(-1)), np.intp, len(names))

    def fits(self, points: Points, rows: Matrix, squares: Matrix) -> bool:
        """Whether the rows give the scores of the reply, where scores are plain."""
        form, (_, query, scores, _) = self.scoring, points
        return form is None or scores_fit(form, query, rows, scores, SCORE_TOLERANCE, squares)

    def is_proven(self, points: Points, rows: Matrix, squares: Matrix) -> bool:
        """Whether the scores of the reply prove rows that fit them."""
        form, (_, query, scores, _) = self.scoring, points
        return form is not None and scores_prove(form, query, rows, scores, SCORE_TOLERANCE, squares)

    def prove(self, points: Points, rows: Matrix, squares: Matrix) -> None:
        """Learn how scores follow from vectors, if they do."""
        if not self.is_plain or not points.names:
            return
        pool, form = (points.query, rows, points.scores), self.scoring
        if form is None:
            form = scoring_of(*pool, SCORE_TOLERANCE / SCORE_MARGIN)
            self.scoring = form if form is not None and scores_distinguish(form, *pool, SCORE_TOLERANCE) else None
        elif not scores_fit(form, *pool, SCORE_TOLERANCE, squares):
            self.scoring = form = None
        self.is_plain = form is not None

    @property
    def metric(self) -> Metric | None:
        return None if self.scoring is None else metric_by(self.scoring)


class _Brought(NamedTuple):
    """A pool to store: ``values`` (n, d) as stored."""

    names: Sequence[bytes]
    values: npt.NDArray[np.int16 | np.float32]
    scales: Matrix
    squares: Matrix


@dataclass(slots=True)
class _Collection:
    quiet_until: float = float("-inf")
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
        "_limit_bytes",
        "_shelves",
        "_stamp",
        "_ttl_seconds",
        "evicted",
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
        self._all_quiet_until = float("-inf")
        self.evicted = self.score_failures = 0

    @property
    def points(self) -> int:
        """Number of points held now."""
        return sum([shelf.points for shelf in self._shelves.values()])

    @property
    def stored_bytes(self) -> int:
        """Approximate memory use."""
        return sum([shelf.stored_bytes for shelf in self._shelves.values()])

    def is_promising(self, collection: str) -> bool:
        """Whether this collection's next pool is probably known."""
        state = self._collections.get(collection)
        if state is None or len(state.known) < WINDOW or self._clock() < state.quiet_until:
            return False
        return sum(state.known) >= PROMISING * WINDOW

    def quiet_ended(self, collection: str) -> float | None:
        """When storing resumed after everything was forgotten; minus infinity if nothing ever was; None while it has not resumed."""
        state = self._collections.get(collection)
        until = self._all_quiet_until if state is None else state.quiet_until
        return until if self._clock() >= until else None

    def is_past(self, until: float) -> bool:
        """Whether rows that are trusted until ``until`` are too old."""
        return self._clock() > until

    def learn(self, collection: str, key: Key, points: Points, vectors: Matrix, *, counts: bool = True) -> Rows:
        """Store a pool: ``vectors`` (n, d) of n points. Rows that are not finite are not stored. ``counts``: whether the pool predicts that the next
        one will be known.
        """
        state = self._collection(collection)
        self._sweep(SWEPT)
        if self._clock() < state.quiet_until or vectors.shape[1] != key.dimension:
            return Rows(vectors)
        values, scales = packed(vectors)
        rows = np.multiply(values, scales[:, None], dtype=np.float32)
        squares = np.einsum("ij,ij->i", rows, rows)
        is_exact = key.dimension <= FEW_DIMENSIONS or is_coarse(rows, squares, scales)
        table = self._table(state, key, is_exact=is_exact)
        if table is None:
            return Rows(vectors)
        brought = _Brought(points.names, values, scales, squares)
        if table.shelf.is_exact:
            rows, squares = vectors, np.einsum("ij,ij->i", vectors, vectors)
            brought = _Brought(points.names, vectors, scales, squares)
        slots = table.find(points.names)
        if not _are_the_same(table.shelf, slots, brought):
            self.forget(collection)  # writes do not pass through this process: other points may be out of date as well
            return Rows(vectors)
        table.prove(points, rows, squares)
        is_proven = table.is_proven(points, rows, squares)
        if counts:
            is_known = bool((slots >= 0).all()) and self._until(table, points, slots, is_proven=is_proven) is not None
            state.known.append(is_known)
        is_whole = self._store(table, slots, brought)
        until = self._until(table, points, slots, is_proven=is_proven) if is_whole else None
        if not scales.all():
            return Rows(np.where(np.isfinite(vectors), rows, vectors))
        return Rows(rows, squares, table.metric, until=until)

    def recall(self, collection: str, key: Key, points: Points, *, counts: bool = True) -> Rows | None:
        """The rows of a pool's points (n > 0); None if any is unknown."""
        state = self._collection(collection)
        table = state.tables.get(key)
        rows = None if table is None or self._clock() < state.quiet_until else self._recalled(collection, table, points)
        if counts:
            state.known.append(rows is not None)
        return rows

    def _recalled(self, collection: str, table: _Table, points: Points) -> Rows | None:
        slots, shelf = table.find(points.names), table.shelf
        if (slots < 0).any():
            return None
        rows, squares = shelf.rows(slots), shelf.squares[slots]
        if not table.fits(points, rows, squares):
            self.score_failures += 1
            self.forget(collection)
            return None
        until = self._until(table, points, slots, is_proven=table.is_proven(points, rows, squares))
        if until is None:
            return None
        self._stamp += 1
        shelf.stamps[slots] = self._stamp
        return Rows(rows, squares, table.metric, shelf.serials[slots].tobytes(), until)

    def _until(self, table: _Table, points: Points, slots: Slots, *, is_proven: bool) -> float | None:
        """Until when these rows are trusted; None if they are not. Without a proof by scores, versions hold for a while."""
        if is_proven:
            return _ALWAYS
        until = float(table.shelf.learnt_seconds[slots].min()) + self._ttl_seconds
        return until if points.is_versioned and not self.is_past(until) else None

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
        state.tables[key] = made = _Table(shelf)
        return made

    def _store(self, table: _Table, slots: Slots, brought: _Brought) -> bool:
        """Keep points: those of ``slots`` (n,) in their places, others (-1) in free ones, which are written to ``slots``. Return whether all of them
        are kept now.
        """
        shelf = table.shelf
        may = brought.scales > 0.0
        if len(set(brought.names)) < len(brought.names):
            may &= np.array([brought.names.index(name) == place for place, name in enumerate(brought.names)])
        is_new = may & (slots < 0)
        for place in is_new.nonzero()[0].tolist():
            slots[place] = self._taken(table, brought.names[place])
        # Making room for the last points of a pool may have evicted its first.
        has = (table.find(brought.names) == slots if is_new.any() else may) & may & (slots >= 0)
        rows = is_new & has
        new, at = slots[rows], slots[has]
        shelf.values[new], shelf.scales[new] = brought.values[rows], brought.scales[rows]
        shelf.squares[new] = brought.squares[rows]
        self._stamp += 1 + len(new)
        shelf.serials[new] = np.arange(self._stamp - len(new), self._stamp)
        shelf.stamps[at], shelf.learnt_seconds[at] = self._stamp, self._clock()
        self._make_room()
        return bool(has.all()) and all(map(table.slots.__contains__, brought.names))

    def _taken(self, table: _Table, name: bytes) -> int:
        slot = table.shelf.take(table.slots, name)
        if slot is None:
            self.evicted += table.shelf.evict()
            slot = table.shelf.take(table.slots, name)
        return -1 if slot is None else slot

    def _make_room(self) -> None:
        """Stay within the bounds: free forgotten points, then evict the least recently used ones."""
        while self.stored_bytes > self._limit_bytes and self.points:
            if not self._sweep(SCANNED):
                # From the largest shelf: otherwise points of one dimension could keep out those of another forever.
                self.evicted += max(self._shelves.values(), key=lambda shelf: shelf.points).evict()

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


def _are_the_same(shelf: Shelf, slots: Slots, brought: _Brought) -> bool:
    """Whether the known points, by ``slots`` (n,), have the same rows as those received."""
    places = (slots >= 0).nonzero()[0]
    return not len(places) or np.array_equal(shelf.values[slots[places]], brought.values[places])
