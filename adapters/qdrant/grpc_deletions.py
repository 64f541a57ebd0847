"""As deletions.py, over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..contract import Operation, RequestHead
from ..wire.protobuf import check_count
from ..wire.schema import parsed
from ..writes import Deletion
from . import calls
from .deletions import DELETE, GONE, SHARD, in_shards
from .grpc_schema import COUNTED, proto
from .grpc_write import id_of, shard_keys_of

# The messages of the calls that change points in part.
_CHANGES = {
    "SetPayload": proto.SetPayload,
    "OverwritePayload": proto.SetPayload,
    "DeletePayload": proto.SetPayload,
    "ClearPayload": proto.Deletion,
    "UpdateVectors": proto.UpdateVectors,
    "DeleteVectors": proto.DeleteVectors,
}
CHANGES = frozenset(_CHANGES)
_PATHS = {
    "/qdrant.Points/Delete": DELETE,
    "/qdrant.Points/UpdateBatch": calls.UPDATES,
    "/qdrant.Collections/Delete": GONE,
    "/qdrant.Collections/DeleteShardKey": SHARD,
    **{f"/qdrant.Points/{name}": name for name in _CHANGES},
}


def over_grpc(head: RequestHead) -> Operation | None:
    name = _PATHS.get(head.path)
    if name is None:
        return None
    return Operation(backend=calls.BACKEND, name=name, collection=calls.collection_in(head.message))


def of_message(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    if request.name == GONE:
        return [Deletion(collection=request.collection)]
    if request.name == SHARD:
        keys = shard_keys_of(b"".join(parsed(proto.ShardDeletion, body).request))
        return list(in_shards(request.collection, keys or None, None))
    check_count(body, "updates" if request.name == calls.UPDATES else "deletion", COUNTED)
    if request.name != calls.UPDATES:
        kind = _CHANGES.get(request.name, proto.Deletion)
        return _selected(request, parsed(kind, body), is_change=request.name != DELETE)
    deletions: list[Deletion] = []
    for update in parsed(proto.Updates, body).operations:
        for field, change in update.ListFields():
            if field.message_type.name == "Selector":  # of the old forms, without shards
                change = proto.Deletion(points=change)  # noqa: PLW2901 - the same change in the new form
            is_change = field.name not in {"delete_deprecated", "delete_points"}
            deletions += _selected(request, change, is_change=is_change)
    return deletions


def _selected(request: Operation, change: Any, *, is_change: bool) -> Sequence[Deletion]:
    """Of a message with points, or a selector of points, and a selector of shards."""
    name = "points" if "points" in change.DESCRIPTOR.fields_by_name else "points_selector"
    points = getattr(change, name)
    ids: tuple[bytes, ...] | None
    if hasattr(points, "points"):
        ids = tuple(map(id_of, points.points.ids)) if points.HasField("points") else None
        is_all = ids is not None or not change.HasField(name)
    else:
        ids, is_all = tuple([id_of(point.id) for point in points]), True
    keys = shard_keys_of(b"".join(change.shard_key_selector))
    return list(in_shards(request.collection, keys or None, ids, all_of=is_all, is_change=is_change))
