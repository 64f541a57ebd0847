"""The answers we invent over HTTP, worded natively by the backend's dialect.

Each carries `x-vecsieve-origin: proxy`, so that an operator can tell whose error it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from vecsieve.adapters.contract import Dialect, NativeAnswer
from vecsieve.proxy.http.body import WINDOWS, decoded
from vecsieve.proxy.http.headers import Headers, RawHeaders, around_other_bytes, framed, replaced, values
from vecsieve.proxy.http.message import RawResponse
from vecsieve.proxy.http.upstream import UpstreamReply
from vecsieve.proxy.search.errors import ORIGIN, WORDING, Trouble

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


# Answers that are changed on their way: held whole, read, sent with other bytes and the length these really have.
#
# Only for small documents that must not go out as they came. Whatever cannot be held or read goes out as it came.

_UNDONE = frozenset({b"identity", *WINDOWS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Editing:
    """``change``: total, the body itself where there is nothing to change. ``limit_bytes``: of the body, held or decoded."""

    change: Callable[[bytes], bytes]
    limit_bytes: int

    def answer(self, reply: UpstreamReply, held: bytes) -> RawResponse | None:
        """The changed answer; None when it goes out as it came. ``held``: the whole raw body."""
        if not 200 <= reply.status < 300:
            return None
        coding = b",".join(values(reply.raw_headers, b"content-encoding"))
        plain = decoded(held, coding, limit_bytes=self.limit_bytes)
        changed = None if plain is None else self.change(plain)
        if changed is None or changed == plain:
            return None
        plainly = around_other_bytes(replaced(reply.raw_headers, b"content-encoding", None))
        headers = framed(plainly, length=len(changed), chunked=False)
        return RawResponse(reply.status, reply.reason, headers, body=changed)


def readable(raw: RawHeaders) -> RawHeaders:
    """A client's fields, asking for an answer that can be read: theirs as they are, unless they offer an unknown coding."""
    offered = b",".join(values(raw, b"accept-encoding")).lower().split(b",")
    names = {coding.partition(b";")[0].strip() for coding in offered} - {b""}
    return raw if names <= _UNDONE else replaced(raw, b"accept-encoding", b"identity")


async def hold(reply: UpstreamReply, limit_bytes: int) -> tuple[list[bytes], bool]:
    """The body's first pieces, and whether they are all of it. Raises UpstreamExchangeError when it ends early."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in reply.iter():
        pieces.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            return pieces, False
    return pieces, True
