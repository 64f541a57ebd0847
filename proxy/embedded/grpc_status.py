"""Refusals as gRPC statuses: the code the server gives each kind of mistake, and its words."""

from __future__ import annotations

import grpc

from vecsieve.proxy.embedded.errors import Refusal

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
}
_FORMAT = "Format error in JSON body: "
_VALIDATION = "Validation error in "
_WHERE = ("JSON body", "path parameters", "query parameters")


def code_of(refusal: Refusal) -> grpc.StatusCode:
    """The code for the refusal's HTTP status."""
    return _CODES[refusal.status]


def details_of(refusal: Refusal) -> str:
    """The refusal's words without REST's: a message has no JSON, no path and no query, only a body."""
    text = refusal.message.removeprefix(_FORMAT)
    for where in _WHERE:
        text = text.replace(f"{_VALIDATION}{where}:", f"{_VALIDATION}body:")
    return text


def trailers_of(refusal: Refusal) -> tuple[tuple[str, str], ...]:
    """When to ask again, if there is such a time."""
    seconds = refusal.retry_after_seconds
    return () if seconds is None else (("retry-after", str(seconds)),)
