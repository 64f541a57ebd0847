"""The hosts in Pinecone's descriptions of indexes, replaced where they stand; every other byte stays.

A description is the whole document or an element of its ``indexes``. Clients dial ``private_host`` before ``host``
(TypeScript 8 and later) or ``host`` alone, so both are looked at. Assistants have a ``host`` as well; theirs are other
documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from vecsieve.adapters.wire.json import Span, elements, members, splice, string, whole, without_surrogates

HOSTS = ("host", "private_host")
INDEXES = "indexes"

_OBJECT, _ARRAY, _STRING = b"{", b"[", b'"'


def renamed(body: bytes, rename: Callable[[str], str | None]) -> bytes:
    """The body with its indexes' hosts renamed. ``rename``: None leaves a host as it is. Total.

    Null and absent hosts stay so; a body that cannot be read with certainty is returned as it is.
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
    """The spans of all hosts that are strings. Raises ValueError."""
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
