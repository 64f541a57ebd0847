"""A parsed write, and the lines of ``_bulk``: an action, and for most actions a document.

Both servers cut a body at its line feeds, whatever JSON says, and skip empty lines before an action. A body that they might read otherwise is
unsupported. Actions with a condition, a routing or a pipeline are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import orjson

from ..contract import Reason, UnsupportedError
from ..wire.json import Span, string
from ..wire.json_vectors import Shortened
from .schema import Schema

BULK = "bulk"
INDEX, CREATE, UPDATE, DELETE = "index", "create", "update", "delete"
STORING = frozenset({INDEX, CREATE})
_VERBS = STORING | {UPDATE, DELETE}
_PLAIN = frozenset({"_index", "_id"})


@dataclass(frozen=True, slots=True)
class Action:
    """``index``: "" for that of the path. ``id``: JSON, None if the server makes it. ``span``: of its lines; ``source``: of the line of its document, None
    without one. ``is_plain``: nothing but its index and its id is said of it.
    """

    verb: str
    index: str
    id: bytes | None
    span: Span
    source: Span | None
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed write. ``actions``: all of them; ``places``: those of its documents; ``sources``: their objects; ``vectors``: None where one has
    none to compare by.
    """

    source: Shortened
    schema: Schema
    actions: tuple[Action, ...]
    places: tuple[int, ...]
    sources: tuple[Span, ...]
    vectors: tuple[Span | None, ...]


_ACTION = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])


def actions(text: bytes) -> Iterator[Action]:
    """In their order. Raises ValueError, UnsupportedError."""
    start = 0
    while start < len(text):
        end = _end(text, start)
        try:
            ((verb, about),) = _ACTION.decode(text[start:end]).items()
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        if verb not in _VERBS:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        finish = end if verb == DELETE else _end(text, end)
        yield Action(
            verb=verb,
            index=string(bytes(about["_index"])) if "_index" in about else "",
            id=id_of(about.get("_id")),
            span=(start, finish),
            source=None if verb == DELETE else (end, finish),
            is_plain=about.keys() <= _PLAIN,
        )
        start = finish


def collections_in(body: bytes) -> frozenset[str]:
    """The indices of the documents of a batch, without that of the path; without documents those of all actions. Never raises."""
    try:
        listed = list(actions(body))
        documents = [action for action in listed if action.verb in STORING]
        return frozenset([action.index for action in documents or listed])
    except (ValueError, UnsupportedError):
        return frozenset()


def _end(text: bytes, start: int) -> int:
    """Behind the line that begins here. Raises ValueError for a last line without its feed."""
    return text.index(b"\n", start) + 1


def id_of(raw: msgspec.Raw | None) -> bytes | None:
    """The JSON of an id, which is a text for both servers; None if there is none. Raises UnsupportedError."""
    if raw is None or bytes(raw) == b"null":
        return None
    value = json.loads(bytes(raw))
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return orjson.dumps(str(value))
