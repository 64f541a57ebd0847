"""The items of a set as a Qdrant server writes them: each part of a point as JSON bytes, made once."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from vecsieve.proxy.jobs.evaluate.labelled import LabelledSet, Vectors

# Which members of a payload are wanted.
Wanted = Callable[[str], bool]


def json_floats(row: Vectors) -> bytes:
    """A row (d,) of float32 as JSON: the shortest digits that read back as the same float32."""
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)


class Points:
    """Point i is item i. Vectors are written when they are first wanted: most items are in no pool."""

    __slots__ = ("_labelled", "_vectors")

    def __init__(self, labelled: LabelledSet) -> None:
        self._labelled = labelled
        self._vectors: dict[int, bytes] = {}

    def point(self, row: int, score: bytes, *, wanted: Wanted | None, with_vector: bool) -> bytes:
        """One scored point; a part that is not asked for is not there. ``wanted``: None for no payload."""
        parts = [b'{"id":%d,"version":0,"score":%s' % (row, score)]
        if wanted is not None:
            members = self._labelled.items[row].payload.items()
            payload = b",".join(orjson.dumps(key) + b":" + value for key, value in members if wanted(key))
            parts.append(b'"payload":{%s}' % payload)
        if with_vector:
            parts.append(b'"vector":%s' % self._vector(row))
        return b",".join(parts) + b"}"

    def _vector(self, row: int) -> bytes:
        written = self._vectors.get(row)
        if written is None:
            written = self._vectors[row] = json_floats(self._labelled.vectors[row])
        return written
