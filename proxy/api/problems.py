"""Errors of the API: problem documents (RFC 9457), which say what was seen, what was wanted and where."""

from __future__ import annotations

from enum import Enum
from http import HTTPStatus

import msgspec

from vecsieve.adapters.base import RestDialect
from vecsieve.adapters.contract import NativeAnswer

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
