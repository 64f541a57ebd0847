"""The fields of a request message, by number, where each of them is known and none stands twice that must not.

A field that is set twice is merged by rules that readers need not share, and a newer server may know a field that this
adapter does not (MMR came that way): both leave the search alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.proto_wire import LENGTH, VARINT, Field, Span, fields, text, unsigned

Found = Mapping[int, list[Field]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a message's fields. ``is_choice``: at most one of the single ones is set, a oneof."""

    single: frozenset[int]
    repeated: frozenset[int] = frozenset()
    is_choice: bool = False


def read(data: bytes, span: Span, shape: Shape) -> Found:
    """The fields of the message that fills ``span``. Raises Unsupported."""
    try:
        walked = fields(data, span)
    except ValueError:
        raise Unsupported(Reason.UNSUPPORTED_FIELD) from None
    found: dict[int, list[Field]] = {}
    for field in walked:
        if field.number in shape.single:
            if field.number in found or (shape.is_choice and found):
                raise Unsupported(Reason.AMBIGUOUS_FIELD)
        elif field.number not in shape.repeated:
            raise Unsupported(Reason.UNSUPPORTED_FIELD)
        found.setdefault(field.number, []).append(field)
    return found


def messages(found: Found, number: int) -> list[Field]:
    """All fields of that number, each of them a message, text or bytes. Raises Unsupported."""
    those = found.get(number, [])
    if any(field.wire != LENGTH for field in those):
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    return those


def message(found: Found, number: int) -> Field | None:
    """The field of that number, a message, text or bytes; None where it is absent. Raises Unsupported."""
    those = messages(found, number)
    return those[0] if those else None


def number_of(data: bytes, found: Found, number: int) -> int | None:
    """The unsigned number in a field; None where it is absent. Raises Unsupported."""
    those = found.get(number)
    if not those:
        return None
    if those[0].wire != VARINT:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    return unsigned(data, those[0])


def text_of(data: bytes, field: Field | None) -> str:
    """The text of a field; "" where it is absent. Raises Unsupported."""
    try:
        return "" if field is None else text(data, field)
    except ValueError:
        raise Unsupported(Reason.UNSUPPORTED_FIELD) from None
