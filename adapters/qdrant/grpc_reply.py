"""Parses a reply over gRPC: its lists, the vectors of their points, and their pools.

A list is the reply itself, or a result of a batch. Whatever is ambiguous is malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import MalformedReplyError, Needs, Pool
from vecsieve.adapters.qdrant.grpc_points import Points, fields_of, read_points, results
from vecsieve.adapters.qdrant.grpc_request import Document, Plan
from vecsieve.adapters.qdrant.ranking import Kind, Shape, best
from vecsieve.adapters.wire.json_vectors import stack
from vecsieve.adapters.wire.protobuf import LENGTH, Field, Span, entries, fields, messages, only
from vecsieve.adapters.wire.vectors import (
    SparseRow,
    matrix,
    packed_floats,
    row,
    union_matrix,
    unsigned_numbers,
    without_vector,
)

# Servers up to 1.16 write a vector as numbers beside a list of indices (sparse) or a count of rows (multivector), since 1.17 as a message
# of its kind. Whether names are shown differs between the points of a reply.

# VectorsOutput: the unnamed vector alone, or a message of named ones; the entries in the latter.
UNNAMED, NAMED, ENTRIES = 1, 2, 1

# VectorOutput: its old fields, and since 1.17 one of three messages.
_DATA, _INDICES, _COUNT = 1, 2, 3
_KINDS = {101: Kind.DENSE, 102: Kind.SPARSE, 103: Kind.MULTI}
# In those messages: the numbers (of a multivector the rows), and a sparse vector's indices.
_VALUES, _SPARSE_INDICES = 1, 2


class _Stored(NamedTuple):
    """One vector: its kind, the fields with its numbers, and whether they are those of servers up to 1.16."""

    kind: Kind
    fields: list[Field]
    is_old: bool


def named(data: bytes, span: Span | None) -> dict[str, Span]:
    """The spans of a point's vectors by name, "" being the unnamed one. Raises ValueError."""
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
    """The name to compare by, when all vectors were fetched. Raises ValueError."""
    first: dict[str, Shape] = {}
    for point in points:
        for name, span in point.items():
            if name not in first:
                stored = _stored(data, span)
                is_dense = stored.kind is Kind.DENSE
                first[name] = Shape(stored.kind, len(_floats(data, stored)) if is_dense else 0)
    return best(first, prefers)


def compare(data: bytes, spans: Sequence[Span | None]) -> npt.NDArray[np.float32]:
    """(n, d) float32, NaN rows for None and for unusable vectors. The first vector's kind decides for the pool; multivectors are not
    compared. Raises ValueError.
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
    """(n, d) of dense vectors whose messages all have the length and the leading bytes of the first; else None.

    The bytes before the numbers, which end the message, determine their offset: equal bytes and lengths give the result of walking
    each message, in a tenth of the time.
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
    """The offset of a dense vector's numbers, where they are one packed field at the end of the message; else None."""
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


def dense(data: bytes, span: Span) -> bytes:
    """The packed floats of the vector that fills ``span``; b"" of any that is not dense. Raises ValueError."""
    stored = _stored(data, span)
    return _floats(data, stored) if stored.kind is Kind.DENSE else b""


def _floats(data: bytes, stored: _Stored) -> bytes:
    """The numbers of a dense vector, or the values of a sparse one."""
    return packed_floats(data, stored.fields, _DATA if stored.is_old else _VALUES)


def _sparse(data: bytes, stored: _Stored) -> SparseRow | None:
    """Indices and values; None where there are none, or their numbers differ."""
    if stored.is_old:
        wrapped = only(stored.fields, _INDICES, LENGTH)
        indices = unsigned_numbers(data, [] if wrapped is None else fields(data, wrapped.span), _DATA)
    else:
        indices = unsigned_numbers(data, stored.fields, _SPARSE_INDICES)
    values = row(_floats(data, stored))
    return (indices, values) if indices.size and indices.shape == values.shape else None


@dataclass(frozen=True, slots=True)
class Ranked:
    """The list of one search: its span, its points, and its field in a batch."""

    span: Span
    points: Points
    item: Field | None


@dataclass(frozen=True, slots=True)
class ReplyDocument:
    """A parsed reply: its bytes, and one list per plan."""

    data: bytes
    lists: tuple[Ranked, ...]


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Raises MalformedReplyError, nothing else."""
    try:
        lists = _lists(request, body, has_keys=bool(needs.payload_fields or needs.optional_fields))
        pools = tuple(
            [_pool(body, plan, ranked.points, needs) for plan, ranked in zip(request.plans, lists, strict=True)]
        )
    except ValueError as error:
        raise MalformedReplyError(str(error)) from None
    return pools, ReplyDocument(body, lists)


def _lists(request: Document, body: bytes, *, has_keys: bool) -> tuple[Ranked, ...]:
    whole = 0, len(body)
    if request.items is None:
        return (Ranked(whole, read_points(body, whole, has_keys=has_keys), None),)
    items = results(body, whole)
    if len(items) != len(request.items):
        raise ValueError(f"{len(items)} results, wanted {len(request.items)}")
    supported = [items[plan.index] for plan in request.plans]
    return tuple(Ranked(item.span, read_points(body, item.span, has_keys=has_keys), item) for item in supported)


def _pool(data: bytes, plan: Plan, points: Points, needs: Needs) -> Pool:
    """Raises ValueError."""
    name, vectors = _compared(data, plan, points)
    values, is_cut = fields_of(data, points, needs)
    return Pool(
        scores=points.scores,
        vectors=vectors,
        fields=values,
        is_cut=is_cut or plan.payload.is_cut,
        ids=points.ids,
        versions=points.versions,
        vector_name=name if plan.name is None else None,
        compared_by=name,
        unusable=without_vector(vectors),
    )


def _compared(data: bytes, plan: Plan, points: Points) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare by, and (n, d) the vectors. Raises ValueError."""
    name, spans = plan.name, [None if point.vectors is None else point.vectors[1:] for point in points.each]
    if name is not None:
        if not any(spans):  # of a reply to a request for none
            return name, np.empty((len(spans), 0), np.float32)
        alike = written_alike(data, name, spans)
        if alike is not None:
            return name, alike
    found = [named(data, span) for span in spans]
    if name is None:
        name = find_best(data, found, plan.prefers)
    return name, compare(data, [None if name is None else each.get(name) for each in found])
