"""The protobuf wire format: spans of the fields of a message, fields of requests by number, and encoded fields to add.

Messages are never decoded and encoded again, so that unknown fields survive (https://protobuf.dev/programming-guides/encoding).
Groups, which are deprecated, are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    @property
    def whole(self) -> Span:
        """With its tag and length."""
        return self.start, self.end


class TooManyFieldsError(ValueError):
    """A message has more fields than its reader allows."""


def fields(data: bytes, span: Span | None = None, *, most: int = MOST_FIELDS) -> list[Field]:
    """The fields of a message, in the order of the wire. Raises ValueError; TooManyFieldsError for more than ``most``."""
    at, end = (0, len(data)) if span is None else span
    found: list[Field] = []
    for _ in repeat(None, most + 1):  # as fast as an unbounded loop
        if at >= end:
            return found
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
        found.append(_made(Field, (number, wire, start, value, at)))
    raise TooManyFieldsError(f"more than {most} fields before byte {at} of {end}")


def head_fields(data: bytes) -> list[Field]:
    """The fields of a request's outermost message, whose size has not been checked yet."""
    return fields(data, most=HEAD_FIELDS)


def value_at(data: bytes, way: Iterable[int]) -> Span | None:
    """The span of the value at the end of ``way``: in each message the first field with the next number (1 to 15). None if one is absent,
    has another wire type or a longer tag. Raises ValueError.
    """
    at, end = 0, len(data)
    for number in way:
        tag = number << 3 | LENGTH
        while at < end and data[at] != tag:
            other, at = skipped(data, at, end)
            if other == number:
                return None
        if at >= end:
            return None
        size, at = varint(data, at + 1, end)
        if at + size > end:
            raise ValueError(f"field {number} ends at {at + size}, its message at {end}")
        end = at + size
    return at, end


def skipped(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number of the field at ``at``, and its end. Raises ValueError."""
    tag, value = varint(data, at, end)
    wire = tag & 7
    if wire == VARINT:
        stop = varint(data, value, end)[1]
    elif wire == LENGTH:
        size, value = varint(data, value, end)
        stop = value + size
    elif wire in _FIXED:
        stop = value + _FIXED[wire]
    else:
        raise ValueError(f"wire type {wire} at byte {at}")
    if stop > end or tag <= 7:
        raise ValueError(f"field {tag >> 3} at byte {at} ends at {stop}, its message at {end}")
    return tag >> 3, stop


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


def only(found: Iterable[Field], number: int, wire: int) -> Field | None:
    """The only field with that number; None if absent. Raises ValueError for several, or for another wire type."""
    those = [field for field in found if field.number == number]
    if not those:
        return None
    if len(those) > 1 or those[0].wire != wire:
        raise ValueError(f"field {number}: {len(those)} of wire type {those[0].wire}, wanted one of wire type {wire}")
    return those[0]


def unsigned(data: bytes, field: Field) -> int:
    """The value of a varint field, as an unsigned number of 64 bits."""
    return varint(data, field.value, field.end)[0]


def text(data: bytes, field: Field) -> str:
    """The value of a string field. Raises ValueError for bytes that are no UTF-8."""
    return data[field.value : field.end].decode()


def number_field(number: int, value: int) -> bytes:
    """A varint field. ``value``: unsigned."""
    return encoded(number << 3 | VARINT) + encoded(value)


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


def single(data: bytes, span: Span) -> tuple[int, int]:
    """The tag of the only field of a message (a oneof), and the start of its value, which ends with the message. Takes a third of the
    time of `fields`.

    Raises ValueError for an empty message, for several fields, and for a number above 15, whose tag has two bytes.
    """
    start, end = span
    if start >= end:
        raise ValueError(f"the message at byte {start} is empty, wanted one field")
    tag = data[start]
    at, stop = start + 1, start
    wire = tag & 7
    if wire == LENGTH:
        size, at = varint(data, at, end)
        stop = at + size
    elif wire == VARINT:
        stop = varint(data, at, end)[1]
    elif wire == FIXED64:
        stop = at + 8
    if tag > 0x7F or stop != end:
        raise ValueError(f"the message at byte {start} begins with tag {tag} and ends at {end}, wanted one field")
    return tag, at


_KEY, _VALUE = 1, 2
KEY_TAG = _KEY << 3 | LENGTH
_VALUE_TAG = _VALUE << 3 | LENGTH


def entries(data: bytes, spans: Iterable[Span]) -> list[tuple[bytes, Span]]:
    """Key and span of the value of each entry of a map; an empty span for an entry without a value. Raises ValueError.

    An entry with the key before the value, as servers write it, takes a third of the time of any other.
    """
    found: list[tuple[bytes, Span]] = []
    for span in spans:
        at, end = span
        if end - at >= 4 and data[at] == KEY_TAG and data[at + 1] < 0x80:
            stop = at + 2 + data[at + 1]
            if stop + 1 < end and data[stop] == _VALUE_TAG:
                size, value = data[stop + 1], stop + 2
                if size > 0x7F:
                    size, value = varint(data, stop + 1, end)
                if value + size == end:
                    found.append((data[at + 2 : stop], (value, end)))
                    continue
        found.append(_walked(data, span))
    return found


def messages_in(data: bytes, span: Span, number: int) -> list[Span]:
    """The same for the message that fills ``span``, without creating Fields. ``number``: at most 15. Raises ValueError, also for more than
    REPLY_FIELDS.
    """
    wanted, (at, end) = number << 3 | LENGTH, span
    found: list[Span] = []
    for _ in repeat(None, REPLY_FIELDS):
        if at >= end:
            break
        if data[at] == wanted:
            size, value = varint(data, at + 1, end)
            at = value + size
            found.append((value, at))
        else:
            start = at
            other, at = skipped(data, at, end)
            if other == number:
                raise ValueError(f"field {number} at byte {start} is of another wire type, or of a longer tag")
    if at != end:
        raise ValueError(f"fields {number} were read to byte {at}, their message ends at {end}")
    return found


def _walked(data: bytes, span: Span) -> tuple[bytes, Span]:
    end = span[1]
    found = fields(data, span)
    key, inner = only(found, _KEY, LENGTH), only(found, _VALUE, LENGTH)
    return (b"" if key is None else data[key.value : key.end]), (end, end) if inner is None else inner.span


# The fields of a request by number. A field set twice is merged by rules that differ between readers, and a newer server may know an
# additional field, as MMR once was: both make a search unsupported.


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
            found = fields(body, (start, end), most=left)
        except TooManyFieldsError:
            raise UnsupportedError(Reason.TOO_MANY_PARTS) from None
        except ValueError:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
        left -= len(found)
        inside = known[name]
        waiting += [
            (field.value, field.end, inside[field.number])
            for field in found
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
