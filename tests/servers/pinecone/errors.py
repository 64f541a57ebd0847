"""The service's refusals, in its three shapes.

* Data plane: `{"code":3,"message":"...","details":[]}`, the number being gRPC's.
* Control plane, and documents since 2026-07: `{"status":400,"error":{"code":"INVALID_ARGUMENT","message":"..."}}`.
* No key, or a wrong one: plain text.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson


class Code(NamedTuple):
    """A kind of refusal: gRPC's number, the HTTP status Envoy gives it, the control plane's name."""

    number: int
    status: int
    name: str


INVALID_ARGUMENT = Code(3, 400, "INVALID_ARGUMENT")
UNPROCESSABLE = Code(3, 422, "UNPROCESSABLE_ENTITY")
OUT_OF_RANGE = Code(11, 400, "OUT_OF_RANGE")
MISSING = Code(5, 404, "NOT_FOUND")
ALREADY_EXISTS = Code(6, 409, "ALREADY_EXISTS")
FORBIDDEN = Code(7, 403, "FORBIDDEN")


class RefusalError(Exception):
    """An answer that is not a result."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def as_status(self) -> bytes:
        """The body of the data plane: google.rpc.Status as the transcoder prints it."""
        return orjson.dumps({"code": self.code.number, "message": self.message, "details": []})

    def as_error(self) -> bytes:
        """The body of the control plane."""
        return orjson.dumps(
            {"status": self.code.status, "error": {"code": self.code.name, "message": self.message}},
        )


def invalid(message: str) -> RefusalError:
    """400: the request is wrong in itself."""
    return RefusalError(INVALID_ARGUMENT, message)


def unknown_field(where: str) -> RefusalError:
    """400 of the transcoder, which takes no field it does not know."""
    return invalid(f"{where}: Cannot find field.")


def too_long(size: int, most: int) -> RefusalError:
    """400 for a message over the limit, with the words and the number (11) its users quote."""
    return RefusalError(
        OUT_OF_RANGE, f"Error, message length too large: found {size} bytes, the limit is: {most} bytes"
    )
