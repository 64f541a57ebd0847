"""Messages read from bodies, and errors of the API: problem documents (RFC 9457), which say what was seen, what was wanted and where.

msgspec reads a body in one call, which holds the interpreter and so the loop: 2.4 ms a megabyte, most of it to skip embeddings. Those of a
large body are set aside first, one by one, and what remains is read in a moment. They come back as the raw values that they were.
"""

from __future__ import annotations

from enum import Enum
from http import HTTPStatus
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from vecsieve.adapters.base import RestDialect
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.adapters.wire.json_vectors import guess_numbers

CONTENT_TYPE = "application/problem+json"
# A type is the address of its explanation, as RFC 9457 3.1.1 recommends.
PAGE = "https://github.com/vecsieve/vecsieve/blob/main/docs/api.md#"


class Kind(Enum):
    """The problems that may be answered: the last part of their type, status and title."""

    INVALID = ("invalid-request", 400, "The request is not valid")
    NO_TOKEN = ("token-needed", 401, "A token is needed")
    FOREIGN_HOST = ("foreign-host", 403, "The request names another machine")
    NOT_FOUND = ("not-found", 404, "There is no such endpoint")
    NO_COLLECTION = ("no-collection", 404, "There is no such collection")
    METHOD = ("method-not-allowed", 405, "The endpoint has no such method")
    NOT_ACCEPTABLE = ("not-acceptable", 406, "The answer has no such form")
    LATE = ("late-request", 408, "The request did not arrive in time")
    TOO_LARGE = ("too-large", 413, "The request is too large")
    MEDIA_TYPE = ("media-type", 415, "The body has no such form")
    COPIES = ("copies", 409, "The points are copies, and such are rejected")
    DECLINED = ("declined", 422, "The database refused")
    NO_DATABASE = ("no-database", 502, "The database did not answer")
    FAILED = ("failed", 500, "VecSieve failed")
    BUSY = ("busy", 503, "Too much work is in flight")

    @property
    def status(self) -> int:
        return self.value[1]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why there is no answer. `where` is a path into the request such as `$.chunks[3].text`."""

    type: str
    title: str
    status: int
    detail: str
    where: str | None = None
    saw: str | None = None
    wanted: str | None = None


class ProblemError(Exception):
    """A request that is answered with a problem. ``fields``: of the answer's head."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        where: str | None = None,
        saw: str | None = None,
        wanted: str | None = None,
        fields: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.fields = fields
        name, status, title = kind.value
        self.problem = Problem(
            type=PAGE + name, title=title, status=status, detail=detail, where=where, saw=saw, wanted=wanted
        )

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.problem) + b"\n"


def invalid(where: str, saw: str, wanted: str) -> ProblemError:
    """A member of the request that cannot be used."""
    return ProblemError(Kind.INVALID, f"{where}: saw {saw}, wanted {wanted}", where=where, saw=saw, wanted=wanted)


# Marks a float that must be whole, which the published document calls an integer.
WHOLE = "x-whole"


class ProblemDialect(RestDialect):
    """Errors of the connection itself, such as a malformed head, as problems without a page of their own."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """A problem whose type says no more than its status (RFC 9457 4.2.1)."""
        problem = Problem(type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=message)
        return NativeAnswer(status=status, content_type=CONTENT_TYPE, body=msgspec.json.encode(problem) + b"\n")


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
