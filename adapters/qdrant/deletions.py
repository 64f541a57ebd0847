"""Which requests delete points, and which points: by ids, by a filter, in a list of updates; a shard key; the whole collection; and a snapshot
that takes its place.

Below a deletion's path the collection is named as in upserts; an alias is another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import orjson

from ..contract import Operation, RequestHead, may_be_json
from ..wire.schema import parsed
from ..writes import Deletion
from . import calls
from .grpc_schema import DELETION, SHARD_DELETION, UPDATES
from .grpc_write import id_of, shard_keys_of
from .rest_write import id_as_json

_DELETE, _GONE, _SHARD, _REPLACED = "delete", "gone", "shard", "replaced"
# ``METHOD path`` below /collections/{name}.
_REST = {
    ("DELETE",): _GONE,
    ("POST", "points", "delete"): _DELETE,
    ("POST", "points", "batch"): calls.UPDATES,
    ("POST", "shards", "delete"): _SHARD,
    ("PUT", "snapshots", "recover"): _REPLACED,
    ("POST", "snapshots", "upload"): _REPLACED,
}
_GRPC = {
    "/qdrant.Points/Delete": _DELETE,
    "/qdrant.Points/UpdateBatch": calls.UPDATES,
    "/qdrant.Collections/Delete": _GONE,
    "/qdrant.Collections/DeleteShardKey": _SHARD,
}


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises."""
    segments = [segment for segment in head.path.split("/") if segment]
    name = _REST.get((head.method, *segments[2:])) if segments[:1] == ["collections"] else None
    collection = calls.collection_of(head)
    if name is None or not collection or (name in {_DELETE, calls.UPDATES} and not may_be_json(head.content_type)):
        return None
    return Operation(backend=calls.BACKEND, name=name, collection=collection)


class _Selected(msgspec.Struct):
    points: list[msgspec.Raw] | None = None
    shard_key: object = None


class _Update(msgspec.Struct):
    delete: _Selected | None = None


class _Updates(msgspec.Struct):
    operations: list[_Update]


class _Shard(msgspec.Struct):
    shard_key: object


def of_body(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    """Over REST. Raises ValueError and the like."""
    collection = request.collection
    if request.name == _GONE:
        return [Deletion(collection=collection)]
    if request.name == _SHARD:
        return list(_in_shards(collection, msgspec.json.decode(body, type=_Shard).shard_key, None))
    if request.name == _REPLACED:
        return [Deletion(collection=collection, is_certain=False)]
    if request.name == _DELETE:
        each = [msgspec.json.decode(body, type=_Selected)]
    else:
        each = [one.delete for one in msgspec.json.decode(body, type=_Updates).operations if one.delete is not None]
    listed = [(one.shard_key, _ids(one)) for one in each]
    return [d for key, ids in listed for d in _in_shards(collection, key, ids, all_of=ids is not None)]


def _ids(selected: _Selected) -> tuple[bytes, ...] | None:
    return None if selected.points is None else tuple([id_as_json(bytes(each)) for each in selected.points])


def _in_shards(
    collection: str, keys: object, ids: tuple[bytes, ...] | None, *, all_of: bool = True
) -> Iterator[Deletion]:
    """``keys``: a shard key, or several; None for all."""
    for key in keys if isinstance(keys, list) else [keys]:
        partition = None if key is None else orjson.dumps(key)
        yield Deletion(collection=collection, partition=partition, ids=ids, is_certain=all_of)


def over_grpc(head: RequestHead) -> Operation | None:
    """Never raises."""
    name = _GRPC.get(head.path)
    if name is None:
        return None
    return Operation(backend=calls.BACKEND, name=name, collection=calls.collection_in(head.message))


def of_message(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    """Over gRPC. Raises ValueError, UnsupportedError."""
    if request.name == _GONE:
        return [Deletion(collection=request.collection)]
    if request.name == _SHARD:
        keys = shard_keys_of(b"".join(parsed(SHARD_DELETION, body).request))
        return list(_in_shards(request.collection, keys or None, None))
    if request.name == _DELETE:
        return _selected(request, parsed(DELETION, body))
    deletions: list[Deletion] = []
    for update in parsed(UPDATES, body).operations:
        if update.HasField("delete_deprecated"):
            deletions += _selected(request, DELETION(points=update.delete_deprecated))
        if update.HasField("delete_points"):
            deletions += _selected(request, update.delete_points)
    return deletions


def _selected(request: Operation, deletion: Any) -> Sequence[Deletion]:
    """Of a message with a selector of points and one of shards."""
    points = deletion.points
    ids = tuple(map(id_of, points.points.ids)) if points.HasField("points") else None
    keys = shard_keys_of(b"".join(deletion.shard_key_selector))
    is_certain = ids is not None or not deletion.HasField("points")
    return list(_in_shards(request.collection, keys or None, ids, all_of=is_certain))
