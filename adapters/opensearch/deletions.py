"""Which requests delete documents, and which ones: by id, in a batch, by a query, all of an index; and scripts, which may delete what they change.

The journal has an index by its own name. Where the description does not show it, as for a pattern or an alias of several, a deletion may concern any
index. A deletion with a condition or a routing may not be carried out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

import orjson

from ..contract import Operation, RequestHead
from ..writes import Deletion
from . import bulk, calls
from .bulk import DELETE, STORING
from .schema import Schema
from .write import BULK

_GONE, _MATCHING, _SCRIPT, _ANY = "gone", "matching", "script", "any"
_NAME, _ID = r"/(?P<name>[^/_][^/]*)", r"/(?P<id>[^/]+)"
_REQUESTS = tuple(
    (frozenset(methods.split()), name, re.compile(path))
    for methods, name, path in (
        ("DELETE", DELETE, rf"{_NAME}/_doc{_ID}"),
        ("POST PUT", BULK, rf"(?:{_NAME})?/_bulk"),
        ("POST", _MATCHING, rf"{_NAME}/_delete_by_query"),
        ("POST", _SCRIPT, rf"{_NAME}/_update(?:_by_query|{_ID})"),
        ("DELETE", _GONE, _NAME),
        ("DELETE", _ANY, r"/_all|/_data_stream/[^/]+"),
        ("POST", _ANY, r"/_snapshot/[^/]+/[^/]+/_restore|/_aliases"),
    )
)
# By which a script deletes what it would change.
_CONTEXT = b"ctx"
_REMOVES_INDEX = b"remove_index"
_HARMLESS = frozenset({"refresh", "timeout", "wait_for_active_shards", "error_trace", "pretty", "human", "filter_path"})


def over_rest(head: RequestHead) -> Operation | None:
    """Never raises. ``partition``: the id of a document; ``query``: the query string."""
    for methods, name, path in _REQUESTS:
        if head.method in methods and (match := path.fullmatch(head.path)):
            found = match.groupdict()
            index, identifier = calls.index_named(found.get("name")), calls.decoded(found.get("id") or "")
            if index is None or identifier is None:
                return None
            return Operation(
                backend=calls.OPENSEARCH, name=name, collection=index, partition=identifier, query=head.query
            )
    return None


def of_body(request: Operation, body: bytes, known: object | None) -> Sequence[Deletion]:
    """Raises ValueError and the like."""
    index = known.index if isinstance(known, Schema) else None
    if request.name == BULK:
        return list(_of_batch(request, body, index))
    if request.name == _ANY:
        is_harmless = request.query is not None and b'"actions"' in body and _REMOVES_INDEX not in body
        return [] if is_harmless else [Deletion(collection=None, is_certain=False)]
    if request.name == _SCRIPT and _CONTEXT not in body:
        return []
    ids = (orjson.dumps(request.partition),) if request.partition else None
    is_plain = {name for name, _ in parse_qsl(request.query or "", keep_blank_values=True)} <= _HARMLESS
    is_certain = index is not None and is_plain and request.name in {DELETE, _GONE}
    return [Deletion(collection=index, ids=ids, is_certain=is_certain)]


def _of_batch(request: Operation, body: bytes, index: str | None) -> Sequence[Deletion]:
    """Deletions, and updates by a script. ``index``: that of the path, or of the documents beside them."""
    actions = list(bulk.actions(body))
    named = request.collection or next((action.index for action in actions if action.verb in STORING), "")
    found: list[Deletion] = []
    for action in actions:
        is_script = action.source is not None and _CONTEXT in body[slice(*action.source)]
        if action.verb in STORING or not (action.verb == DELETE or is_script):
            continue
        place = index if (action.index or request.collection) == named else None
        is_certain = place is not None and action.is_plain and action.verb == DELETE
        ids = None if action.id is None else (action.id,)
        found.append(Deletion(collection=place, ids=ids, is_certain=is_certain))
    return found
