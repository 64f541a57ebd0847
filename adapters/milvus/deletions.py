"""Which requests delete rows, and which ones: by an expression, a partition, or the whole collection.

Clients delete by ids with an expression that lists them, such as `id in [1, 2]`. Whether its field is that of the ids, the description of the
collection tells. Any other expression is a filter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import msgspec
import orjson

from ..contract import Operation, RequestHead
from ..wire.protobuf import LENGTH, fields, only, text
from ..writes import Deletion
from . import calls
from .search import Schema

_DELETE, _GONE, _PARTITION, _OTHERS = "delete", "gone", "partition", "others"
_REST = {
    "/v1/vector/delete": _DELETE,
    "/v1/vector/collections/drop": _GONE,
    "/v2/vectordb/entities/delete": _DELETE,
    "/v2/vectordb/collections/drop": _GONE,
    "/v2/vectordb/collections/truncate": _GONE,
    "/v2/vectordb/collections/rename": _OTHERS,
    "/v2/vectordb/partitions/drop": _PARTITION,
}
_SERVICE = calls.DELETES.rpartition("/")[0]
_GRPC = {
    calls.DELETES: _DELETE,
    f"{_SERVICE}/DropCollection": _GONE,
    f"{_SERVICE}/TruncateCollection": _GONE,
    f"{_SERVICE}/DropPartition": _PARTITION,
    f"{_SERVICE}/RenameCollection": _OTHERS,
    f"{_SERVICE}/RestoreSnapshot": _OTHERS,
}
# The partition of writes that name none has this name in deletions.
_DEFAULT = "_default"
_LIST = re.compile(r"\s*(\w+)\s+(?:in|IN)\s+(\[[^][]*\])\s*")
_ONE = re.compile(r"\s*(\w+)\s*==\s*([^\s=]+|\"[^\"]*\"|'[^']*')\s*")


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises. The collection is named in the body."""
    name = _REST.get(head.path) if head.method == "POST" else None
    return None if name is None else Operation(backend=calls.BACKEND, name=name, collection="", partition="")


class _Body(msgspec.Struct, rename="camel"):
    collection_name: str
    db_name: str = ""
    partition_name: str = ""
    filter: str = ""
    id: int | str | list[int | str] | None = None  # of version 1


def of_body(request: Operation, body: bytes, known: object | None) -> Sequence[Deletion]:
    """Over REST. Raises ValueError and the like."""
    content = msgspec.json.decode(body, type=_Body)
    listed = _listed(content.filter, known)
    if content.id is not None:
        values = content.id if isinstance(content.id, list) else [content.id]
        # Numbers may be written as texts, and ids may be texts of digits.
        listed = tuple(dict.fromkeys(each for value in values for each in _spelled(value)))
    return _found(request.name, calls.place(content.db_name, content.collection_name), content.partition_name, listed)


def _spelled(value: int | str) -> Sequence[bytes]:
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d+", value) is not None
    return (orjson.dumps(value), str(value).encode()) if is_number else (orjson.dumps(value),)


def over_grpc(head: RequestHead) -> Operation | None:
    """Never raises."""
    name = _GRPC.get(head.path)
    return None if name is None else Operation(backend=calls.BACKEND, name=name, collection=calls.collection_of(head))


# DeleteRequest, DropPartitionRequest.
_PLACE, _EXPRESSION = 4, 5


def of_message(request: Operation, body: bytes, known: object | None) -> Sequence[Deletion]:
    """Over gRPC. Raises ValueError."""
    found = fields(body)
    if request.name not in {_DELETE, _PARTITION}:
        return _found(request.name, request.collection, "", None)
    place = only(found, _PLACE, LENGTH)
    expression = only(found, _EXPRESSION, LENGTH) if request.name == _DELETE else None
    listed = _listed("" if expression is None else text(body, expression), known)
    return _found(request.name, request.collection, "" if place is None else text(body, place), listed)


def _found(name: str, collection: str, partition: str, ids: tuple[bytes, ...] | None) -> Sequence[Deletion]:
    is_whole = name in {_GONE, _PARTITION}
    is_named = partition not in {"", _DEFAULT}
    return [
        Deletion(
            collection=collection or None,
            partition=orjson.dumps(partition) if is_named else None,
            ids=None if is_whole or name == _OTHERS else ids,
            is_certain=bool(collection) and (is_whole or (name == _DELETE and ids is not None)),
        )
    ]


def _listed(expression: str, known: object | None) -> tuple[bytes, ...] | None:
    """The ids that an expression lists; None for any other."""
    match = _LIST.fullmatch(expression) or _ONE.fullmatch(expression)
    if match is None or not isinstance(known, Schema) or match[1] != known.primary:
        return None
    try:
        value = ast.literal_eval(match[2])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    values = value if isinstance(value, list) else [value]
    if not all(type(each) in {int, str} for each in values):
        return None
    return tuple(map(orjson.dumps, values))
