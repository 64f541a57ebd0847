"""Which requests delete vectors, and which ones: by ids, by a filter, all of a namespace, or the namespace itself; and which change some in part.

A namespace may be named by its empty name or as `__default__`: both are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec
import orjson

from ..contract import Operation, RequestHead
from ..writes import Deletion
from .calls import BACKEND, index_of

DELETE, NAMESPACE, UPDATE = "delete", "namespace", "update"
CHANGES = frozenset({UPDATE})
_NAMESPACES = "/namespaces/"
_DEFAULT = ("", "__default__")


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises. ``partition``: the namespace of a path."""
    path = "/" + head.path.lstrip("/")
    collection = index_of(head.host)
    if head.method in {"POST", "DELETE"} and path == "/vectors/delete":
        return Operation(backend=BACKEND, name=DELETE, collection=collection)
    if head.method == "POST" and path == "/vectors/update":
        return Operation(backend=BACKEND, name=UPDATE, collection=collection)
    if head.method == "DELETE" and path.startswith(_NAMESPACES):
        return Operation(
            backend=BACKEND, name=NAMESPACE, collection=collection, partition=path.removeprefix(_NAMESPACES)
        )
    return None


class _Body(msgspec.Struct):
    id: str = ""
    ids: list[str] | None = None
    namespace: str | None = None
    deleteAll: bool | None = None  # noqa: N815 - the name on the wire
    delete_all: bool | None = None
    filter: msgspec.Raw = msgspec.Raw(b"null")


def of_body(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    if request.name == NAMESPACE:
        return deletions_among(request, unquote(request.partition, errors="strict"), None, is_all=True)
    root = msgspec.json.decode(body or b"{}", type=_Body)
    if request.name == UPDATE:
        return deletions_among(request, root.namespace or "", [root.id] if root.id else None, is_all=False)
    is_all = bool(root.deleteAll or root.delete_all) and bytes(root.filter) == b"null"
    return deletions_among(request, root.namespace or "", root.ids, is_all=is_all)


def deletions_among(
    request: Operation, namespace: str, ids: Sequence[str] | None, *, is_all: bool
) -> Sequence[Deletion]:
    """Of these ids, or of a filter. ``is_all``: of the whole namespace."""
    names = _DEFAULT if namespace in _DEFAULT else (namespace,)
    return [
        Deletion(
            collection=request.collection,
            partition=orjson.dumps(name),
            ids=None if not ids or is_all else tuple(map(orjson.dumps, ids)),
            is_certain=is_all or bool(ids),
            is_change=request.name in CHANGES,
        )
        for name in names
    ]
