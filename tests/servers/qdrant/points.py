"""Points: strict mode for the product's reads, facets, every write alone and in a batch, and the distance matrix."""

from __future__ import annotations

from typing import Any

from servers.embedded import points
from servers.embedded.collections import Call, Collection, Registry
from servers.embedded.engine import Translated, edge
from servers.embedded.fields import (
    Body,
    Json,
    bad_format,
    bad_input,
    bad_value,
    boolean,
    items,
    limit_of,
    mapping,
    point_id,
    point_ids,
    read,
    required,
    text,
    texts,
)
from servers.embedded.points import (
    Reader,
    applied,
    read_delete,
    read_operation,
    read_set_payload,
    read_upsert,
    targeted,
    write,
)
from servers.embedded.replies import id_json, read_filter, score_json
from servers.embedded.searches import DEFAULT_LIMIT, read_vectors, vector_name
from servers.qdrant.catalogue import vector_names
from servers.qdrant.limits import check_limit, take_read
from servers.qdrant.queries import read_order

# The product's writes as they are: with these, every verb about points stands here.
upsert, delete, set_payload = points.upsert, points.delete, points.set_payload


def retrieve(registry: Registry, call: Call) -> Json:
    """Records of the ids that exist; each id is a read."""
    ids = point_ids(required(call.object(), "ids"))
    take_read(call.collection(registry), len(ids))
    return points.retrieve(registry, call)


def get(registry: Registry, call: Call) -> Json:
    """One record."""
    take_read(call.collection(registry))
    return points.get(registry, call)


def scroll(registry: Registry, call: Call) -> Json:
    """A page by id, or by a payload key that has an index."""
    collection = call.collection(registry)
    check_limit(collection, limit_of(call.object(), "limit", default=DEFAULT_LIMIT))
    take_read(collection)
    return points.scroll(registry, call, read_order=read_order)


def count(registry: Registry, call: Call) -> Json:
    """How many points match."""
    take_read(call.collection(registry))
    return points.count(registry, call)


def facet(registry: Registry, call: Call) -> Json:
    """`{"hits": [{"value", "count"}]}`, the most frequent first; the key needs an index."""
    body = call.object()
    if read(body, "exact") is not None:
        boolean(body["exact"])
    with Translated():
        request = edge().FacetRequest(
            key=text(required(body, "key")),
            limit=limit_of(body, "limit", default=DEFAULT_LIMIT),
            # Always exact: of equal counts qdrant-edge-py 0.9.0 shows others each time when it need not be.
            exact=True,
            filter=read_filter(read(body, "filter")),
        )
    collection = call.collection(registry)
    take_read(collection)
    with Translated():
        hits = collection.shard.engine.facet(request).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}


def overwrite_payload(registry: Registry, call: Call) -> Json:
    """Replace payloads."""
    return write(registry, call, read_overwrite_payload)


def delete_payload(registry: Registry, call: Call) -> Json:
    """Remove keys from payloads."""
    return write(registry, call, read_delete_payload)


def clear_payload(registry: Registry, call: Call) -> Json:
    """Empty payloads."""
    return write(registry, call, read_clear_payload)


def update_vectors(registry: Registry, call: Call) -> Json:
    """Replace the named vectors, leaving the others."""
    return write(registry, call, read_update_vectors)


def delete_vectors(registry: Registry, call: Call) -> Json:
    """Remove named vectors."""
    return write(registry, call, read_delete_vectors)


def batch(registry: Registry, call: Call) -> Json:
    """Several writes in order; all are read before the first is applied, and one answer comes back for each."""
    collection = call.collection(registry)
    operations = []
    for item in items(required(call.object(), "operations")):
        named = mapping(item)
        kind = next((name for name in named if name in _READERS), None)
        if kind is None:
            raise bad_format("data did not match any variant of untagged enum UpdateOperation")
        operations.append(read_operation(mapping(named[kind]), _READERS[kind]))
    return [applied(collection, call, operation) for operation in operations]


def read_overwrite_payload(body: Body) -> Any:
    """`{"payload", "points" or "filter", "key"?}`; with a key it sets, as the server does."""
    key = read(body, "key")
    if key is not None:
        return read_set_payload(body)
    return targeted(body, "overwrite_payload", dict(mapping(required(body, "payload"))), None)


def read_delete_payload(body: Body) -> Any:
    """`{"keys", "points" or "filter"}`."""
    return targeted(body, "delete_payload", texts(required(body, "keys")))


def read_clear_payload(body: Body) -> Any:
    """`{"points"}` or `{"filter"}`."""
    return targeted(body, "clear_payload")


def read_update_vectors(body: Body) -> Any:
    """`{"points": [{"id", "vector"}], "update_filter"?}`."""
    engine = edge()
    points = [
        engine.PointVectors(point_id(required(item, "id")), read_vectors(required(item, "vector")))
        for item in map(mapping, items(required(body, "points")))
    ]
    return engine.UpdateOperation.update_vectors(points, read_filter(read(body, "update_filter")))


def read_delete_vectors(body: Body) -> Any:
    """`{"vector": [name], "points" or "filter"}`."""
    return targeted(body, "delete_vectors", texts(required(body, "vector", "vectors")))


_READERS: dict[str, Reader] = {
    "upsert": read_upsert,
    "delete": read_delete,
    "set_payload": read_set_payload,
    "overwrite_payload": read_overwrite_payload,
    "delete_payload": read_delete_payload,
    "clear_payload": read_clear_payload,
    "update_vectors": read_update_vectors,
    "delete_vectors": read_delete_vectors,
}


# The distance matrix of a random sample: each sampled point's nearest among the others, as pairs or as offsets into the ids.

_SAMPLE = 10
_NEAREST = 3

Rows = list[tuple[Any, list[Any]]]
"""Each sampled point's id with its nearest others."""


def matrix_pairs(registry: Registry, call: Call) -> Json:
    """`{"pairs": [{"a", "b", "score"}]}`."""
    return {
        "pairs": [
            {"a": id_json(row), "b": id_json(point.id), "score": score_json(point)}
            for row, nearest in _rows(registry, call)
            for point in nearest
        ]
    }


def matrix_offsets(registry: Registry, call: Call) -> Json:
    """`{"offsets_row", "offsets_col", "scores", "ids"}`: the same as a sparse matrix."""
    rows = _rows(registry, call)
    places = {str(row): place for place, (row, _) in enumerate(rows)}
    pairs = [(place, point) for place, (_, nearest) in enumerate(rows) for point in nearest]
    return {
        "offsets_row": [place for place, _ in pairs],
        "offsets_col": [places[str(point.id)] for _, point in pairs],
        "scores": [score_json(point) for _, point in pairs],
        "ids": [id_json(row) for row, _ in rows],
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
    take_read(collection)
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
    scored_points = collection.shard.query(request)
    others = [point for point in scored_points if point.id != identifier]
    return others[:most]
