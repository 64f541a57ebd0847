"""The answers we invent over HTTP, worded natively by the backend's dialect.

Each carries `x-vecsieve-origin: proxy`, so that an operator can tell whose error it is.
"""

from __future__ import annotations

from http import HTTPStatus

from vecsieve.adapters.contract import Dialect, NativeAnswer
from vecsieve.proxy.http.headers import Headers
from vecsieve.proxy.http.raw_response import RawResponse
from vecsieve.proxy.trouble import ORIGIN, WORDING, Trouble

# After these the rest of the connection cannot be trusted to be a request.
CLOSING = frozenset(Trouble) - {
    Trouble.NO_INDEX,
    Trouble.HOST_REFUSED,
    Trouble.WRONG_PATH,
    Trouble.OVERLOADED,
    Trouble.NO_UPSTREAM,
    Trouble.UPSTREAM_TIMEOUT,
    Trouble.UPSTREAM_BROKE,
}
RETRY_AFTER = ("Retry-After", "1")  # seconds: the queue is full for moments, and SDKs that read it wait a whole one


class LocalAnswers:
    """Builds our own answers in one backend's words."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def response(self, trouble: Trouble, path: str) -> RawResponse:
        """The answer, to be returned by a handler. ``path``: what the client asked for; it decides the shape at most."""
        status, words = WORDING[trouble]
        return self.native(self._dialect.error(status, words, path=path), close=trouble in CLOSING)

    def native(self, native: NativeAnswer, *, close: bool = False) -> RawResponse:
        """An answer already worded, such as a refused override."""
        response = RawResponse(native.status, _phrase(native.status), _head(native), body=native.body)
        if close:
            response.force_close()
        return response

    def wire(self, trouble: Trouble) -> bytes:
        """The same answer as bytes, for a connection on which no request was parsed. It says that it closes."""
        status, words = WORDING[trouble]
        native = self._dialect.error(status, words)
        lines = [f"HTTP/1.1 {native.status} {_phrase(native.status)}"]
        lines += [f"{name}: {value}" for name, value in [*_head(native), ("Connection", "close")]]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + native.body


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase


def _head(native: NativeAnswer) -> Headers:
    head = [("Content-Length", str(len(native.body))), ORIGIN]
    if native.content_type:
        head.insert(0, ("Content-Type", native.content_type))
    if native.status == 503:
        head.append(RETRY_AFTER)
    return head
