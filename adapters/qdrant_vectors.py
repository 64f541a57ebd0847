"""The vectors of a Qdrant reply: where each point's stands, which one is compared, and all of them as one matrix.

A point's ``vector`` is a bare list (the unnamed vector alone), a bare list of lists (the same, as a multivector) or an
object of names in random order; it may be empty, null or absent. All of that differs from point to point in one reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.json_floats import decode_matrix, stack
from vecsieve.adapters.json_spans import Span, members
from vecsieve.adapters.json_sparse import sparse_matrix
from vecsieve.adapters.qdrant_ranking import Kind, Shape, best
from vecsieve.adapters.usable import without_vector


@dataclass(frozen=True, slots=True)
class Compared:
    """(n, d) float32 with NaN rows for what is unusable, and how many those are.

    ``proven``: per candidate, whether its bytes were read as one flat array of numbers.
    """

    vectors: npt.NDArray[np.float32]
    unusable: int
    proven: tuple[bool, ...]


def named(text: bytes, span: Span) -> dict[str, Span]:
    """The vectors in a ``vector`` value by name, "" being the unnamed one. Raises ValueError."""
    first = text[span[0] : span[0] + 1]
    if first == b"[":
        return {"": span}
    if first == b"{":
        return {name: (member.value, member.end) for name, member in members(text, span).items()}
    if text[span[0] : span[1]] == b"null":
        return {}
    raise ValueError(f"vector at byte {span[0]} is neither list, object nor null")


def find_best(text: bytes, points: Sequence[Mapping[str, Span]], prefers: str) -> str | None:
    """The name to compare by when all vectors were asked for."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, (start, end) in point.items():
            if name not in first:
                first[name] = _shape(text[start:end])
    return best(first, prefers)


def compare(values: Sequence[bytes | None]) -> Compared:
    """Read each candidate's vector; None where it has none. The first vector's kind decides for the pool.

    Multivectors are not compared: their metric (MaxSim) is between sets of rows, which a mean of the rows tells nothing of
    (250 of 300 random documents of 20 rows seemed to be copies), and all pairs of a pool would cost 20 ms and more.
    """
    sample = next((value for value in values if value is not None), b"[]")
    if _is_dense(sample):
        return _measured(*decode_matrix([b"" if value is None else value for value in values]))
    none_proven = (False,) * len(values)
    if sample.startswith(b"{"):
        return _measured(sparse_matrix(values), none_proven)
    return _measured(stack([None] * len(values)), none_proven)


def _measured(vectors: npt.NDArray[np.float32], proven: tuple[bool, ...]) -> Compared:
    return Compared(vectors, unusable=without_vector(vectors), proven=proven)


def _shape(value: bytes) -> Shape:
    if _is_dense(value):
        return Shape(Kind.DENSE, value.count(b","))
    return Shape(Kind.SPARSE if value.startswith(b"{") else Kind.MULTI)


def _is_dense(value: bytes) -> bool:
    return value[:1] == b"[" and value[1:].lstrip()[:1] != b"["
