"""Routing rules: paths of indexes and of the control plane, and hosts in descriptions of indexes, replaced in place.

A description is the whole document or an element of its ``indexes``. Clients connect to ``private_host`` before ``host`` (TypeScript 8
and later) or to ``host``, so both are replaced. All other bytes stay. Assistants have a ``host`` too, in other documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from vecsieve.adapters.contract import IndexRules
from vecsieve.adapters.pinecone.calls import OF_AN_INDEX, is_of_the_control_plane
from vecsieve.adapters.wire.json import Span, elements, members, splice, string, whole, without_surrogates

HOSTS = ("host", "private_host")
INDEXES = "indexes"

# list, create; describe, configure, create-for-model. A deletion has an empty answer.
_DESCRIBING = re.compile(r"/+indexes(/[^/]+)?/?")
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT"})
# The last segments of an index's paths.
_ENDINGS = re.compile(r"/(?:query|describe_index_stats|vectors/[a-z_]+|records/namespaces/[^/]*/[a-z]+)/?\Z")
_OBJECT, _ARRAY, _STRING = b"{", b"[", b'"'


def renamed(body: bytes, rename: Callable[[str], str | None]) -> bytes:
    """The body with the hosts of its indexes replaced; ``rename`` gives None for a host that stays. A body that cannot be parsed
    unambiguously is returned unchanged. Never raises.
    """
    text = without_surrogates(body)
    try:
        spans = list(_hosts(text))
        edits = [(start, end, _renamed(body[start:end], rename)) for start, end in spans]
    except ValueError:
        return body
    return splice(body, edits)


def _renamed(host: bytes, rename: Callable[[str], str | None]) -> bytes:
    new = rename(string(host))
    return host if new is None else json.dumps(new).encode()


def _hosts(text: bytes) -> Iterator[Span]:
    """The spans of the hosts that are strings. Raises ValueError."""
    span = whole(text)
    if text[span[0] : span[0] + 1] != _OBJECT:
        return
    yield from _of_one(text, span)
    listed = members(text, span).get(INDEXES)
    if listed is None or text[listed.value : listed.value + 1] != _ARRAY:
        return
    for start, end in elements(text, (listed.value, listed.end)):
        if text[start : start + 1] == _OBJECT:
            yield from _of_one(text, (start, end))


def _of_one(text: bytes, span: Span) -> Iterator[Span]:
    found = members(text, span)
    for name in HOSTS:
        member = found.get(name)
        if member is not None and text[member.value : member.value + 1] == _STRING:
            yield member.value, member.end


def _is_misplaced(path: str) -> bool:
    first = path.lstrip("/").partition("/")[0]
    return first not in OF_AN_INDEX and not is_of_the_control_plane(path) and _ENDINGS.search(path) is not None


def _describes(method: str, path: str) -> bool:
    return method in _METHODS and _DESCRIBING.fullmatch(path) is not None


RULES = IndexRules(segments=OF_AN_INDEX, is_misplaced=_is_misplaced, describes=_describes, rename=renamed)
