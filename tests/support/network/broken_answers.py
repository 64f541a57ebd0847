"""Answers that are none: no usable head, or a body that ends too early; and a script that sends them."""

from __future__ import annotations

import asyncio

from support.network.faulty_upstream import Script, Talk, reply

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# What comes in place of a usable head, whether a reset follows, and the kind of failure that is counted.
NO_HEAD: dict[str, tuple[bytes, bool, str]] = {
    "nothing": (b"", False, "reset"),
    "reset before the head": (b"", True, "reset"),
    "end in the head": (b"HTTP/1.1 200 OK\r\nContent-Le", False, "reset"),
    "reset in the head": (b"HTTP/1.1 200 OK\r\nContent-Le", True, "reset"),
    "garbage": (b"\x00\x01garbage\r\n\r\n", False, "protocol"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", False, "protocol"),
    "length and chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        False,
        "protocol",
    ),
    "70 kB header": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n", False, "protocol"),
    "latin-1 header": (b"HTTP/1.1 200 OK\r\nX: latin \xe9\r\nContent-Length: 0\r\n\r\n", False, "protocol"),
    "bell in a header": (b"HTTP/1.1 200 OK\r\nX: bell \x07\r\nContent-Length: 0\r\n\r\n", False, "protocol"),
    "latin-1 reason": (b"HTTP/1.1 200 caf\xe9\r\nContent-Length: 0\r\n\r\n", False, "protocol"),
    "101 unasked": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        False,
        "protocol",
    ),
}
CUT_BODIES = {
    "end before its length": reply(b"short", length=100),
    "last chunk missing": CHUNKED + b"5\r\nhello\r\n",
    "end within a chunk": CHUNKED + b"ff\r\nhello",
    "no chunk": CHUNKED,
    "no body": reply(b"", length=3),
}


async def send(talk: Talk, answer: bytes, *, reset: bool = False) -> None:
    """Send the bytes; with ``reset``, a reset once they have been read."""
    if answer:
        await talk.send(answer)
    if reset:
        await asyncio.sleep(0.05)  # so that what was sent is read before the reset destroys it
        talk.reset()


def after_request(answer: bytes, *, reset: bool = False) -> Script:
    """One request, then that."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await send(talk, answer, reset=reset)

    return script
