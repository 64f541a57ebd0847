"""Which requests delete records, and which ones: by ids, by a filter, or both together.

A collection that is deleted takes its id with it: one of the same name has another, and what the journal has of the first is never stored in
the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import orjson

from ..contract import Operation, RequestHead, may_be_json
from ..writes import Deletion
from .request import BACKEND, ID, scope

_DELETE = re.compile(rf"/api/(?:v2/tenants/([^/]+)/databases/([^/]+)|v1)/collections/({ID})/delete")
_NOTHING = frozenset({b"null", b"{}"})


def over_rest(head: RequestHead) -> Operation | None:
    match = _DELETE.fullmatch(head.path)
    if head.method != "POST" or match is None or not may_be_json(head.content_type):
        return None
    before = scope(match[1], match[2])
    return None if before is None else Operation(backend=BACKEND, name="delete", collection=before + match[3].lower())


class _Body(msgspec.Struct):
    ids: list[str] | None = None
    where: msgspec.Raw = msgspec.Raw(b"null")
    where_document: msgspec.Raw = msgspec.Raw(b"null")
    limit: int | None = None


def of_body(request: Operation, body: bytes, _: object | None) -> Sequence[Deletion]:
    """Raises ValueError and the like. Ids together with a filter are those that may be deleted."""
    content = msgspec.json.decode(body, type=_Body)
    is_narrowed = not {bytes(content.where), bytes(content.where_document)} <= _NOTHING or content.limit is not None
    ids = tuple(map(orjson.dumps, content.ids)) if content.ids else None
    return [Deletion(collection=request.collection, ids=ids, is_certain=ids is not None and not is_narrowed)]
