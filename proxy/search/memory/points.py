"""The feature memory: vectors and payload values of points that earlier replies brought, so that they need not be sent again.

A point is known under its id and its version, where the database gives versions: a write makes another key. Where scores are
plain similarities that differ enough, each recalled row must give the score that the reply has; a row that does not is out of
date, and its collection is forgotten. Where neither holds, nothing is recalled.

Memory decides which candidates are copies. What a result contains always comes from the reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.search.candidates import Record
from vecsieve.proxy.search.collections.learned import Lru, is_of
from vecsieve.proxy.selection.metric import metric_by, scores_fit, scores_tell, scoring_of
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.values import Metric, Selection

if TYPE_CHECKING:
    from vecsieve.proxy.search.memory.lookups import Asked  # which look into a memory
    from vecsieve.proxy.search.report import Figures  # of an Attempt, which has what a memory knows

Matrix = npt.NDArray[np.float32]
Clock = Callable[[], float]

QUIET_SECONDS = 60.0  # after a write: reads may still show what was before it, and long writes are still under way
WINDOW = 8  # pools
# Share of the last pools' points that were known, from which a search asks for no vectors. Below it, too many searches would
# need a second read.
PROMISING = 0.8
# Unknown points of a pool that a lookup brings; with more of them the whole pool is fetched again with vectors.
LOOKED_UP = 1 / 3
COLLECTIONS = 1024
DECIDED = 2048  # selections: 3 kB each

# As for scores_fit. The worst honest error is 6e-6 with 16-bit rows; a changed vector passes in 2 % of cases.
SCORE_TOLERANCE = 5e-5
SCORE_MARGIN = 3.0  # a score counts as a plain similarity of its collection only if it is this much nearer

# 16-bit rows may move a squared distance by this share of the pool's spread. Farther from the origin, and in few dimensions,
# rows are kept as float32.
COARSE = 1e-6
FEW_DIMENSIONS = 64
LARGEST = 32767.0

# Bytes of a point beside its row, key and payload values: dictionary entry, entry, scale, stamp.
POINT_BYTES = 360
# Entries of forgotten collections that are freed with each pool that is learnt, and slots that are looked at to evict some.
SWEPT, SCANNED, EVICTED = 512, 8192, 1024


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


class _Entry(NamedTuple):
    table: _Table
    name: bytes
    nbytes: int


class _Shelf:
    """Rows of one dimension by slot: 16 bits a number with a scale, or float32. Pages are touched as they are used."""

    __slots__ = (
        "dimension", "entries", "free", "hand", "is_exact", "learnt_seconds", "records", "scales", "squares", "stamps", "values",
    )  # fmt: skip

    def __init__(self, dimension: int, capacity: int, *, is_exact: bool) -> None:
        self.dimension = dimension
        self.is_exact = is_exact
        self.values: npt.NDArray[np.int16 | np.float32] = np.empty(
            (capacity, dimension), np.float32 if is_exact else np.int16
        )
        self.scales = np.empty(capacity, np.float32)
        self.squares = np.empty(capacity, np.float32)  # squared lengths
        self.stamps = np.empty(capacity, np.int64)  # of the last use
        self.learnt_seconds = np.empty(capacity, np.float64)
        self.entries: list[_Entry | None] = []
        self.records: list[Record | None] = []
        self.free: list[int] = []
        self.hand = 0

    def rows(self, slots: npt.NDArray[np.intp]) -> Matrix:
        """(n, d) float32."""
        found = self.values[slots]
        if self.is_exact:
            return found.astype(np.float32, copy=False)
        return np.multiply(found, self.scales[slots, None], dtype=np.float32)

    def take(self) -> int | None:
        """A free slot; None where there is none."""
        if self.free:
            return self.free.pop()
        if len(self.entries) < len(self.values):
            self.entries.append(None)
            self.records.append(None)
            return len(self.entries) - 1
        return None


@dataclass(slots=True, eq=False)
class _Table:
    """The points of one ``Key``. ``scoring``: how scores follow from vectors, once they are known to and to tell vectors apart."""

    shelf: _Shelf
    number: int
    slots: dict[bytes, int] = field(default_factory=dict)
    scoring: int | None = None
    is_plain: bool = True


@dataclass(slots=True)
class _Collection:
    quiet_until: float = float("-inf")
    is_versioned: bool = False
    tables: dict[Key, _Table] = field(default_factory=dict)
    known: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))


@dataclass(frozen=True, slots=True)
class Recalled:
    """``rows``: (n, d) float32. ``records``: one a point; None where payload values are not remembered. ``metric``: that gives the
    scores; None where they are not plain. ``slots``: (n,) where they are kept. ``until``: when one of the records is too old.
    """

    rows: Matrix
    records: tuple[Record, ...] | None
    metric: Metric | None
    slots: npt.NDArray[np.intp]
    until: float


class Decided(NamedTuple):
    """A selection with its ``figures``, and the ``policy`` that made it: while it is held here no other policy has its identity.

    ``slots``, ``until``: as in Recalled.
    """

    selection: Selection
    figures: Figures
    policy: Policy
    slots: npt.NDArray[np.intp]
    until: float


class FeatureMemory:
    """Points of earlier replies, in at most ``limit_bytes``. ``ttl_seconds``: how long a point is believed whose score proves
    nothing. ``clock``: monotonic seconds.
    """

    __slots__ = (
        "_all_quiet_until",
        "_buried",
        "_clock",
        "_collections",
        "_decided",
        "_limit_bytes",
        "_shelves",
        "_stamp",
        "_tables",
        "_ttl_seconds",
        "evicted",
        "held_bytes",
        "learnt",
        "points",
        "score_failures",
    )  # fmt: skip

    def __init__(self, limit_bytes: int, *, ttl_seconds: float, clock: Clock) -> None:
        self._limit_bytes = limit_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._collections: dict[str, _Collection] = {}  # the longest unused first
        self._shelves: dict[tuple[int, bool], _Shelf] = {}
        self._buried: list[_Table] = []
        self._stamp = 0
        self._tables = count()
        self._decided = Lru[tuple[int, bytes, Hashable], Decided](DECIDED)
        self._all_quiet_until = float("-inf")
        self.points = self.held_bytes = self.learnt = self.evicted = self.score_failures = 0

    def is_promising(self, collection: str) -> bool:
        """Whether most points of a pool of this collection are probably known."""
        state = self._collections.get(collection)
        if state is None or len(state.known) < WINDOW or self._clock() < state.quiet_until:
            return False
        return sum(state.known) >= PROMISING * WINDOW

    def is_versioned(self, collection: str) -> bool:
        """Whether points of this collection have versions, so that payload values are remembered too."""
        state = self._collections.get(collection)
        return state is not None and state.is_versioned

    def quiet_ended(self, collection: str) -> float | None:
        """When points were last kept again after all were forgotten, minus infinity where that never happened; None before then."""
        state = self._collections.get(collection)
        until = self._all_quiet_until if state is None else state.quiet_until
        return until if self._clock() >= until else None

    def learn(
        self,
        collection: str,
        key: Key,
        points: Points,
        vectors: Matrix,
        records: Sequence[Record] | None,
        *,
        counts: bool = True,
    ) -> Matrix:
        """Store a pool: ``vectors`` (n, d) of n points. Returns the rows as they will be recalled.

        Rows that are not finite are not stored. ``records``: None where the database gives no versions. ``counts``: whether
        the pool says how many points of the next will be known.
        """
        state, names = self._collection(collection), points.names
        self._sweep(SWEPT)
        if self._clock() < state.quiet_until or vectors.shape[1] != key.dimension:
            return vectors
        state.is_versioned = records is not None
        packed, scales = _packed(vectors)
        table = self._table(state, key, is_exact=key.dimension <= FEW_DIMENSIONS or _is_coarse(vectors, scales))
        if table is None:
            return vectors
        shelf = table.shelf
        values = vectors if shelf.is_exact else packed
        slots = [table.slots.get(name, -1) for name in names]
        had = np.array(slots, np.intp)
        places = np.flatnonzero(had >= 0)
        if len(places) and not (
            np.array_equal(shelf.values[had[places]], values[places])
            and _says_the_same(shelf, had[places].tolist(), records, places.tolist())
        ):
            self.forget(collection)  # somebody writes past this process: other points may be as old as these
            return vectors
        if counts:
            state.known.append(len(places) / max(len(slots), 1))
        rows = vectors if shelf.is_exact else np.multiply(packed, scales[:, None], dtype=np.float32)
        self._prove(table, points, rows)
        fine = np.flatnonzero(np.isfinite(vectors).all(axis=1) & (scales > 0.0)).tolist()
        self._store(table, fine, names, records)
        # Room for the last points of a pool may have taken that of its first.
        stored = [place for place in fine if names[place] in table.slots]
        at = [table.slots[names[place]] for place in stored]
        shelf.values[at], shelf.scales[at] = values[stored], scales[stored]
        shelf.squares[at] = np.einsum("ij,ij->i", rows[stored], rows[stored])
        self._make_room()
        return np.where(np.isfinite(vectors), rows, vectors) if len(fine) < len(names) else rows

    def recall(
        self, collection: str, key: Key, points: Points, *, counts: bool = True, with_records: bool = False
    ) -> Recalled | tuple[int, ...]:
        """What is known of a pool's points (n > 0), or the places of those that are not known.

        ``with_records``: whether payload values must be, too. No score proves them.
        """
        state, names = self._collection(collection), points.names
        table = state.tables.get(key)
        everything = tuple(range(len(names)))
        if table is None or self._clock() < state.quiet_until or not (state.is_versioned or table.scoring is not None):
            if counts:
                state.known.append(0.0)
            return everything
        found = list(map(table.slots.get, names))
        missing = found.count(None)
        if counts:
            state.known.append(1.0 - missing / len(names))
        if missing:
            return tuple(place for place, slot in enumerate(found) if slot is None)
        slots, shelf = np.array(found, np.intp), table.shelf
        rows = shelf.rows(slots)
        self._stamp += 1
        shelf.stamps[slots] = self._stamp
        kept = list(map(shelf.records.__getitem__, slots.tolist()))
        until = float("inf")
        if table.scoring is None or with_records:
            learnt = shelf.learnt_seconds[slots]
            until, is_old = float(learnt.min()) + self._ttl_seconds, learnt < self._clock() - self._ttl_seconds
            if with_records and None in kept:
                is_old |= np.array([each is None for each in kept])
            if is_old.any():
                return tuple(np.flatnonzero(is_old).tolist())
        if table.scoring is not None and not scores_fit(
            table.scoring, points.query, rows, points.scores, SCORE_TOLERANCE, shelf.squares[slots]
        ):
            self.score_failures += 1
            self.forget(collection)
            return everything
        records = None if None in kept else tuple(each for each in kept if each is not None)
        return Recalled(rows, records, None if table.scoring is None else metric_by(table.scoring), slots, until)

    def missed(self, collection: str) -> None:
        """A lookup did not bring what was unknown, such as a point without a usable vector: of its pool as good as nothing is known."""
        self._collection(collection).known.extend([0.0] * WINDOW)

    def decided(self, collection: str, asked: Asked, *, counts: bool = True) -> Decided | None:
        """What was decided about these points with these scores; None where nothing was, or where scores prove nothing.

        Its rows are not looked at: the same names mean the same rows, which gave these scores then. ``counts``: as for ``recall``.
        """
        state = self._collections.get(collection)
        table = None if state is None else state.tables.get(asked.key)
        if state is None or table is None or table.scoring is None:
            return None
        found = self._decided.get((table.number, asked.digest, asked.rest))
        if found is None or self._clock() > found.until:
            return None
        if counts:
            state.known.append(1.0)
        self._stamp += 1
        table.shelf.stamps[found.slots] = self._stamp  # some may have another point by now, which then stays longer
        return found

    def decide(self, collection: str, asked: Asked, decided: Decided) -> None:
        """Remember a decision."""
        state = self._collections.get(collection)
        table = None if state is None else state.tables.get(asked.key)
        if table is not None and table.scoring is not None:
            self._decided.hold((table.number, asked.digest, asked.rest), decided)

    def forget(self, collection: str | None) -> None:
        """Drop this collection and its parts, or all, and store nothing of them for QUIET_SECONDS."""
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
        """The table of a key; None where not even one pool has room. A table whose rows need more exactness begins anew."""
        table = state.tables.get(key)
        if table is not None and (table.shelf.is_exact or not is_exact):
            return table
        row_bytes = key.dimension * (4 if is_exact else 2)
        capacity = self._limit_bytes // (row_bytes + POINT_BYTES)
        if not capacity:
            return None
        shelf = self._shelves.get((key.dimension, is_exact))
        if shelf is None:
            shelf = self._shelves[key.dimension, is_exact] = _Shelf(key.dimension, capacity, is_exact=is_exact)
        if table is not None:
            self._buried.append(table)
        state.tables[key] = made = _Table(shelf, next(self._tables))
        return made

    def _prove(self, table: _Table, points: Points, rows: Matrix) -> None:
        """Learn how scores follow from vectors, and whether they do."""
        if not table.is_plain or not points.names:
            return
        pool, form = (points.query, rows, points.scores), table.scoring
        if form is None:
            form = scoring_of(*pool, SCORE_TOLERANCE / SCORE_MARGIN)
            table.scoring = form if form is not None and scores_tell(form, *pool, SCORE_TOLERANCE) else None
        elif not scores_fit(form, *pool, SCORE_TOLERANCE):
            table.scoring = form = None
        table.is_plain = form is not None

    def _store(self, table: _Table, fine: list[int], names: Sequence[bytes], records: Sequence[Record] | None) -> None:
        """Give each of the points ``fine`` a slot, and keep its payload values."""
        now, shelf = self._clock(), table.shelf
        self._stamp += 1
        row_bytes = shelf.dimension * shelf.values.itemsize + POINT_BYTES
        for place in fine:
            name, record = names[place], None if records is None else records[place]
            if record is not None and record.is_cut:
                continue
            slot = table.slots.get(name, -1)
            if slot < 0:
                slot = self._taken(shelf)
                if slot < 0:
                    continue
                table.slots[name] = slot
            self._drop_entry(shelf, slot)
            nbytes = row_bytes + len(name) + (0 if record is None else record.nbytes)
            shelf.entries[slot], shelf.records[slot] = _Entry(table, name, nbytes), record
            shelf.stamps[slot], shelf.learnt_seconds[slot] = self._stamp, now
            self.points += 1
            self.learnt += 1
            self.held_bytes += nbytes

    def _taken(self, shelf: _Shelf) -> int:
        slot = shelf.take()
        if slot is None:
            self._evict(shelf)
            slot = shelf.take()
        return -1 if slot is None else slot

    def _drop_entry(self, shelf: _Shelf, slot: int) -> None:
        entry = shelf.entries[slot]
        if entry is not None:
            shelf.entries[slot] = shelf.records[slot] = None
            self.points -= 1
            self.held_bytes -= entry.nbytes

    def _make_room(self) -> None:
        while self.held_bytes > self._limit_bytes and self.points:
            if not self._sweep(SCANNED):
                # The largest: otherwise points of one dimension could keep those of another out for good.
                self._evict(max(self._shelves.values(), key=lambda each: len(each.entries) - len(each.free)))

    def _sweep(self, count: int) -> int:
        """Free up to ``count`` points of forgotten tables; how many there were."""
        freed = 0
        while self._buried and freed < count:
            table = self._buried[-1]
            if not table.slots:
                self._buried.pop()
                continue
            _, slot = table.slots.popitem()
            self._drop_entry(table.shelf, slot)
            table.shelf.free.append(slot)
            freed += 1
        return freed

    def _evict(self, shelf: _Shelf) -> None:
        """Drop the longest unused of the next SCANNED points of a shelf."""
        size = len(shelf.entries)
        start = shelf.hand % max(size, 1)
        window = [at for at in range(start, min(start + SCANNED, size)) if shelf.entries[at] is not None]
        shelf.hand = start + SCANNED
        if not window:
            return
        stamps = shelf.stamps[window]
        count = max(1, min(EVICTED, len(window) // 8))
        for place in islice(np.argpartition(stamps, count - 1).tolist(), count):
            slot = window[place]
            entry = shelf.entries[slot]
            if entry is not None:
                entry.table.slots.pop(entry.name, None)
                self._drop_entry(shelf, slot)
                shelf.free.append(slot)
                self.evicted += 1


def _says_the_same(
    shelf: _Shelf, slots: Sequence[int], records: Sequence[Record] | None, places: Sequence[int]
) -> bool:
    """Whether the records at ``places`` are those that are known."""
    if records is None:
        return True
    pairs = zip((shelf.records[slot] for slot in slots), places, strict=True)
    return all(old is None or old.says_the_same(records[place]) for old, place in pairs)


def _packed(vectors: Matrix) -> tuple[npt.NDArray[np.int16], Matrix]:
    """Rows (n, d) as 16-bit numbers, and their scales (n,): 0 of a row that is zero or not finite."""
    peaks = np.abs(vectors).max(axis=1, initial=0.0)
    scales = np.where(np.isfinite(peaks), peaks, 0.0).astype(np.float32) / np.float32(LARGEST)
    with np.errstate(all="ignore"):
        found = np.rint(vectors / np.where(scales > 0.0, scales, 1.0)[:, None])
        return np.nan_to_num(found).astype(np.int16), scales


def _is_coarse(vectors: Matrix, scales: Matrix) -> bool:
    """Whether 16 bits would blur the differences between these rows."""
    fine = scales > 0.0
    if int(fine.sum()) < 2:
        return False
    apart = (rows := vectors[fine]) - rows[:1]
    error = vectors.shape[1] * float(np.square(scales[fine]).max()) / 12.0
    return bool(error > COARSE * float(np.einsum("ij,ij->i", apart, apart).max()))
