"""As deletions.py, over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import Operation, RequestHead
from ..wire.protobuf import LENGTH, Field, fields, messages_in, only, value_at
from ..writes import Deletion
from . import calls
from .deletions import DELETE, GONE, SHARD, in_shards
from .grpc_write import id_of, shard_keys_of

# The numbers of the selected points, and of the shard keys, in changes.
_CHANGED = {
    "SetPayload": (5, 7),
    "OverwritePayload": (5, 7),
    "DeletePayload": (5, 7),
    "ClearPayload": (3, 5),
    "UpdateVectors": (3, 5),
    "DeleteVectors": (3, 6),
}
CHANGES = frozenset(_CHANGED)
_PATHS = {
    "/qdrant.Points/Delete": DELETE,
    "/qdrant.Points/UpdateBatch": calls.UPDATES,
    "/qdrant.Collections/Delete": GONE,
    "/qdrant.Collections/DeleteShardKey": SHARD,
    **{f"/qdrant.Points/{name}": name for name in _CHANGED},
}


def over_grpc(head: RequestHead) -> Operation | None:
    """Never raises."""
    name = _PATHS.get(head.path)
    if name is None:
        return None
    return Operation(backend=calls.BACKEND, name=name, collection=calls.collection_in(head.message))


# DeletePoints, PointsSelector, UpdateBatchPoints, DeleteShardKeyRequest; PointStruct and PointVectors.
_SELECTOR, _SHARD_KEYS, _LISTED, _IDS, _UPDATES, _REQUEST, _ID = 3, 5, 1, 1, 3, 2, 1
# PointsUpdateOperation: those with a selector alone; the numbers of the selected points, and of the shard keys, in the others; those that list points.
_OLD_DELETE, _OLD_CLEAR, _DELETES, _UPSERT, _UPDATE_VECTORS = 2, 6, 9, 1, 7
_AMONG = {
    _UPSERT: (1, 2),
    3: (2, 3),
    4: (2, 3),
    5: (2, 3),
    _UPDATE_VECTORS: (1, 2),
    8: (1, 3),
    _DELETES: (1, 2),
    10: (1, 2),
}
_WITH_POINTS = frozenset({"UpdateVectors", _UPSERT, _UPDATE_VECTORS})


def of_message(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    """Raises ValueError, UnsupportedError."""
    if request.name == GONE:
        return [Deletion(collection=request.collection)]
    if request.name == SHARD:
        span = value_at(body, (_REQUEST,))
        keys = shard_keys_of(b"" if span is None else body[slice(*span)])
        return list(in_shards(request.collection, keys or None, None))
    if request.name == DELETE:
        return _selected(request, body, (_SELECTOR, _SHARD_KEYS), is_change=False)
    if request.name in _CHANGED:
        return _selected(request, body, _CHANGED[request.name], is_listed=request.name in _WITH_POINTS)
    deletions: list[Deletion] = []
    for span in messages_in(body, (0, len(body)), _UPDATES):
        for field in fields(body, span):
            number, update = field.number, body[field.value : field.end]
            is_change = number not in {_OLD_DELETE, _DELETES}
            if number in {_OLD_DELETE, _OLD_CLEAR}:
                ids = _ids_of(update)
                deletions += in_shards(request.collection, None, ids, all_of=ids is not None, is_change=is_change)
            elif number in _AMONG:
                is_listed = number in _WITH_POINTS
                deletions += _selected(request, update, _AMONG[number], is_change=is_change, is_listed=is_listed)
    return deletions


def _inside(data: bytes, found: list[Field], number: int) -> bytes | None:
    field = only(found, number, LENGTH)
    return None if field is None else data[field.value : field.end]


def _selected(
    request: Operation, message: bytes, numbers: tuple[int, int], *, is_change: bool = True, is_listed: bool = False
) -> Sequence[Deletion]:
    """``is_listed``: points, instead of a selector."""
    found, (number, shards) = fields(message), numbers
    keys = shard_keys_of(_inside(message, found, shards) or b"")
    ids: tuple[bytes, ...] | None
    if is_listed:
        points = [field for field in found if field.number == number]
        ids = tuple([id_of(message, only(fields(message, (each.value, each.end)), _ID, LENGTH)) for each in points])
        is_all = True
    else:
        selector = _inside(message, found, number)
        ids = None if selector is None else _ids_of(selector)
        is_all = selector is None or ids is not None
    return list(in_shards(request.collection, keys or None, ids, all_of=is_all, is_change=is_change))


def _ids_of(selector: bytes) -> tuple[bytes, ...] | None:
    """None for a filter."""
    listed = value_at(selector, (_LISTED,))
    if listed is None:
        return None
    return tuple([id_of(selector, field) for field in fields(selector, listed) if field.number == _IDS])
