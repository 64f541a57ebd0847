"""Single fields of messages, for tests that make what no library writes."""

from __future__ import annotations

from vecsieve.adapters.wire.protobuf import VARINT, encoded


def number_field(number: int, value: int) -> bytes:
    """A varint field. ``value``: unsigned."""
    return encoded(number << 3 | VARINT) + encoded(value)
