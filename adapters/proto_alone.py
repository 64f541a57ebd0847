"""A message of exactly one field, as a oneof is: read at once, without walking it (a third of the time)."""

from __future__ import annotations

from vecsieve.adapters.proto_wire import FIXED64, LENGTH, VARINT, Span, varint


def held(data: bytes, span: Span) -> tuple[int, int]:
    """The tag of the one field that fills ``span``, and where what it holds begins; it ends where the message does.

    Raises ValueError for an empty message, for more than one field, and for a field numbered above 15, whose tag is
    longer than one byte.
    """
    start, end = span
    if start >= end:
        raise ValueError(f"the message at byte {start} is empty, wanted one field")
    tag = data[start]
    at, behind = start + 1, start
    wire = tag & 7
    if wire == LENGTH:
        size, at = varint(data, at, end)
        behind = at + size
    elif wire == VARINT:
        behind = varint(data, at, end)[1]
    elif wire == FIXED64:
        behind = at + 8
    if tag > 0x7F or behind != end:
        raise ValueError(f"the message at byte {start} begins with tag {tag} and ends at {end}, wanted one field")
    return tag, at
