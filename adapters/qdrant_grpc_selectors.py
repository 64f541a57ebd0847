"""Which vectors and payload a Qdrant gRPC client asked for, and the fields that widen each selection.

What is added stands behind the client's own bytes and is merged with them by the server: a second ``include`` unites the
names, and replaces an ``enable: false``. Nothing is ever added to an ``enable: true``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.proto_request import Found, Shape, message, messages, number_of, read, text_of
from vecsieve.adapters.proto_wire import Field, length_field, number_field
from vecsieve.adapters.qdrant_payload_keys import askable, check_shown, forced, missing

_ENABLE, _INCLUDE, _EXCLUDE = 1, 2, 3
VECTORS = Shape(frozenset({_ENABLE, _INCLUDE}), is_choice=True)
PAYLOAD = Shape(frozenset({_ENABLE, _INCLUDE, _EXCLUDE}), is_choice=True)

# VectorsSelector.names, PayloadIncludeSelector.fields, PayloadExcludeSelector.fields.
_NAMES = 1
NAMES = Shape(frozenset(), frozenset({_NAMES}))


@dataclass(frozen=True, slots=True)
class Payload:
    """How the payload selection changes: ``asked`` is added to it. ``is_forced``: the whole payload is then ours."""

    asked: tuple[str, ...] = ()
    is_forced: bool = False


def read_vectors(data: bytes, field: Field | None) -> bool | tuple[str, ...]:
    """The client's selection: nothing, everything, or these names. Raises Unsupported."""
    if field is None:
        return False
    found = read(data, field.span, VECTORS)
    named = message(found, _INCLUDE)
    return bool(number_of(data, found, _ENABLE)) if named is None else _names(data, named)


def widen_vectors(number: int, wanted: bool | tuple[str, ...], name: str | None) -> bytes:
    """The selector that also asks for ``name`` (None: for every vector), as field ``number``; b"" where nothing is missing."""
    if wanted is True:
        return b""
    if name is None:
        return length_field(number, number_field(_ENABLE, 1))
    return b"" if wanted is not False and name in wanted else _include(number, (name,))


def plan_payload(data: bytes, field: Field | None, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    """How the payload selection must change so that the top-level keys ``fields`` come along.

    Raises Unsupported where one of ``fields`` could not be had and taken out again exactly. ``optional`` keys come along
    where they can; a selection that names a part of one or hides one costs those keys and nothing else.
    """
    plain = askable(optional, fields)
    found = {} if field is None else read(data, field.span, PAYLOAD)
    if field is not None and not found:  # no selection at all: the server's to refuse
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    if number_of(data, found, _ENABLE):
        return Payload()
    if not found or _ENABLE in found:
        asked = forced(fields, plain)
        return Payload(asked, is_forced=bool(asked))
    if not (fields or plain):
        return Payload()
    try:
        return _plan_chosen(data, found, fields, plain)
    except Unsupported:
        if fields:
            raise
        return Payload()


def widen_payload(number: int, payload: Payload) -> bytes:
    """What the selection must say beside what it says, as field ``number``; b"" where that is nothing."""
    return _include(number, payload.asked) if payload.asked else b""


def _plan_chosen(data: bytes, found: Found, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    included = message(found, _INCLUDE)
    if included is not None:
        return Payload(missing(_names(data, included), fields, optional))
    hidden = message(found, _EXCLUDE)
    check_shown(() if hidden is None else _names(data, hidden), fields)
    return Payload()  # whatever of the optional keys it spares comes by itself


def _names(data: bytes, field: Field) -> tuple[str, ...]:
    return tuple(text_of(data, name) for name in messages(read(data, field.span, NAMES), _NAMES))


def _include(number: int, names: Sequence[str]) -> bytes:
    inside = b"".join(length_field(_NAMES, name.encode()) for name in names)
    return length_field(number, length_field(_INCLUDE, inside))
