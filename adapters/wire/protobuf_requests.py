"""The fields of a request message by number.

A field set twice is merged by rules that differ between readers, and a newer server may know an additional field, as MMR once was:
both make a search unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecsieve.adapters.contract import Bounds, Reason, UnsupportedError
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, Span, TooManyFieldsError, fields, text, unsigned

Found = Mapping[int, list[Field]]


def methods(service: str, names: str) -> frozenset[str]:
    """The paths of a gRPC service's methods. ``names``: separated by spaces."""
    return frozenset(f"/{service}/{name}" for name in names.split())


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a message's fields. ``is_choice``: the single ones are a oneof."""

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
    """The fields of that number: messages, text or bytes. Raises UnsupportedError."""
    those = found.get(number, [])
    if any(field.wire != LENGTH for field in those):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return those


def message(found: Found, number: int) -> Field | None:
    """The field of that number: a message, text or bytes; None where it is absent. Raises UnsupportedError."""
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
