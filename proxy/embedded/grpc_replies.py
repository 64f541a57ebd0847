"""Points and what is said about them: the core's JSON values put into reply messages.

Each function fills the reply of one shape: `(reply, value, encoding)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecsieve.proxy.embedded.fields import Json
from vecsieve.proxy.embedded.grpc_messages import messages
from vecsieve.proxy.embedded.grpc_values import write_id, write_payload
from vecsieve.proxy.embedded.grpc_vectors import Encoding, write_vectors

Writer = Callable[[Any, Json, Encoding], None]


def ranked(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: ScoredPoint; the value is a bare list, or `{"points"}`."""
    for point in value["points"] if isinstance(value, dict) else value:
        _write_scored(reply.result.add(), point, encoding)


def ranked_batch(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: BatchResult."""
    for answer in value:
        ranked(reply.result.add(), answer, encoding)


def groups(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: GroupsResult, there even without groups."""
    reply.result.SetInParent()
    for group in value["groups"]:
        target = reply.result.groups.add()
        _write_group_id(target.id, group["id"])
        for point in group["hits"]:
            _write_scored(target.hits.add(), point, encoding)
        if "lookup" in group:
            _write_record(target.lookup, group["lookup"], encoding)


def records(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result`: RetrievedPoint."""
    for point in value:
        _write_record(reply.result.add(), point, encoding)


def scroll(reply: Any, value: Json, encoding: Encoding) -> None:
    """`result` and where the next page starts."""
    records(reply, value["points"], encoding)
    if value["next_page_offset"] is not None:
        write_id(reply.next_page_offset, value["next_page_offset"])


def count(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: CountResult."""
    reply.result.count = value["count"]


def facet(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`hits`: FacetHit."""
    kinds = {bool: "bool_value", int: "integer_value", str: "string_value"}
    for hit in value["hits"]:
        target = reply.hits.add(count=hit["count"])
        setattr(target.value, kinds[type(hit["value"])], hit["value"])


def pairs(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: SearchMatrixPairs, there even without pairs."""
    reply.result.SetInParent()
    for pair in value["pairs"]:
        target = reply.result.pairs.add(score=pair["score"])
        write_id(target.a, pair["a"])
        write_id(target.b, pair["b"])


def offsets(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: SearchMatrixOffsets, there even without points."""
    reply.result.SetInParent()
    for name in ("offsets_row", "offsets_col", "scores"):
        getattr(reply.result, name).extend(value[name])
    for identifier in value["ids"]:
        write_id(reply.result.ids.add(), identifier)


def written(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: UpdateResult."""
    _write_update(reply.result, value)


def written_batch(reply: Any, value: Json, _encoding: Encoding) -> None:
    """`result`: UpdateResult, one for each operation."""
    for update in value:
        _write_update(reply.result.add(), update)


def _write_update(target: Any, value: Json) -> None:
    statuses = messages().UpdateStatus
    target.operation_id = value["operation_id"]
    target.status = statuses.Completed if value["status"] == "completed" else statuses.Acknowledged


def _write_scored(target: Any, point: Json, encoding: Encoding) -> None:
    target.version = point["version"]
    target.score = point["score"]
    _write_record(target, point, encoding)


def _write_record(target: Any, point: Json, encoding: Encoding) -> None:
    write_id(target.id, point["id"])
    write_payload(target.payload, point.get("payload", {}))
    if "vector" in point:
        write_vectors(target.vectors, point["vector"], encoding)
    order = point.get("order_value")
    if order is not None:
        setattr(target.order_value, "int" if isinstance(order, int) else "float", order)


def _write_group_id(target: Any, value: int | str) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif value < 0:
        target.integer_value = value
    else:
        target.unsigned_value = value
