"""The entries of a protobuf map: on the wire a repeated message of a key and a value."""

from __future__ import annotations

from vecsieve.adapters.proto_wire import LENGTH, Field, Span, fields, only, varint

_KEY, _VALUE = 1, 2
_KEY_TAG = _KEY << 3 | LENGTH
_VALUE_TAG = _VALUE << 3 | LENGTH


def entry(data: bytes, field: Field) -> tuple[bytes, Span]:
    """The key of a map's entry, and where its value stands (an empty span where it has none). Raises ValueError.

    Servers write the key, then the value; such an entry is proven without walking it (a third of the time).
    """
    if field.wire != LENGTH:
        raise ValueError(f"map entry at byte {field.start} is of wire type {field.wire}")
    at, end = field.span
    # A length below 128 is one byte.
    if end - at >= 4 and data[at] == _KEY_TAG and data[at + 1] < 0x80:
        behind = at + 2 + data[at + 1]
        if behind + 1 < end and data[behind] == _VALUE_TAG:
            size, value = data[behind + 1], behind + 2
            if size > 0x7F:
                size, value = varint(data, behind + 1, end)
            if value + size == end:
                return data[at + 2 : behind], (value, end)
    found = fields(data, field.span)
    key, inner = only(found, _KEY, LENGTH), only(found, _VALUE, LENGTH)
    return (b"" if key is None else data[key.value : key.end]), (end, end) if inner is None else inner.span
