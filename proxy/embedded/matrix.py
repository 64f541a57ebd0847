"""The distance matrix of a random sample: each sampled point's nearest among the others, as pairs or as offsets into the ids."""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.configs import vector_names
from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.engine import Translated, edge
from vecsieve.proxy.embedded.errors import bad_input, bad_value
from vecsieve.proxy.embedded.fields import Body, Json, limit_of
from vecsieve.proxy.embedded.filters import read_filter
from vecsieve.proxy.embedded.inputs import vector_name
from vecsieve.proxy.embedded.registry import Collection, Registry
from vecsieve.proxy.embedded.replies import shown_id, shown_score
from vecsieve.proxy.embedded.strict import check_limit

_SAMPLE = 10
_NEAREST = 3

Rows = list[tuple[Any, list[Any]]]
"""Each sampled point's id with its nearest others."""


def matrix_pairs(registry: Registry, call: Call) -> Json:
    """`{"pairs": [{"a", "b", "score"}]}`."""
    return {
        "pairs": [
            {"a": shown_id(row), "b": shown_id(point.id), "score": shown_score(point)}
            for row, nearest in _rows(registry, call)
            for point in nearest
        ]
    }


def matrix_offsets(registry: Registry, call: Call) -> Json:
    """`{"offsets_row", "offsets_col", "scores", "ids"}`: the same as a sparse matrix."""
    rows = _rows(registry, call)
    places = {str(row): place for place, (row, _) in enumerate(rows)}
    found = [(place, point) for place, (_, nearest) in enumerate(rows) for point in nearest]
    return {
        "offsets_row": [place for place, _ in found],
        "offsets_col": [places[str(point.id)] for _, point in found],
        "scores": [shown_score(point) for _, point in found],
        "ids": [shown_id(row) for row, _ in rows],
    }


def _rows(registry: Registry, call: Call) -> Rows:
    body = call.object()
    size, most = limit_of(body, "sample", default=_SAMPLE), limit_of(body, "limit", default=_NEAREST)
    if size < 2:
        raise bad_value("sample", f"value {size} invalid, must be 2 or larger")
    collection = call.collection(registry)
    name = vector_name(body)
    if name not in vector_names(collection.settings):
        raise bad_input(f"Not existing vector name error: {name}")
    check_limit(collection, size)
    collection.read()
    sampled = _sampled(collection, body, name, size)
    if len(sampled) < 2:
        return []
    among = edge().Filter(must=[edge().HasIdCondition({identifier for identifier, _ in sampled})])
    return [(point, _nearest(collection, (point, vector), name, most, among)) for point, vector in sampled]


def _sampled(collection: Collection, body: Body, name: str, size: int) -> list[tuple[Any, Any]]:
    """Ids and vectors of random points that have the vector, in the order of their ids."""
    engine = edge()
    with Translated():
        given = read_filter(body.get("filter"))
        clauses = [*([] if given is None else [given]), engine.HasVectorCondition(name)]
        request = engine.QueryRequest(
            limit=size,
            query=engine.Sample.Random,
            filter=engine.Filter(must=clauses),
            with_vector=[name],
            with_payload=False,
        )
    points = collection.shard.query(request)
    points.sort(
        key=lambda point: (not isinstance(point.id, int), point.id if isinstance(point.id, int) else str(point.id))
    )
    return [(point.id, point.vector[name] if isinstance(point.vector, dict) else point.vector) for point in points]


def _nearest(collection: Collection, sampled: tuple[Any, Any], name: str, most: int, among: Any) -> list[Any]:
    """The best others; the point itself is looked for by id, as its copies score the same."""
    engine, (identifier, vector) = edge(), sampled
    with Translated():
        request = engine.QueryRequest(
            limit=most + 1,
            query=engine.Query.Nearest(vector, name),
            filter=among,
            with_vector=False,
            with_payload=False,
        )
    found = collection.shard.query(request)
    others = [point for point in found if point.id != identifier]
    return others[:most]
