"""Answers that are changed on their way: held whole, read, sent with other bytes and the length these really have.

Only for small documents that must not go out as they came. Whatever cannot be held or read goes out as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.proxy.http.content_coding import WINDOWS, decoded
from vecsieve.proxy.http.headers import RawHeaders, around_other_bytes, framed, replaced, values
from vecsieve.proxy.http.raw_response import RawResponse
from vecsieve.proxy.http.reply import UpstreamReply

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
    """The body's first pieces, and whether they are all of it. Raises UpstreamFailure when it ends early."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in reply.iter():
        pieces.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            return pieces, False
    return pieces, True
