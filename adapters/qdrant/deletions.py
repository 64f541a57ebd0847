"""Which requests over REST delete points, and which points: by ids, by a filter, in a list of updates; a shard key; the whole collection; and a snapshot
that takes its place. And which change payloads or vectors of points that stay.

Below a deletion's path the collection is named as in upserts; an alias is another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import orjson

from ..contract import Operation, RequestHead, may_be_json
from ..writes import Deletion
from . import calls
from .rest_write import id_as_json

DELETE, GONE, SHARD, _REPLACED, _CHANGE = "delete", "gone", "shard", "replaced", "change"
# ``METHOD path`` below /collections/{name}.
_REST = {
    ("DELETE",): GONE,
    ("POST", "points", "delete"): DELETE,
    ("POST", "points", "batch"): calls.UPDATES,
    ("POST", "points", "payload"): _CHANGE,
    ("PUT", "points", "payload"): _CHANGE,
    ("POST", "points", "payload", "delete"): _CHANGE,
    ("POST", "points", "payload", "clear"): _CHANGE,
    ("PUT", "points", "vectors"): _CHANGE,
    ("POST", "points", "vectors", "delete"): _CHANGE,
    ("POST", "shards", "delete"): SHARD,
    ("PUT", "snapshots", "recover"): _REPLACED,
    ("POST", "snapshots", "upload"): _REPLACED,
}
CHANGES = frozenset({_CHANGE})


def over_rest(head: RequestHead) -> Operation | None:
    segments = calls.segments_of(head.path)
    name = _REST.get((head.method, *segments[2:])) if segments[:1] == ["collections"] else None
    collection = calls.collection_of(head)
    has_json = name in {DELETE, _CHANGE, calls.UPDATES}
    if name is None or not collection or (has_json and not may_be_json(head.content_type)):
        return None
    return Operation(backend=calls.BACKEND, name=name, collection=collection)


class _Selected(msgspec.Struct):
    """Ids, or points with new vectors; else a filter."""

    points: list[msgspec.Raw] | None = None
    shard_key: object = None


class _Updates(msgspec.Struct):
    operations: list[dict[str, _Selected]]


class _Point(msgspec.Struct):
    id: msgspec.Raw


class _Shard(msgspec.Struct):
    shard_key: object


def of_body(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    collection = request.collection
    if request.name == GONE:
        return [Deletion(collection=collection)]
    if request.name == SHARD:
        return list(in_shards(collection, msgspec.json.decode(body, type=_Shard).shard_key, None))
    if request.name == _REPLACED:
        return [Deletion(collection=collection, is_certain=False)]
    if request.name == calls.UPDATES:
        # Upserts of a list are noted by the gate.
        operations = msgspec.json.decode(body, type=_Updates).operations
        selections = [(name, one) for update in operations for name, one in update.items() if name != calls.UPSERT]
    else:
        selections = [(request.name, msgspec.json.decode(body, type=_Selected))]
    listed = [(name != DELETE, one.shard_key, _ids(one)) for name, one in selections]
    return [
        d
        for is_change, key, ids in listed
        for d in in_shards(collection, key, ids, all_of=ids is not None, is_change=is_change)
    ]


def _ids(selected: _Selected) -> tuple[bytes, ...] | None:
    if selected.points is None:
        return None
    points = map(bytes, selected.points)
    ids = [bytes(msgspec.json.decode(one, type=_Point).id) if one.startswith(b"{") else one for one in points]
    return tuple(map(id_as_json, ids))


def in_shards(
    collection: str, keys: object, ids: tuple[bytes, ...] | None, *, all_of: bool = True, is_change: bool = False
) -> Iterator[Deletion]:
    """The deletions of these ids in ``keys``: a shard key, or several; None for all."""
    for key in keys if isinstance(keys, list) else [keys]:
        partition = None if key is None else orjson.dumps(key)
        yield Deletion(collection=collection, partition=partition, ids=ids, is_certain=all_of, is_change=is_change)
