"""The protobuf wire format: spans of the fields of a message, fields of requests by number, and encoded fields to add.

Messages are never decoded and encoded again, so that unknown fields survive (https://protobuf.dev/programming-guides/encoding).
Groups, which are deprecated, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import NamedTuple

from ..contract import Bounds, Reason, UnsupportedError

Span = tuple[int, int]

VARINT = 0
FIXED64 = 1
LENGTH = 2
FIXED32 = 5

# Makes a Field without NamedTuple's own function call: a quarter of its time.
_made = tuple.__new__

# Entries of all payloads of a reply, or fields of one of its messages: parsed in 30 ms. A thousand candidates have 32 keys each.
REPLY_FIELDS = 32_768
# Fields of any message that is walked: 40 ms and 10 MB. A larger one is none that any client or server writes.
MOST_FIELDS = 2 * REPLY_FIELDS
# A larger message is counted before it is parsed, because a message in it may take fifty times its bytes.
UNCOUNTED_BYTES = 1 << 20
# Parsed in 5 ms. A message with more fields is no supported search.
HEAD_FIELDS = 16_384

_LONGEST_VARINT = 10  # bytes of 64 bits, seven each
_FIXED = {FIXED64: 8, FIXED32: 4}


class Field(NamedTuple):
    """Offsets of a field: of its tag, of its value after any length, and of its end."""

    number: int
    wire: int
    start: int
    value: int
    end: int

    @property
    def span(self) -> Span:
        """Of its value."""
        return self.value, self.end


class TooManyFieldsError(ValueError):
    """A message has more fields than its reader allows."""


def fields(data: bytes, span: Span | None = None, *, most: int = MOST_FIELDS) -> list[Field]:
    """The fields of a message, in the order of the wire. Raises ValueError; TooManyFieldsError for more than ``most``."""
    at, end = (0, len(data)) if span is None else span
    read: list[Field] = []
    for _ in repeat(None, most + 1):  # as fast as an unbounded loop
        if at >= end:
            return read
        start = at
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = varint(data, start, end)
        wire, number = tag & 7, tag >> 3
        # Lengths of one byte are read inline: a call for each takes a fifth of the time.
        if wire == LENGTH:
            if at < end and (size := data[at]) < 0x80:
                value = at + 1
            else:
                size, value = varint(data, at, end)
            at = value + size
        elif wire == VARINT:
            value = at
            if at < end and data[at] < 0x80:
                at += 1
            else:
                _, at = varint(data, at, end)
        elif wire in _FIXED:
            value, at = at, at + _FIXED[wire]
        else:
            raise ValueError(f"wire type {wire} at byte {start}")
        if at > end or not number:
            raise ValueError(f"field {number} at byte {start} ends at {at}, its message at {end}")
        read.append(_made(Field, (number, wire, start, value, at)))
    raise TooManyFieldsError(f"more than {most} fields before byte {at} of {end}")


def text_at(data: bytes, *way: int) -> str:
    """The text at the end of ``way``: in each message the first field with the next number. "" if one is absent or cannot be read, and if the
    text is set twice, because readers differ in which counts.
    """
    span, those = (0, len(data)), list[Field]()
    try:
        for number in way:
            those = [field for field in fields(data, span, most=HEAD_FIELDS) if field.number == number]
            if not those or those[0].wire != LENGTH:
                return ""
            span = those[0].span
        return data[slice(*span)].decode() if len(those) == 1 else ""
    except ValueError:
        return ""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at ``at``, and its end. Raises ValueError."""
    # One or two bytes, as in most lengths, without a loop.
    if at < end and (first := data[at]) < 0x80:
        return first, at + 1
    if at + 1 < end and (second := data[at + 1]) < 0x80:
        return (second - 1 << 7) + first, at + 2
    return _long_varint(data, at, end)


def _long_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    start, last = at, min(end, at + _LONGEST_VARINT)
    while at < last:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return (value | byte << shift) & 0xFFFF_FFFF_FFFF_FFFF, at
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ValueError(f"no end of the number at byte {start}")


def length_field(number: int, payload: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return encoded(number << 3 | LENGTH) + encoded(len(payload)) + payload


def encoded(value: int) -> bytes:
    """An unsigned number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def methods(service: str, names: str) -> frozenset[str]:
    """The paths of a gRPC service's methods. ``names``: separated by spaces."""
    return frozenset(f"/{service}/{name}" for name in names.split())


Messages = Mapping[str, Mapping[int, str]]
"""The messages that an adapter parses: name -> number of a field -> name of the message in it."""


def check_size(body: bytes, root: str, known: Messages, bounds: Bounds) -> None:
    """Count the fields of a message, and of those in it, in linear time. Raises UnsupportedError for more than the bounds allow."""
    if len(body) <= 2 * bounds.parts:  # a field has a tag and at least one more byte
        return
    left = bounds.parts
    waiting = [(0, len(body), root)]
    while waiting:
        start, end, name = waiting.pop()
        try:
            parts = fields(body, (start, end), most=left)
        except TooManyFieldsError:
            raise UnsupportedError(Reason.TOO_MANY_PARTS) from None
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
        left -= len(parts)
        inside = known[name]
        waiting += [
            (field.value, field.end, inside[field.number])
            for field in parts
            if field.number in inside and field.wire == LENGTH
        ]


_PARTS = Bounds(searches=0, parts=MOST_FIELDS, nesting=0)


def check_count(body: bytes, root: str, known: Messages) -> None:
    """``check_size`` of a large message that is no search. Raises ValueError for more than MOST_FIELDS fields."""
    if len(body) > UNCOUNTED_BYTES:
        try:
            check_size(body, root, known, _PARTS)
        except UnsupportedError as error:
            raise ValueError(f"a message of {len(body)} bytes: {error.reason.value}") from None
