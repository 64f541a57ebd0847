"""The vectors of a Qdrant gRPC reply: where each point's stands, which one is compared, and all of them as one matrix.

A vector is written in one of two ways: by servers up to 1.16 as numbers beside an index list (sparse) or a count of rows
(multivector), since 1.17 as a message of its own kind. What is shown of names differs from point to point in one reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.json_floats import stack
from vecsieve.adapters.proto_floats import matrix, packed_floats, row, unsigned_numbers
from vecsieve.adapters.proto_maps import entries, messages
from vecsieve.adapters.proto_wire import LENGTH, Field, Span, fields, only
from vecsieve.adapters.qdrant_ranking import Kind, Shape, best
from vecsieve.adapters.sparse_rows import SparseRow, union_matrix

# VectorsOutput: the unnamed vector alone, or a message of named ones; the entries in that.
UNNAMED, NAMED, ENTRIES = 1, 2, 1

# VectorOutput: its old fields, and since 1.17 one of three messages.
_DATA, _INDICES, _COUNT = 1, 2, 3
_KINDS = {101: Kind.DENSE, 102: Kind.SPARSE, 103: Kind.MULTI}
# In those messages: the numbers (of a multivector the rows), and a sparse vector's indices.
_VALUES, _SPARSE_INDICES = 1, 2


class _Stored(NamedTuple):
    """One vector: its kind, the fields that hold its numbers, and whether they are the old ones."""

    kind: Kind
    fields: list[Field]
    is_old: bool


def named(data: bytes, span: Span | None) -> dict[str, Span]:
    """The vectors in a point's message of them by name, "" being the unnamed one. Raises ValueError."""
    if span is None:
        return {}
    found = fields(data, span)
    alone, several = only(found, UNNAMED, LENGTH), only(found, NAMED, LENGTH)
    if alone is not None:
        if several is not None:
            raise ValueError(f"vectors at byte {span[0]} are both one and named ones")
        return {"": alone.span}
    if several is None:
        return {}
    each = entries(data, messages(fields(data, several.span), ENTRIES))
    vectors = {name.decode(): inner for name, inner in each}
    if len(vectors) < len(each):
        raise ValueError(f"vectors at byte {span[0]} have a name twice")
    return vectors


def find_best(data: bytes, points: Sequence[Mapping[str, Span]], prefers: str) -> str | None:
    """The name to compare by when all vectors were asked for. Raises ValueError."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, span in point.items():
            if name not in first:
                stored = _stored(data, span)
                is_dense = stored.kind is Kind.DENSE
                first[name] = Shape(stored.kind, len(_floats(data, stored)) if is_dense else 0)
    return best(first, prefers)


def compare(data: bytes, spans: Sequence[Span | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32 of each candidate's vector, None where it has none; NaN rows for what is unusable. Raises ValueError.

    The first vector's kind decides for the pool. Multivectors are not compared (qdrant_vectors.py says why).
    """
    found = [None if span is None else _stored(data, span) for span in spans]
    kind = next((stored.kind for stored in found if stored is not None), Kind.DENSE)
    alike = [stored if stored is not None and stored.kind is kind else None for stored in found]
    if kind is Kind.DENSE:
        return matrix([None if stored is None else _floats(data, stored) for stored in alike])
    if kind is Kind.SPARSE:
        return union_matrix([None if stored is None else _sparse(data, stored) for stored in alike])
    return stack([None] * len(alike))


def written_alike(data: bytes, name: str, vectors: Sequence[Span | None]) -> npt.NDArray[np.float32] | None:
    """(n, d) of dense vectors that are all written as the first one is; None where one is not, or is not dense.

    Such a vector ends with its numbers, and what stands before them is all that says where they are: where the bytes before
    them are the first one's, and as many follow, walking the message would find the same (a tenth of the time).
    """
    first = vectors[0] if vectors else None
    before = None if first is None else _before_numbers(data, name, first)
    if first is None or before is None:
        return None
    size, lead = first[1] - first[0], data[first[0] : before]
    packed: list[bytes] = []
    for each in vectors:
        if each is None or each[1] - each[0] != size or not data.startswith(lead, each[0]):
            return None
        packed.append(data[each[0] + len(lead) : each[1]])
    return matrix(packed)


def _before_numbers(data: bytes, name: str, span: Span) -> int | None:
    """Where a dense vector's numbers begin, if they are one packed list at the very end of the message, else None."""
    found = named(data, span)
    stored = _stored(data, found[name]) if found.keys() == {name} else None
    if stored is None or stored.kind is not Kind.DENSE:
        return None
    numbers = [inner for inner in stored.fields if inner.number == _DATA]
    if len(numbers) != 1 or numbers[0].wire != LENGTH or numbers[0].end != span[1]:
        return None
    return None if (numbers[0].end - numbers[0].value) % 4 else numbers[0].value


def _stored(data: bytes, span: Span) -> _Stored:
    found = fields(data, span)
    variants = [field for field in found if field.number in _KINDS]
    if not variants:
        numbers = {field.number for field in found}
        kind = Kind.SPARSE if _INDICES in numbers else Kind.MULTI if _COUNT in numbers else Kind.DENSE
        return _Stored(kind, found, is_old=True)
    if len(variants) > 1 or variants[0].wire != LENGTH:
        raise ValueError(f"vector at byte {span[0]} is not one message")
    return _Stored(_KINDS[variants[0].number], fields(data, variants[0].span), is_old=False)


def _floats(data: bytes, stored: _Stored) -> bytes:
    """The numbers of a dense vector, or the values of a sparse one: field 1 of either way."""
    return packed_floats(data, stored.fields, _DATA if stored.is_old else _VALUES)


def _sparse(data: bytes, stored: _Stored) -> SparseRow | None:
    """Indices and values; None where there are none, or not equally many."""
    if stored.is_old:
        wrapped = only(stored.fields, _INDICES, LENGTH)
        indices = unsigned_numbers(data, [] if wrapped is None else fields(data, wrapped.span), _DATA)
    else:
        indices = unsigned_numbers(data, stored.fields, _SPARSE_INDICES)
    values = row(_floats(data, stored))
    return (indices, values) if indices.size and indices.shape == values.shape else None
