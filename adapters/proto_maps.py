"""The entries of a protobuf map: on the wire a repeated message of a key and a value."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from vecsieve.adapters.proto_wire import LENGTH, REPLY_FIELDS, Field, Span, fields, only, skipped, varint

_KEY, _VALUE = 1, 2
_KEY_TAG = _KEY << 3 | LENGTH
_VALUE_TAG = _VALUE << 3 | LENGTH


def entries(data: bytes, spans: Iterable[Span]) -> list[tuple[bytes, Span]]:
    """The key of each of a map's entries, and where its value stands (an empty span where it has none). Raises ValueError.

    Servers write the key, then the value; such an entry is proven without walking it (a third of the time).
    """
    found: list[tuple[bytes, Span]] = []
    for span in spans:
        at, end = span
        # A length below 128 is one byte.
        if end - at >= 4 and data[at] == _KEY_TAG and data[at + 1] < 0x80:
            behind = at + 2 + data[at + 1]
            if behind + 1 < end and data[behind] == _VALUE_TAG:
                size, value = data[behind + 1], behind + 2
                if size > 0x7F:
                    size, value = varint(data, behind + 1, end)
                if value + size == end:
                    found.append((data[at + 2 : behind], (value, end)))
                    continue
        found.append(_walked(data, span))
    return found


def key_of(data: bytes, span: Span) -> bytes:
    """The key of the entry that fills ``span``. Raises ValueError."""
    return entries(data, (span,))[0][0]


def messages(found: Iterable[Field], number: int) -> list[Span]:
    """What the fields of that number hold. Raises ValueError where one is no message."""
    those = [field for field in found if field.number == number]
    for field in those:
        if field.wire != LENGTH:
            raise ValueError(f"field {number} at byte {field.start} is of wire type {field.wire}, wanted a message")
    return [field.span for field in those]


def messages_in(data: bytes, span: Span, number: int) -> list[Span]:
    """The same of the message that fills ``span``, without a value for every field, and of not too many fields. ``number``: at most 15.
    Raises ValueError.
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
