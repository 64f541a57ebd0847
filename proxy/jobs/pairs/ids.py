"""Every id of a collection, once and in one order. A point's place is the position of its id.

A number takes 8 bytes and a UUID 36; a dict would take 100 to 200.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ...selection.values import Indices
from ..source import PointId

Places = npt.NDArray[np.int32]
NOWHERE = -1


class Ids:
    """Every id once: numbers ascending, then texts ascending. A point's place is its position."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self, pages: Iterable[Sequence[PointId]]) -> None:
        numbers: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        texts: list[npt.NDArray[np.bytes_]] = [np.empty(0, "S1")]
        for page in pages:
            numbers.append(np.array([point_id for point_id in page if isinstance(point_id, int)], np.uint64))
            texts.append(np.array([point_id.encode() for point_id in page if isinstance(point_id, str)], np.bytes_))
        self._numbers = np.unique(np.concatenate(numbers))
        self._texts = np.unique(np.concatenate(texts))

    def __len__(self) -> int:
        return len(self._numbers) + len(self._texts)

    def at(self, places: Iterable[int]) -> list[PointId]:
        first_text = len(self._numbers)
        return [
            int(self._numbers[place]) if place < first_text else self._texts[place - first_text].decode()
            for place in places
        ]

    def places(self, ids: Sequence[PointId]) -> Places:
        """NOWHERE for an unknown id, such as one written after the ids were listed."""
        numbered = np.full(len(ids), NOWHERE, np.int32)
        numeric = np.array([isinstance(point_id, int) for point_id in ids], np.bool_)
        numbers = np.array([point_id for point_id in ids if isinstance(point_id, int)], np.uint64)
        texts = np.array([point_id.encode() for point_id in ids if isinstance(point_id, str)], np.bytes_)
        numbered[numeric] = _located(self._numbers, numbers, 0)
        numbered[~numeric] = _located(self._texts, texts, len(self._numbers))
        return numbered

    def digest(self) -> str:
        """In hex; changes whenever a point is added or deleted."""
        state = hashlib.blake2b(self._numbers.tobytes(), digest_size=16)
        state.update(self._texts.tobytes())
        return state.hexdigest()


def _located(
    there: npt.NDArray[np.uint64] | npt.NDArray[np.bytes_],
    keys: npt.NDArray[np.uint64] | npt.NDArray[np.bytes_],
    start: int,
) -> Indices:
    if not len(there):
        return np.full(len(keys), NOWHERE, np.intp)
    at = np.minimum(np.searchsorted(there, keys), len(there) - 1)
    return np.where(there[at] == keys, at + start, NOWHERE)


def spread(points: int, limit: int | None) -> Places:
    """Places of at most ``limit`` points, evenly spread; every point without a limit."""
    if limit is None or limit >= points:
        return np.arange(points, dtype=np.int32)
    return (np.arange(limit, dtype=np.int64) * points // limit).astype(np.int32)
