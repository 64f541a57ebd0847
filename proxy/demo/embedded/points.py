"""The unranked reads: points by id, page by page, counted, and the values of a payload key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecsieve.proxy.demo.embedded.configs import vector_names
from vecsieve.proxy.demo.embedded.engine import Translated, edge
from vecsieve.proxy.demo.embedded.errors import bad_format, bad_input, bad_request, bad_value, not_found
from vecsieve.proxy.demo.embedded.fields import (
    Body,
    Json,
    boolean,
    items,
    limit_of,
    mapping,
    optional_boolean,
    point_id,
    point_ids,
    read,
    required,
    text,
    texts,
)
from vecsieve.proxy.demo.embedded.filters import read_filter
from vecsieve.proxy.demo.embedded.queries import read_order, read_vectors, vector_name
from vecsieve.proxy.demo.embedded.registry import Call, Collection, Registry, check_limit
from vecsieve.proxy.demo.embedded.replies import (
    read_payload_selector,
    read_vector_selector,
    record,
    shown_id,
    shown_score,
)
from vecsieve.proxy.demo.embedded.searches import DEFAULT_LIMIT


def retrieve(registry: Registry, call: Call) -> Json:
    """Records of the ids that exist, in the order asked."""
    body = call.object()
    payload = read_payload_selector(read(body, "with_payload"), default=True)
    vectors = read_vector_selector(read(body, "with_vector", "with_vectors"))
    ids = point_ids(required(body, "ids"))
    collection = call.collection(registry)
    collection.read(len(ids))
    return [record(found) for found in collection.shard.retrieve(ids, payload, vectors)]


def get(registry: Registry, call: Call) -> Json:
    """One record with its payload and its vectors."""
    given = call.path["id"]
    identifier = point_id(int(given) if given.isdecimal() else given)
    collection = call.collection(registry)
    collection.read()
    found = collection.shard.retrieve([identifier], True, True)
    if not found:
        raise not_found(f"Point with id {identifier} does not exist!")
    return record(found[0])


def scroll(registry: Registry, call: Call) -> Json:
    """`{"points": [Record], "next_page_offset": id or null}`, by id, or by a payload key that has an index."""
    body, collection = call.object(), call.collection(registry)
    limit = limit_of(body, "limit", default=DEFAULT_LIMIT)
    check_limit(collection, limit)
    offset, order = read(body, "offset"), read(body, "order_by")
    if offset is not None and order is not None:
        raise bad_request(
            "Cannot use an `offset` when using `order_by`. The alternative for paging is to use `order_by.start_from` "
            "and a filter to exclude the IDs that you've already seen for the `order_by.start_from` value"
        )
    with Translated():
        request = edge().ScrollRequest(
            offset=None if offset is None else point_id(offset),
            limit=limit,
            filter=read_filter(read(body, "filter")),
            with_payload=read_payload_selector(read(body, "with_payload"), default=True),
            with_vector=read_vector_selector(read(body, "with_vector", "with_vectors")),
            order_by=None if order is None else read_order(order),
        )
    collection.read()
    records, following = collection.shard.scroll(request)
    next_page = None if following is None or order is not None else shown_id(following)
    return {"points": [record(found) for found in records], "next_page_offset": next_page}


def count(registry: Registry, call: Call) -> Json:
    """`{"count": n}`; exact unless told otherwise."""
    body = call.object()
    exact = read(body, "exact")
    with Translated():
        request = edge().CountRequest(
            exact=True if exact is None else boolean(exact), filter=read_filter(read(body, "filter"))
        )
    collection = call.collection(registry)
    collection.read()
    return {"count": collection.shard.count(request)}


def facet(registry: Registry, call: Call) -> Json:
    """`{"hits": [{"value", "count"}]}`, the most frequent first; the key needs an index."""
    body = call.object()
    optional_boolean(body, "exact")
    with Translated():
        request = edge().FacetRequest(
            key=text(required(body, "key")),
            limit=limit_of(body, "limit", default=DEFAULT_LIMIT),
            # Always exact: of equal counts qdrant-edge-py 0.9.0 shows others each time when it need not be.
            exact=True,
            filter=read_filter(read(body, "filter")),
        )
    collection = call.collection(registry)
    collection.read()
    hits = collection.shard.facet(request)
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}


# Writes to points: whole points, payloads, vectors, alone and in a batch. Each answers `{"operation_id", "status"}`.
#
# The engine applies a write before it returns, so `wait=false` is honoured by having waited; the answer still says `acknowledged`.

Reader = Callable[[Body], Any]


def upsert(registry: Registry, call: Call) -> Json:
    """Insert or replace points, given as a list or column by column."""
    return _write(registry, call, read_upsert)


def delete(registry: Registry, call: Call) -> Json:
    """Delete points by id or by filter."""
    return _write(registry, call, read_delete)


def set_payload(registry: Registry, call: Call) -> Json:
    """Merge keys into payloads."""
    return _write(registry, call, read_set_payload)


def overwrite_payload(registry: Registry, call: Call) -> Json:
    """Replace payloads."""
    return _write(registry, call, read_overwrite_payload)


def delete_payload(registry: Registry, call: Call) -> Json:
    """Remove keys from payloads."""
    return _write(registry, call, read_delete_payload)


def clear_payload(registry: Registry, call: Call) -> Json:
    """Empty payloads."""
    return _write(registry, call, read_clear_payload)


def update_vectors(registry: Registry, call: Call) -> Json:
    """Replace the named vectors, leaving the others."""
    return _write(registry, call, read_update_vectors)


def delete_vectors(registry: Registry, call: Call) -> Json:
    """Remove named vectors."""
    return _write(registry, call, read_delete_vectors)


def batch(registry: Registry, call: Call) -> Json:
    """Several writes in order; all are read before the first is applied, and one answer comes back for each."""
    collection = call.collection(registry)
    operations = []
    for item in items(required(call.object(), "operations")):
        named = mapping(item)
        kind = next((name for name in named if name in _READERS), None)
        if kind is None:
            raise bad_format("data did not match any variant of untagged enum UpdateOperation")
        operations.append(_operation(mapping(named[kind]), _READERS[kind]))
    return [applied(collection, call, operation) for operation in operations]


def applied(collection: Collection, call: Call, operation: Any) -> dict[str, Json]:
    """Write, and say so as the server does."""
    number = collection.write(operation)
    return {"operation_id": number, "status": "completed" if wants_to_wait(call) else "acknowledged"}


def wants_to_wait(call: Call) -> bool:
    """`?wait=`, false when absent, as in the REST interface."""
    given = call.query.get("wait", "false")
    if given not in {"true", "false"}:
        raise bad_value("wait", "provided string was not `true` or `false`", where="query parameters")
    return given == "true"


def read_upsert(body: Body) -> Any:
    """`{"points": [{"id", "vector", "payload"?}]}` or `{"batch": {"ids", "vectors", "payloads"?}}`."""
    if "batch" in body:
        points = _columns(mapping(body["batch"]))
    else:
        points = [_point(mapping(item)) for item in items(required(body, "points"))]
    mode = read(body, "update_mode")
    modes = {None: None, "upsert": "Upsert", "insert_only": "InsertOnly", "update_only": "UpdateOnly"}
    if mode not in modes:
        raise bad_format(f"unknown variant `{mode}`, expected one of `upsert`, `insert_only`, `update_only`")
    named = modes[mode]
    return edge().UpdateOperation.upsert_points(
        points,
        read_filter(read(body, "update_filter")),
        None if named is None else getattr(edge().UpdateMode, named),
    )


def read_delete(body: Body) -> Any:
    """`{"points": [id]}` or `{"filter"}`."""
    make = edge().UpdateOperation
    if "filter" in body and "points" not in body:
        return make.delete_points_by_filter(read_filter(required(body, "filter")))
    return make.delete_points(point_ids(required(body, "points")))


def read_set_payload(body: Body) -> Any:
    """`{"payload", "points" or "filter", "key"?}`."""
    key = read(body, "key")
    path = None if key is None else text(key)
    return _targeted(body, "set_payload", dict(mapping(required(body, "payload"))), path)


def read_overwrite_payload(body: Body) -> Any:
    """`{"payload", "points" or "filter", "key"?}`; with a key it sets, as the server does."""
    key = read(body, "key")
    if key is not None:
        return read_set_payload(body)
    return _targeted(body, "overwrite_payload", dict(mapping(required(body, "payload"))), None)


def read_delete_payload(body: Body) -> Any:
    """`{"keys", "points" or "filter"}`."""
    return _targeted(body, "delete_payload", texts(required(body, "keys")))


def read_clear_payload(body: Body) -> Any:
    """`{"points"}` or `{"filter"}`."""
    return _targeted(body, "clear_payload")


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
    return _targeted(body, "delete_vectors", texts(required(body, "vector", "vectors")))


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


def _write(registry: Registry, call: Call, reader: Reader) -> Json:
    collection = call.collection(registry)
    return applied(collection, call, _operation(call.object(), reader))


def _operation(body: Body, reader: Reader) -> Any:
    if read(body, "shard_key") is not None:
        raise bad_input(f"cannot specify shard key {body['shard_key']} on collection with auto sharding")
    with Translated():
        return reader(body)


def _targeted(body: Body, verb: str, *arguments: Any) -> Any:
    """The engine's operation on the points of an id list or, failing that, of a filter."""
    make = edge().UpdateOperation
    if read(body, "points") is not None:
        return getattr(make, verb)(point_ids(body["points"]), *arguments)
    if read(body, "filter") is not None:
        return getattr(make, f"{verb}_by_filter")(read_filter(body["filter"]), *arguments)
    raise bad_request("Either list of ids or filter must be provided")


def _point(body: Body) -> Any:
    payload = read(body, "payload")
    return edge().Point(
        point_id(required(body, "id")),
        read_vectors(required(body, "vector")),
        None if payload is None else dict(mapping(payload)),
    )


def _columns(body: Body) -> list[Any]:
    ids, vectors = point_ids(required(body, "ids")), required(body, "vectors")
    given = read(body, "payloads")
    payloads = [None] * len(ids) if given is None else items(given)
    rows = _named_rows(mapping(vectors), len(ids)) if isinstance(vectors, dict) else items(vectors)
    if len(rows) != len(ids) or len(payloads) != len(ids):
        raise bad_value("batch", "all lists must have the same length")
    return [
        edge().Point(identifier, read_vectors(row), None if payload is None else dict(mapping(payload)))
        for identifier, row, payload in zip(ids, rows, payloads, strict=True)
    ]


def _named_rows(columns: Body, length: int) -> list[dict[str, Json]]:
    if any(len(items(column)) != length for column in columns.values()):
        raise bad_value("batch", "all lists must have the same length")
    return [{name: column[row] for name, column in columns.items()} for row in range(length)]


# The distance matrix of a random sample: each sampled point's nearest among the others, as pairs or as offsets into the ids.

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
