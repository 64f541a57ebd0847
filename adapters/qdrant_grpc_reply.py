"""Reading a Qdrant gRPC search reply: where its lists and points stand, and the pools in them.

What is not understood with certainty is Malformed, never guessed. A list is the reply itself, or a result of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Malformed, Needs, Pool
from vecsieve.adapters.proto_wire import Field, Span
from vecsieve.adapters.qdrant_grpc_points import Point, fields_of, id_of, read_points, results, score_of
from vecsieve.adapters.qdrant_grpc_request import Document, Plan
from vecsieve.adapters.qdrant_grpc_vectors import compare, find_best, named, written_alike
from vecsieve.adapters.usable import without_vector


@dataclass(frozen=True, slots=True)
class Ranked:
    """The list of one search: what it fills, its points in order, and its field in a batch."""

    span: Span
    points: tuple[Point, ...]
    item: Field | None


@dataclass(frozen=True, slots=True)
class ReplyDocument:
    """A parsed reply: its bytes, and one list per plan."""

    data: bytes
    lists: tuple[Ranked, ...]


def parse_reply(request: Document, needs: Needs, body: bytes) -> tuple[tuple[Pool, ...], ReplyDocument]:
    """Read a reply. Raises Malformed, nothing else."""
    try:
        lists = _lists(request, body)
        pools = tuple(_pool(body, plan, ranked, needs) for plan, ranked in zip(request.plans, lists, strict=True))
    except ValueError as error:
        raise Malformed(str(error)) from None
    return pools, ReplyDocument(body, lists)


def _lists(request: Document, body: bytes) -> tuple[Ranked, ...]:
    whole = 0, len(body)
    if request.items is None:
        return (Ranked(whole, read_points(body, whole), None),)
    items = results(body, whole)
    if len(items) != len(request.items):
        raise ValueError(f"{len(items)} results, wanted {len(request.items)}")
    ours = [items[plan.index] for plan in request.plans]
    return tuple(Ranked(item.span, read_points(body, item.span), item) for item in ours)


def _pool(data: bytes, plan: Plan, ranked: Ranked, needs: Needs) -> Pool:
    """The pool of one list. Raises ValueError."""
    points = ranked.points
    name, vectors = _compared(data, plan, points)
    unusable = without_vector(vectors)
    return Pool(
        scores=np.array([score_of(data, point) for point in points], dtype=np.float64),
        vectors=vectors,
        fields=fields_of(data, points, needs),
        ids=tuple([id_of(data, point) for point in points]),
        vector_name=name if plan.name is None else None,
        compared_by=name,
        unusable=unusable,
    )


def _compared(data: bytes, plan: Plan, points: tuple[Point, ...]) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare, and each point's. Raises ValueError."""
    name, spans = plan.name, [None if point.vectors is None else point.vectors[1:] for point in points]
    if name is not None:
        alike = written_alike(data, name, spans)
        if alike is not None:
            return name, alike
    found = [named(data, span) for span in spans]
    if name is None:
        name = find_best(data, found, plan.prefers)
    return name, compare(data, [None if name is None else each.get(name) for each in found])
