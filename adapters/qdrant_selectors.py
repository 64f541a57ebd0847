"""Which vectors and payload a Qdrant client asked for, and how each selection is widened by what selection needs.

Only what is missing is added, and what was added is remembered, so that the reply can be restored point by point.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.json_spans import Span, elements, members, string
from vecsieve.adapters.qdrant_payload_keys import askable, check_shown, forced, missing


@dataclass(frozen=True, slots=True)
class Vectors:
    """The client's vector selector: nothing, everything, or these names."""

    wanted: bool | tuple[str, ...]
    span: Span | None  # where the value stands; None where the member is absent


@dataclass(frozen=True, slots=True)
class Payload:
    """How the payload selection changes.

    ``value``: what the selector must say, None to leave it. ``is_forced``: the whole payload is ours.
    ``added``: these keys of it are ours.
    """

    span: Span | None
    value: bytes | None = None
    is_forced: bool = False
    added: tuple[str, ...] = ()


def read_vectors(text: bytes, span: Span | None) -> Vectors:
    """Read ``with_vector``. Raises Unsupported."""
    value = b"null" if span is None else text[span[0] : span[1]]
    if value in {b"null", b"false"}:
        return Vectors(wanted=False, span=span)
    if value == b"true":
        return Vectors(wanted=True, span=span)
    names = _strings(text, span)
    if names is None:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    return Vectors(wanted=names, span=span)


def widen_vectors(text: bytes, vectors: Vectors, name: str | None) -> bytes | None:
    """The selector that also asks for ``name`` (None: for every vector); None where the client's already does."""
    if vectors.wanted is True:
        return None
    if name is None:
        return b"true"
    if vectors.wanted is False or vectors.span is None:
        return _array([name])
    return None if name in vectors.wanted else _appended(text, vectors.span, [name])


def plan_payload(
    text: bytes, span: Span | None, fields: Sequence[str], optional: Sequence[str] = (), *, may_force: bool = True
) -> Payload:
    """How ``with_payload`` must change so that the top-level keys ``fields`` come along.

    Raises Unsupported where one of ``fields`` could not be had and taken out again exactly. ``optional`` keys come along
    where they can; a selection that names a part of one, hides one or is not understood costs those keys and nothing else.
    ``may_force``: whether they are worth asking for where the client wants no payload at all.
    """
    value = b"null" if span is None else text[span[0] : span[1]]
    if value == b"true":
        return Payload(span)
    plain = askable(optional, fields)
    if value in {b"null", b"false"}:
        wanted = forced(fields, plain if may_force else ())
        return Payload(span, value=_array(wanted), is_forced=True) if wanted else Payload(span)
    if not (fields or plain):
        return Payload(span)
    try:
        return _plan_chosen(text, span, fields, plain)
    except (Unsupported, ValueError):  # ValueError: an object that names a member twice, a key that is no text
        if fields:
            raise
        return Payload(span)


def _plan_chosen(text: bytes, span: Span | None, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    """For a selector that is a list or an object. Raises Unsupported, or ValueError."""
    if span is None or text[span[0]] not in b"[{":
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    if text[span[0]] == ord("["):
        return _plan_include(text, span, fields, optional)
    found = members(text, span)
    if found.keys() == {"include"}:
        return _plan_include(text, (found["include"].value, found["include"].end), fields, optional)
    if found.keys() == {"exclude"}:
        check_shown(_paths(text, (found["exclude"].value, found["exclude"].end)), fields)
        return Payload(span)  # whatever of the optional keys it spares comes by itself
    raise Unsupported(Reason.PAYLOAD_SELECTOR)


def _plan_include(text: bytes, span: Span, fields: Sequence[str], optional: Sequence[str]) -> Payload:
    added = missing(_paths(text, span), fields, optional)
    return Payload(span, value=_appended(text, span, added), added=added) if added else Payload(span)


def _paths(text: bytes, span: Span) -> tuple[str, ...]:
    paths = _strings(text, span)
    if paths is None:
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    return paths


def _strings(text: bytes, span: Span | None) -> tuple[str, ...] | None:
    if span is None or text[span[0] : span[0] + 1] != b"[":
        return None
    try:
        return tuple(string(text[start:end]) for start, end in elements(text, span))
    except ValueError:
        return None


def _array(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()


def _appended(text: bytes, span: Span, names: Sequence[str]) -> bytes:
    """The client's list, its bytes kept, with ``names`` behind."""
    body = text[span[0] : span[1] - 1]
    return body + (b"," if elements(text, span) else b"") + _array(names)[1:]
