"""The verbs on points without ranking: reads and writes.

A write is applied before the response, also with `wait=false`; the response then says `acknowledged`, as the server's does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .collections import Call, Collection, Registry
from .engine import Translated, edge
from .fields import (
    Body,
    Json,
    bad_format,
    bad_input,
    bad_request,
    bad_value,
    boolean,
    items,
    limit_of,
    mapping,
    missing,
    not_served,
    optional,
    point_id,
    point_ids,
    read,
    required,
    text,
)
from .replies import (
    id_json,
    read_filter,
    read_payload_selector,
    read_vector_selector,
    record,
)
from .searches import DEFAULT_LIMIT, read_vectors

OrderReader = Callable[[Json], Any]
"""Reads `order_by`, for the engine."""


def retrieve(registry: Registry, call: Call) -> Json:
    body = call.object()
    payload = read_payload_selector(read(body, "with_payload"), default=True)
    vectors = read_vector_selector(read(body, "with_vector", "with_vectors"))
    ids = point_ids(required(body, "ids"))
    return [record(point) for point in call.collection(registry).shard.retrieve(ids, payload, vectors)]


def get(registry: Registry, call: Call) -> Json:
    given = call.path["id"]
    identifier = point_id(int(given) if given.isdecimal() else given)
    records = call.collection(registry).shard.retrieve([identifier], True, True)
    if not records:
        raise missing(f"Point with id {identifier} does not exist!")
    return record(records[0])


def _no_order(_value: Json) -> Any:
    raise not_served("order_by, which needs a payload index")


def scroll(registry: Registry, call: Call, *, read_order: OrderReader = _no_order) -> Json:
    body, collection = call.object(), call.collection(registry)
    limit = limit_of(body, "limit", default=DEFAULT_LIMIT)
    offset, order = read(body, "offset"), read(body, "order_by")
    if offset is not None and order is not None:
        raise bad_request(
            "Cannot use an `offset` when using `order_by`. The alternative for paging is to use `order_by.start_from` "
            "and a filter to exclude the IDs that you've already seen for the `order_by.start_from` value"
        )
    with Translated():
        request = edge().ScrollRequest(
            offset=optional(offset, point_id),
            limit=limit,
            filter=read_filter(read(body, "filter")),
            with_payload=read_payload_selector(read(body, "with_payload"), default=True),
            with_vector=read_vector_selector(read(body, "with_vector", "with_vectors")),
            order_by=optional(order, read_order),
        )
    records, following = collection.shard.scroll(request)
    next_page = None if following is None or order is not None else id_json(following)
    return {"points": [record(point) for point in records], "next_page_offset": next_page}


def count(registry: Registry, call: Call) -> Json:
    body = call.object()
    with Translated():
        request = edge().CountRequest(
            exact=optional(read(body, "exact"), boolean) is not False, filter=read_filter(read(body, "filter"))
        )
    return {"count": call.collection(registry).shard.count(request)}


Reader = Callable[[Body], Any]
"""Reads a body into an operation of the engine."""


def upsert(registry: Registry, call: Call) -> Json:
    return write(registry, call, read_upsert)


def delete(registry: Registry, call: Call) -> Json:
    return write(registry, call, read_delete)


def set_payload(registry: Registry, call: Call) -> Json:
    return write(registry, call, read_set_payload)


def applied(collection: Collection, call: Call, operation: Any) -> dict[str, Json]:
    number = collection.write(operation)
    return {"operation_id": number, "status": "completed" if wants_to_wait(call) else "acknowledged"}


def wants_to_wait(call: Call) -> bool:
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
    return targeted(body, "set_payload", _payload(required(body, "payload")), optional(read(body, "key"), text))


def write(registry: Registry, call: Call, reader: Reader) -> Json:
    collection = call.collection(registry)
    return applied(collection, call, read_operation(call.object(), reader))


def read_operation(body: Body, reader: Reader) -> Any:
    if read(body, "shard_key") is not None:
        raise bad_input(f"cannot specify shard key {body['shard_key']} on collection with auto sharding")
    with Translated():
        return reader(body)


def targeted(body: Body, verb: str, *arguments: Any) -> Any:
    """The operation `verb` on the points of an id list, else of a filter."""
    make = edge().UpdateOperation
    if read(body, "points") is not None:
        return getattr(make, verb)(point_ids(body["points"]), *arguments)
    if read(body, "filter") is not None:
        return getattr(make, f"{verb}_by_filter")(read_filter(body["filter"]), *arguments)
    raise bad_request("Either list of ids or filter must be provided")


def _payload(value: Json) -> dict[str, Json]:
    return dict(mapping(value))


def _point(body: Body) -> Any:
    vectors = read_vectors(required(body, "vector"))
    return edge().Point(point_id(required(body, "id")), vectors, optional(read(body, "payload"), _payload))


def _columns(body: Body) -> list[Any]:
    ids, vectors = point_ids(required(body, "ids")), required(body, "vectors")
    given = read(body, "payloads")
    payloads = [None] * len(ids) if given is None else items(given)
    rows = _named_rows(mapping(vectors), len(ids)) if isinstance(vectors, dict) else items(vectors)
    if len(rows) != len(ids) or len(payloads) != len(ids):
        raise bad_value("batch", "all lists must have the same length")
    return [
        edge().Point(identifier, read_vectors(row), optional(payload, _payload))
        for identifier, row, payload in zip(ids, rows, payloads, strict=True)
    ]


def _named_rows(columns: Body, length: int) -> list[dict[str, Json]]:
    if any(len(items(column)) != length for column in columns.values()):
        raise bad_value("batch", "all lists must have the same length")
    return [{name: column[row] for name, column in columns.items()} for row in range(length)]
