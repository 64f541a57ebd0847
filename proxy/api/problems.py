"""Decodes request bodies. Errors of the API are problem documents (RFC 9457): what was seen, what was wanted, and where.

msgspec decodes a body in one call, which blocks the interpreter and so the loop for 2.4 ms per megabyte, most of it for embeddings. So
the embeddings of a large body are first replaced by short stand-ins, one by one. The rest is decoded quickly. Then the raw embeddings
are put back.
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
# A problem type is the URL of its explanation, as RFC 9457 3.1.1 recommends.
PAGE = "https://github.com/vecsieve/vecsieve/blob/main/docs/api.md#"


class Kind(Enum):
    """The possible problems: the last part of the type, the status, and the title."""

    INVALID = ("invalid-request", 400, "The request is not valid")
    NO_TOKEN = ("token-needed", 401, "A token is needed")
    FOREIGN_HOST = ("foreign-host", 403, "The request names another machine, or comes from another site")
    NOT_FOUND = ("not-found", 404, "There is no such endpoint")
    NO_COLLECTION = ("no-collection", 404, "There is no such collection")
    METHOD = ("method-not-allowed", 405, "The endpoint has no such method")
    NOT_ACCEPTABLE = ("not-acceptable", 406, "The reply has no such media type")
    LATE = ("late-request", 408, "The request did not arrive in time")
    TOO_LARGE = ("too-large", 413, "The request is too large")
    MEDIA_TYPE = ("media-type", 415, "The media type is not supported")
    COPIES = ("copies", 409, "The points are copies, and the write policy rejects copies")
    DECLINED = ("declined", 422, "The database refused")
    NO_DATABASE = ("no-database", 502, "The database did not answer")
    FAILED = ("failed", 500, "VecSieve failed")
    BUSY = ("busy", 503, "Too many requests are in flight")

    @property
    def status(self) -> int:
        return self.value[1]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why the request failed. `where` is a path into the request such as `$.chunks[3].text`."""

    type: str
    title: str
    status: int
    detail: str
    where: str | None = None
    saw: str | None = None
    wanted: str | None = None


class ProblemError(Exception):
    """The reply is a problem document. ``fields``: additional header fields of the reply."""

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


def invalid(where: str, saw: str, expected: str) -> ProblemError:
    """The problem of an invalid member of the request."""
    return ProblemError(Kind.INVALID, f"{where}: saw {saw}, wanted {expected}", where=where, saw=saw, wanted=expected)


# Marks a float that must be a whole number. The published document calls it an integer.
WHOLE = "x-whole"


class ProblemDialect(RestDialect):
    """Errors of the connection, such as a malformed head, as problems without a page in the documentation."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """A problem without a type of its own: only the status has meaning (RFC 9457 4.2.1)."""
        problem = Problem(type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=message)
        return NativeAnswer(status=status, content_type=CONTENT_TYPE, body=msgspec.json.encode(problem) + b"\n")


# The limit of objects in one body. Decoding one takes a third of a microsecond, in a call that blocks the interpreter.
MOST_OBJECTS = 50_000
# A body of this size is decoded in 2.4 ms.
ASIDE_BYTES = 1 << 20
_MARK = b"[-0.0e-"  # begins a stand-in; a body that contains it is decoded without stand-ins
Message = TypeVar("Message")


def decoded(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message:
    """The message in a body. Raises ProblemError."""
    message = _read_aside(decoder, body) if len(body) > ASIDE_BYTES else None
    return _decoded(decoder, body) if message is None else message


def _read_aside(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message | None:
    """The message, decoded with stand-ins for its arrays of numbers. None if an array is not a raw value of the message, because then it
    may be inside a text or another value. None for an invalid body too, because the error must describe the original body.
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
    """Put the arrays back in place of their stand-ins, and remove them from ``aside``."""
    if isinstance(value, list):
        for element in value:
            _restore(element, aside)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            member = getattr(value, name)
            if not isinstance(member, Raw):
                _restore(member, aside)
            elif (whole := aside.pop(bytes(member), None)) is not None:
                force_setattr(value, name, whole)


def _decoded(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message:
    """Raises ProblemError with the message of msgspec, which names what was seen, what was wanted, and where."""
    if body.count(b"{") > MOST_OBJECTS:  # inside a text, a quote after a brace is escaped: {\\"
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
