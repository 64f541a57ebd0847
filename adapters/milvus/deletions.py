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
from ..writes import Deletion
from . import calls
from .search import Schema

DELETE, GONE, PARTITION, OTHERS = "delete", "gone", "partition", "others"
_REST = {
    "/v1/vector/delete": DELETE,
    "/v1/vector/collections/drop": GONE,
    "/v2/vectordb/entities/delete": DELETE,
    "/v2/vectordb/collections/drop": GONE,
    "/v2/vectordb/collections/truncate": GONE,
    "/v2/vectordb/collections/rename": OTHERS,
    "/v2/vectordb/partitions/drop": PARTITION,
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
    content = msgspec.json.decode(body, type=_Body)
    listed = ids_in(content.filter, known)
    if content.id is not None:
        values = content.id if isinstance(content.id, list) else [content.id]
        # Numbers may be written as texts, and ids may be texts of digits.
        listed = tuple(dict.fromkeys(spelling for value in values for spelling in _spelled(value)))
    return deletion(request.name, calls.place(content.db_name, content.collection_name), content.partition_name, listed)


def _spelled(value: int | str) -> Sequence[bytes]:
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d+", value) is not None
    return (orjson.dumps(value), str(value).encode()) if is_number else (orjson.dumps(value),)


def deletion(name: str, collection: str, partition: str, ids: tuple[bytes, ...] | None) -> Sequence[Deletion]:
    is_whole = name in {GONE, PARTITION}
    is_named = partition not in {"", _DEFAULT}
    return [
        Deletion(
            collection=collection or None,
            partition=orjson.dumps(partition) if is_named else None,
            ids=None if is_whole or name == OTHERS else ids,
            is_certain=bool(collection) and (is_whole or (name == DELETE and ids is not None)),
        )
    ]


def ids_in(expression: str, known: object | None) -> tuple[bytes, ...] | None:
    """The ids that an expression lists; None for any other."""
    match = _LIST.fullmatch(expression) or _ONE.fullmatch(expression)
    if match is None or not isinstance(known, Schema) or match[1] != known.primary:
        return None
    try:
        value = ast.literal_eval(match[2])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    values = value if isinstance(value, list) else [value]
    if not all(type(value) in {int, str} for value in values):
        return None
    return tuple(map(orjson.dumps, values))
