"""Which requests delete vectors, and which ones: by ids, by a filter, all of a namespace, or the namespace itself; and which change some in part.

A namespace may be named by its empty name or as `__default__`: both are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec
import orjson

from ..contract import Operation, RequestHead
from ..wire.protobuf import LENGTH, VARINT, fields, only, text, unsigned
from ..writes import Deletion
from .calls import BACKEND, index_of

_DELETE, _NAMESPACE, _UPDATE = "delete", "namespace", "update"
CHANGES = frozenset({_UPDATE})
_NAMESPACES = "/namespaces/"
_DEFAULT = ("", "__default__")
_GRPC = {
    "/VectorService/Delete": _DELETE,
    "/VectorService/DeleteNamespace": _NAMESPACE,
    "/VectorService/Update": _UPDATE,
}


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises. ``partition``: the namespace of a path."""
    path = "/" + head.path.lstrip("/")
    collection = index_of(head.host)
    if head.method in {"POST", "DELETE"} and path == "/vectors/delete":
        return Operation(backend=BACKEND, name=_DELETE, collection=collection)
    if head.method == "POST" and path == "/vectors/update":
        return Operation(backend=BACKEND, name=_UPDATE, collection=collection)
    if head.method == "DELETE" and path.startswith(_NAMESPACES):
        return Operation(
            backend=BACKEND, name=_NAMESPACE, collection=collection, partition=path.removeprefix(_NAMESPACES)
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
    """Over REST. Raises ValueError and the like."""
    if request.name == _NAMESPACE:
        return _among(request, unquote(request.partition, errors="strict"), None, is_all=True)
    root = msgspec.json.decode(body or b"{}", type=_Body)
    if request.name == _UPDATE:
        return _among(request, root.namespace or "", [root.id] if root.id else None, is_all=False, is_change=True)
    is_all = bool(root.deleteAll or root.delete_all) and bytes(root.filter) == b"null"
    return _among(request, root.namespace or "", root.ids, is_all=is_all)


def over_grpc(head: RequestHead) -> Operation | None:
    """Never raises."""
    name = _GRPC.get(head.path)
    return None if name is None else Operation(backend=BACKEND, name=name, collection=index_of(head.host))


# DeleteRequest, DeleteNamespaceRequest, UpdateRequest.
_IDS, _ALL, _PLACE, _FILTER, _ALONE, _ID, _UPDATED_PLACE = 1, 2, 3, 4, 1, 1, 4


def of_message(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    """Over gRPC. Raises ValueError."""
    found = fields(body)
    if request.name == _NAMESPACE:
        alone = only(found, _ALONE, LENGTH)
        return _among(request, "" if alone is None else text(body, alone), None, is_all=True)
    place = only(found, _UPDATED_PLACE if request.name == _UPDATE else _PLACE, LENGTH)
    namespace = "" if place is None else text(body, place)
    if request.name == _UPDATE:
        one = only(found, _ID, LENGTH)
        return _among(request, namespace, None if one is None else [text(body, one)], is_all=False, is_change=True)
    every = only(found, _ALL, VARINT)
    ids = [text(body, field) for field in found if field.number == _IDS]
    is_all = every is not None and bool(unsigned(body, every)) and only(found, _FILTER, LENGTH) is None
    return _among(request, namespace, ids or None, is_all=is_all)


def _among(
    request: Operation, namespace: str, ids: Sequence[str] | None, *, is_all: bool, is_change: bool = False
) -> Sequence[Deletion]:
    names = _DEFAULT if namespace in _DEFAULT else (namespace,)
    return [
        Deletion(
            collection=request.collection,
            partition=orjson.dumps(name),
            ids=None if not ids or is_all else tuple(map(orjson.dumps, ids)),
            is_certain=is_all or bool(ids),
            is_change=is_change,
        )
        for name in names
    ]
