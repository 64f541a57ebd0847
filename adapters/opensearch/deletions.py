"""Which requests delete documents, and which ones: by id, in a batch, by a query, all of an index; and scripts, which may delete what they change.

The journal has an index by its own name. Where the description does not show it, as for a pattern or an alias of several, a deletion may concern any
index. A deletion with a condition or a routing may not be carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl

import orjson

from ..contract import Operation, RequestHead
from ..writes import Deletion
from . import bulk, calls
from .bulk import BULK, DELETE, STORING
from .schema import Schema

_GONE, _MATCHING, _SCRIPT, _ALIASES, _ANY = "gone", "matching", "script", "aliases", "any"
_NAME, _ID = r"/(?P<name>[^/_][^/]*)", r"/(?P<id>[^/]+)"
_REQUESTS = tuple(
    (frozenset(methods.split()), name, re.compile(path))
    for methods, name, path in (
        ("DELETE", DELETE, rf"{_NAME}/_doc{_ID}"),
        ("POST PUT", BULK, rf"(?:{_NAME})?/_bulk"),
        ("POST", _MATCHING, rf"{_NAME}/_delete_by_query"),
        ("POST", _SCRIPT, rf"{_NAME}/_update(?:_by_query|{_ID})"),
        ("DELETE", _GONE, _NAME),
        ("POST", _ALIASES, r"/_aliases"),
        ("DELETE", _ANY, r"/_all|/_data_stream/[^/]+"),
        ("POST", _ANY, r"/_snapshot/[^/]+/[^/]+/_restore"),
    )
)
# A script deletes what it would change by this word, unless it is stored under an id.
_SCRIPTED, _DELETES = b'"script"', re.compile(rb'delete|"id"')
_HARMLESS = frozenset({"refresh", "timeout", "wait_for_active_shards", "error_trace", "pretty", "human", "filter_path"})


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises. ``partition``: the id of a document; ``query``: the query string."""
    for methods, name, path in _REQUESTS:
        if head.method in methods and (match := path.fullmatch(head.path)):
            parts = match.groupdict()
            index, identifier = calls.index_named(parts.get("name")), calls.decoded(parts.get("id") or "")
            if index is None or identifier is None:
                return None
            return Operation(
                backend=calls.OPENSEARCH, name=name, collection=index, partition=identifier, query=head.query
            )
    return None


def of_body(request: Operation, body: bytes, known: object | None) -> Sequence[Deletion]:
    """Raises ValueError and the like."""
    index = known.index if isinstance(known, Schema) else None
    unknown = Deletion(collection=index, is_certain=False)
    if request.name == BULK:
        return list(_of_batch(request, body, index))
    if request.name == _GONE:  # by its own name; a pattern may be one of any
        names = request.collection.split(",")
        return [unknown if calls.PATTERN & {*name} else Deletion(collection=name) for name in names]
    if (request.name == _ALIASES and b"remove_index" not in body) or (
        request.name == _SCRIPT and not _may_delete(body)
    ):
        return []
    ids = (orjson.dumps(request.partition),) if request.partition else None
    is_plain = {name for name, _ in parse_qsl(request.query or "", keep_blank_values=True)} <= _HARMLESS
    is_certain = index is not None and is_plain and request.name == DELETE
    return [replace(unknown, ids=ids, is_certain=is_certain)]


def _may_delete(body: bytes) -> bool:
    return _SCRIPTED in body and _DELETES.search(body) is not None


def _of_batch(request: Operation, body: bytes, index: str | None) -> Iterator[Deletion]:
    """Deletions, and updates by a script. ``index``: that of the path, or of all documents."""
    named = {request.collection} if request.collection else bulk.collections_in(body)
    for action in bulk.actions(body):
        is_deletion = action.verb == DELETE
        if not is_deletion and (action.verb in STORING or not _may_delete(body[slice(*action.source or (0, 0))])):
            continue
        place = index if named == {action.index or request.collection} else None
        ids = None if action.id is None else (action.id,)
        is_certain = place is not None and action.is_plain and is_deletion
        yield Deletion(collection=place, ids=ids, is_certain=is_certain)
