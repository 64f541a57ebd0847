"""How many fields of a protobuf request there are to read, counted in linear time before it is parsed.

Only messages are entered that a reader of requests enters as well. Each adapter says which those are, by name and number.
"""

from __future__ import annotations

from collections.abc import Mapping

from vecsieve.adapters.contract import Bounds, Reason, Unsupported
from vecsieve.adapters.proto_wire import LENGTH, TooManyFields, fields

Messages = Mapping[str, Mapping[int, str]]
"""Name of a message -> number of a field -> name of the message in it. A message without fields to enter has none."""


def check_size(body: bytes, root: str, known: Messages, bounds: Bounds) -> None:
    """Raises Unsupported for a message with more fields than the bounds allow. What is no message is left to the reader."""
    if len(body) <= 2 * bounds.parts:  # a field has a tag and at least one more byte
        return
    left = bounds.parts
    waiting = [(0, len(body), root)]
    while waiting:
        start, end, name = waiting.pop()
        try:
            found = fields(body, (start, end), most=left)
        except TooManyFields:
            raise Unsupported(Reason.TOO_MANY_PARTS) from None
        except ValueError:
            raise Unsupported(Reason.UNSUPPORTED_FIELD) from None
        left -= len(found)
        inside = known[name]
        waiting += [
            (field.value, field.end, inside[field.number])
            for field in found
            if field.number in inside and field.wire == LENGTH
        ]
