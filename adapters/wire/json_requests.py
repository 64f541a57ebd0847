"""The members of a request, read with certainty or not at all. Everything here raises UnsupportedError, nothing else.

Rule of this file: null is absent, as the JSON mapping of protobuf has it (Pinecone, Milvus); numbers and switches in
quotes, which that mapping takes as well, are left to the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.wire.json import Members, RepeatedKeyError, Span, check_dimensions, elements, members, string
from vecsieve.adapters.wire.json_vectors import decode_matrix

_INTEGER = re.compile(rb"0|[1-9][0-9]{0,8}")  # the service's are 32 bits wide
_SWITCHES = {b"true": True, b"false": False, b"null": False}


def read_object(text: bytes, span: Span, known: Iterable[str], *, reason: Reason = Reason.UNSUPPORTED_FIELD) -> Members:
    """The members of an object that has none but ``known`` ones. ``reason``: for what is no object."""
    try:
        found = members(text, span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(reason) from None
    if not found.keys() <= set(known):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return found


def spelled_once(found: Members, spellings: Mapping[str, str]) -> dict[str, str]:
    """The name of each member that is present -> the spelling used. ``spellings``: spelling -> name."""
    used: dict[str, str] = {}
    for spelling in found:
        name = spellings[spelling]
        if name in used:
            raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
        used[name] = spelling
    return used


def present(text: bytes, found: Members, name: str | None) -> Span | None:
    """Where a member's value stands; None when it is absent or null."""
    member = None if name is None else found.get(name)
    return None if member is None or text[member.value : member.end] == b"null" else (member.value, member.end)


def required(text: bytes, found: Members, name: str | None) -> Span:
    """As `present`, of a member that must be there."""
    span = present(text, found, name)
    if span is None:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return span


def integer(text: bytes, span: Span) -> int:
    """A plain whole number."""
    value = text[span[0] : span[1]]
    if not _INTEGER.fullmatch(value):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(value)


def switch(text: bytes, span: Span | None) -> bool:
    """True or false; False when absent."""
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
    """Where the elements of a list stand."""
    if text[span[0] : span[0] + 1] != b"[":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    try:
        return elements(text, span)
    except ValueError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None


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


def usable(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
    """A query vector to compare with, or None."""
    return vector if len(vector) and bool(np.isfinite(vector).all()) else None
