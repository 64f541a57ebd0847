"""The fields of a request message, by number, where each of them is known and none stands twice that must not.

A field that is set twice is merged by rules that readers need not share, and a newer server may know a field that this
adapter does not (MMR came that way): both leave the search alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecsieve.adapters.contract import Bounds, Reason, UnsupportedError
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, Span, TooManyFieldsError, fields, text, unsigned

Found = Mapping[int, list[Field]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a message's fields. ``is_choice``: at most one of the single ones is set, a oneof."""

    single: frozenset[int]
    repeated: frozenset[int] = frozenset()
    is_choice: bool = False


def read(data: bytes, span: Span, shape: Shape) -> Found:
    """The fields of the message that fills ``span``. Raises UnsupportedError."""
    try:
        walked = fields(data, span)
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    found: dict[int, list[Field]] = {}
    for field in walked:
        if field.number in shape.single:
            if field.number in found or (shape.is_choice and found):
                raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
        elif field.number not in shape.repeated:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        found.setdefault(field.number, []).append(field)
    return found


def messages(found: Found, number: int) -> list[Field]:
    """All fields of that number, each of them a message, text or bytes. Raises UnsupportedError."""
    those = found.get(number, [])
    if any(field.wire != LENGTH for field in those):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return those


def message(found: Found, number: int) -> Field | None:
    """The field of that number, a message, text or bytes; None where it is absent. Raises UnsupportedError."""
    those = messages(found, number)
    return those[0] if those else None


def number_of(data: bytes, found: Found, number: int) -> int | None:
    """The unsigned number in a field; None where it is absent. Raises UnsupportedError."""
    those = found.get(number)
    if not those:
        return None
    if those[0].wire != VARINT:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return unsigned(data, those[0])


def text_of(data: bytes, field: Field | None) -> str:
    """The text of a field; "" where it is absent. Raises UnsupportedError."""
    try:
        return "" if field is None else text(data, field)
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


# How many fields of a protobuf request there are to read, counted in linear time before it is parsed.
#
# Only messages are entered that a reader of requests enters as well. Each adapter says which those are, by name and number.

Messages = Mapping[str, Mapping[int, str]]
"""Name of a message -> number of a field -> name of the message in it. A message without fields to enter has none."""


def check_size(body: bytes, root: str, known: Messages, bounds: Bounds) -> None:
    """Raises UnsupportedError for a message with more fields than the bounds allow. What is no message is left to the reader."""
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
