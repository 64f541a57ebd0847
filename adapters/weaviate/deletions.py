"""Which requests delete objects, and which ones: by id, by a filter, tenants, or the whole collection; and which replace or change one object.

Over REST the tenant of an object is in the query string, which is not read: an object is deleted of all tenants of its collection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

import msgspec
import orjson

from ..contract import Operation, RequestHead
from ..writes import Deletion
from .calls import BACKEND
from .objects import id_as_json

_OBJECT, MATCHING, _GONE, _TENANTS, _CHANGE = "object", "matching", "gone", "tenants", "change"
CHANGES = frozenset({_CHANGE})
_ONE = re.compile(r"/v1/objects/(?:(?P<name>[^/]+)/)?(?P<id>[^/]+)/?")
_REST = {
    _OBJECT: _ONE,
    MATCHING: re.compile(r"/v1/batch/objects/?"),
    _GONE: re.compile(r"/v1/schema/(?P<name>[^/]+)/?"),
    _TENANTS: re.compile(r"/v1/schema/(?P<name>[^/]+)/tenants/?"),
}


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises. ``id``: of the object."""
    of_method = {"DELETE": _REST, "PATCH": {_CHANGE: _ONE}, "PUT": {_CHANGE: _ONE}}
    for name, path in of_method.get(head.method, {}).items():
        if match := path.fullmatch(head.path):
            parts = match.groupdict()
            collection, identifier = (unquote(parts.get(part) or "") for part in ("name", "id"))
            return Operation(backend=BACKEND, name=name, collection=collection_name(collection), id=identifier)
    return None


def collection_name(name: str) -> str:
    """A collection's name as the server spells it."""
    return name[:1].upper() + name[1:]


class _Match(msgspec.Struct, rename={"name": "class"}):
    name: str = ""


class _Body(msgspec.Struct):
    match: _Match = msgspec.field(default_factory=_Match)
    dryRun: bool | None = None  # noqa: N815 - the name on the wire


def of_body(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    collection = request.collection or None
    if request.name in {_OBJECT, _CHANGE}:
        return [Deletion(collection=collection, ids=(id_as_json(request.id),), is_change=request.name == _CHANGE)]
    if request.name == _GONE:
        return [Deletion(collection=collection)]
    if request.name == _TENANTS:
        tenants = msgspec.json.decode(body, type=list[str])
        return [Deletion(collection=collection, partition=orjson.dumps(tenant)) for tenant in tenants]
    content = msgspec.json.decode(body, type=_Body)
    return (
        [] if content.dryRun else [Deletion(collection=collection_name(content.match.name) or None, is_certain=False)]
    )
