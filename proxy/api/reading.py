"""The messages in bodies.

msgspec reads a body in one call, which holds the interpreter and so the loop: 2.4 ms a megabyte, most of it to skip embeddings. Those of a
large body are set aside first, one by one, and what remains is read in a moment. They come back as the raw values that they were.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from vecsieve.adapters.wire.json_vectors import guess_numbers
from vecsieve.proxy.api.problems import Kind, ProblemError

# Objects of one body. Each costs a third of a microsecond when it is read, in a call that holds the interpreter.
MOST_OBJECTS = 50_000
# A body of this size is read in 2.4 ms.
ASIDE_BYTES = 1 << 20
_MARK = b"[-0.0e-"  # of the numbers that stand for what is set aside; a body that has it is read as it is
Message = TypeVar("Message")


def decoded(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message:
    """The message in a body. Raises ProblemError."""
    message = _read_aside(decoder, body) if len(body) > ASIDE_BYTES else None
    return _decoded(decoder, body) if message is None else message


def _read_aside(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message | None:
    """The message, read with its arrays of numbers set aside; None where one of them is no raw value of the message: then it may be part
    of a text, or of another value. And None for a body that cannot be read: the words are about the body as it came.
    """
    if _MARK in body:
        return None
    pieces: list[bytes] = []
    aside: dict[bytes, Raw] = {}
    at = 0
    for start, end in guess_numbers(body):
        stand_in = b"%b%d]" % (_MARK, len(aside))
        aside[stand_in] = Raw(body[start:end])
        pieces += (body[at:start], stand_in)
        at = end
    pieces.append(body[at:])
    try:
        message = _decoded(decoder, b"".join(pieces))
    except ProblemError:
        return None
    _restore(message, aside)
    return None if aside else message


def _restore(value: object, aside: dict[bytes, Raw]) -> None:
    """Put back what was set aside, and take it out of ``aside``."""
    if isinstance(value, list):
        for each in value:
            _restore(each, aside)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            found = getattr(value, name)
            if not isinstance(found, Raw):
                _restore(found, aside)
            elif (whole := aside.pop(bytes(found), None)) is not None:
                force_setattr(value, name, whole)


def _decoded(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message:
    """Raises ProblemError: msgspec's words say what was seen, wanted and where."""
    if body.count(b"{") > MOST_OBJECTS:  # texts may have braces too, but before a quote only as {\\"
        packed = body.translate(None, b" \t\r\n")
        if packed.count(b'{"') + packed.count(b"{}") > MOST_OBJECTS:
            raise ProblemError(Kind.TOO_LARGE, "the body has too many objects", wanted=f"{MOST_OBJECTS} at most")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        words, _, where = str(error).partition(" - at `")
        words = words.replace("`float", "`number")
        raise ProblemError(Kind.INVALID, words, where=where.rstrip("`") or "$") from None
    except RecursionError:
        raise ProblemError(Kind.INVALID, "the body is nested too deeply", where="$") from None
    except ValueError as error:  # msgspec.DecodeError and UnicodeDecodeError
        raise ProblemError(Kind.INVALID, f"the body is not JSON: {error}", where="$", wanted="a JSON object") from None
