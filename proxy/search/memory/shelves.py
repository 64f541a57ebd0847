"""Rows of points by slot, in arrays that are allocated once; their pages use memory only when written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...selection.geometry import median_of, pairs

Matrix = npt.NDArray[np.float32]
Slots = npt.NDArray[np.intp]

# 16-bit rows may change a squared distance by this share of the pool's typical one, the median of some of its candidates' pairs. Above it, as
# far from the origin or in few dimensions, rows are kept as float32.
COARSE, COMPARED = 1e-6, 16
FEW_DIMENSIONS = 64
LARGEST = 32767.0

# Bytes of a point beside its row and name: its name's object, and its entries in a dictionary, lists and arrays.
POINT_BYTES = 200
# Slots that are examined per eviction.
SCANNED, EVICTED = 8192, 1024


class Shelf:
    """Points of one dimension: 16 bits per number with a scale, or float32.

    ``owners``: for each slot, the dictionary that maps the point's name to it; None for a free slot. ``squares``: squared lengths of the rows.
    ``stamps``: of the last use. ``serials``: of the rows; no other row has the same one.
    """

    __slots__ = (
        "dimension",
        "free",
        "hand",
        "is_exact",
        "learnt_seconds",
        "names",
        "owners",
        "points",
        "row_bytes",
        "scales",
        "serials",
        "squares",
        "stamps",
        "stored_bytes",
        "values",
    )  # fmt: skip

    def __init__(self, dimension: int, capacity: int, *, is_exact: bool) -> None:
        self.dimension = dimension
        self.is_exact = is_exact
        self.values: npt.NDArray[np.int16 | np.float32] = np.empty(
            (capacity, dimension), np.float32 if is_exact else np.int16
        )
        self.scales = np.empty(capacity, np.float32)
        self.squares = np.empty(capacity, np.float32)
        self.stamps = np.empty(capacity, np.int64)
        self.serials = np.empty(capacity, np.int64)
        self.learnt_seconds = np.empty(capacity, np.float64)
        self.owners: list[dict[bytes, int] | None] = []
        self.names: list[bytes] = []
        self.free: list[int] = []
        self.row_bytes = dimension * self.values.itemsize + POINT_BYTES
        self.hand = self.points = self.stored_bytes = 0

    def rows(self, slots: Slots) -> Matrix:
        """(n, d) float32."""
        rows = self.values[slots]
        if self.is_exact:
            return rows.astype(np.float32, copy=False)
        return np.multiply(rows, self.scales[slots, None], dtype=np.float32)

    def take(self, owner: dict[bytes, int], name: bytes) -> int | None:
        """A free slot, now taken; None if there is none."""
        if self.free:
            slot = self.free.pop()
            self.owners[slot], self.names[slot] = owner, name
        elif (slot := len(self.owners)) < len(self.values):
            self.owners.append(owner)
            self.names.append(name)
        else:
            return None
        owner[name] = slot
        self.points += 1
        self.stored_bytes += self.row_bytes + len(name)
        return slot

    def drop(self, slot: int) -> None:
        """Free a slot. Its owner no longer refers to it."""
        self.stored_bytes -= self.row_bytes + len(self.names[slot])
        self.owners[slot], self.names[slot] = None, b""
        self.free.append(slot)
        self.points -= 1

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
        numbers = vectors / scales[:, None]
        return np.rint(numbers, out=numbers).astype(np.int16), scales
    scales = np.where(fine, peaks, 0.0).astype(np.float32) / np.float32(LARGEST)
    with np.errstate(all="ignore"):
        numbers = np.rint(vectors / np.where(scales > 0.0, scales, 1.0)[:, None])
        return np.nan_to_num(numbers).astype(np.int16), scales


def is_coarse(rows: Matrix, squares: Matrix, scales: Matrix) -> bool:
    """Whether 16 bits blurred the differences between these rows. ``squares``: their squared lengths (n,)."""
    fine = (scales > 0.0).nonzero()[0]
    some = fine[:: -(-len(fine) // COMPARED) or 1]
    lengths = squares[some]
    apart = pairs(np.add.outer(lengths, lengths) - 2.0 * (rows[some] @ rows[some].T))
    error = rows.shape[1] * float(np.square(scales[fine]).max(initial=0.0)) / 12.0
    apart = apart[apart > error]  # copies do not say how far apart others are
    return bool(len(apart) and error > COARSE * median_of(apart))
