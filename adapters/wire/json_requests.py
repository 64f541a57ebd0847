"""Typed members of a request. All functions raise UnsupportedError, nothing else.

Null counts as absent, as in the JSON mapping of protobuf (Pinecone, Milvus). Numbers and booleans in quotes, which that mapping
also accepts, are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import orjson

from ..contract import Reason, UnsupportedError
from .json import Members, RepeatedKeyError, Span, check_dimensions, elements, members_of, string
from .json_vectors import Edit, decode_matrix

_INTEGER = re.compile(rb"0|[1-9][0-9]{0,8}")  # servers read 32 bits
_SWITCHES = {b"true": True, b"false": False, b"null": False}


def read_object(
    text: bytes, span: Span, known: Iterable[str] | None = None, *, reason: Reason = Reason.UNSUPPORTED_FIELD
) -> Members:
    """The members of an object, with ``known`` keys only where they are given. ``reason``: of the error for any other value."""
    try:
        members = members_of(text, span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(reason) from None
    if known is not None and not members.keys() <= set(known):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return members


def spelled_once(members: Members, spellings: Mapping[str, str]) -> dict[str, str]:
    """Name -> spelling used, of the members present. ``spellings``: spelling -> name."""
    used: dict[str, str] = {}
    for spelling in members:
        name = spellings[spelling]
        if name in used:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
        used[name] = spelling
    return used


def present(text: bytes, members: Members, name: str | None) -> Span | None:
    """The span of a member's value; None when it is absent or null."""
    member = None if name is None else members.get(name)
    return None if member is None or text[member.value : member.end] == b"null" else (member.value, member.end)


def required(text: bytes, members: Members, name: str | None) -> Span:
    """As `present`; an absent member is an error."""
    span = present(text, members, name)
    if span is None:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return span


def integer(text: bytes, span: Span) -> int:
    """A non-negative integer below 10⁹."""
    value = text[span[0] : span[1]]
    if not _INTEGER.fullmatch(value):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(value)


def switch(text: bytes, span: Span | None) -> bool:
    """A boolean; False when absent."""
    value = b"null" if span is None else text[span[0] : span[1]]
    if value not in _SWITCHES:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return _SWITCHES[value]


def text_of(text: bytes, span: Span | None) -> str:
    """A string; "" when absent."""
    if span is None:
        return ""
    try:
        return string(text[span[0] : span[1]])
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def items_of(text: bytes, span: Span) -> list[Span]:
    """The spans of the elements of a list."""
    if text[span[0] : span[0] + 1] != b"[":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    try:
        return elements(text, span)
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


def one_or_more(text: bytes, members: Members, name: str | None) -> list[Span]:
    """The elements of a member that is a list, or its only value; none when absent."""
    span = present(text, members, name)
    if span is None:
        return []
    return items_of(text, span) if text[span[0] : span[0] + 1] == b"[" else [span]


def texts_of(text: bytes, span: Span) -> tuple[str, ...]:
    """A list of strings."""
    return tuple(text_of(text, item) for item in items_of(text, span))


def vector_of(text: bytes, span: Span | None) -> npt.NDArray[np.float32]:
    """(d,) float32; d is 0 when absent. NaN where a number is beyond float32."""
    if span is None:
        return np.zeros(0, dtype=np.float32)
    check_dimensions(text, *span)
    rows, proven = decode_matrix([text[span[0] : span[1]]])
    if not proven[0]:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    row: npt.NDArray[np.float32] = rows[0]
    return row


def member_edit(text: bytes, span: Span, name: str, value: bytes) -> Edit:
    """Give the object that fills ``span`` this member, replacing an existing one; any other value is replaced by an object with it."""
    added = b"%s:%s" % (orjson.dumps(name), value)
    if text[span[0] : span[0] + 1] != b"{":
        return (*span, b"{%s}" % added)
    try:
        members = members_of(text, span)
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    if name in members:
        return members[name].value, members[name].end, value
    return span[1] - 1, span[1] - 1, (b"," if members else b"") + added
