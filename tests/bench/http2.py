"""As much HTTP/2 as a load generator needs: gRPC calls of one message each way, one after the other on a connection.

A library's client would cost more than the proxies that are measured. Every window is opened wide at the start, heads are
not compressed, and a reply counts when it brought a message: calls that fail bring none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEAD_BYTES = 9
MESSAGE_PREFIX_BYTES = 5
# What a peer that has not said more takes at once, in one frame and in one window.
FRAME_BYTES = 1 << 14
WINDOW_BYTES = 65_535
WIDEST_WINDOW_BYTES = (1 << 31) - 1

DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0x0, 0x1, 0x4, 0x6, 0x7, 0x8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
_INITIAL_WINDOW_SIZE = 4


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame as it goes over the wire."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def heads(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Kind, flags, where the payload begins and where it ends, of every frame that is whole."""
    at = 0
    while at + HEAD_BYTES <= len(data):
        begins = at + HEAD_BYTES
        at = begins + int.from_bytes(data[at : at + 3])
        if at > len(data):
            return
        yield data[begins - 6], data[begins - 5], begins, at


def greeting() -> bytes:
    """What a client says first."""
    settings = struct.pack(">HI", _INITIAL_WINDOW_SIZE, WIDEST_WINDOW_BYTES)
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(SETTINGS, 0, 0, settings)
        + widened(WIDEST_WINDOW_BYTES - WINDOW_BYTES)
    )


def widened(more_bytes: int) -> bytes:
    """The frame that lets the peer send so many bytes more on the connection."""
    return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", more_bytes))


def request(method: str, message: bytes) -> bytes:
    """A call's frames on stream 0, to be sent ``on_stream``. Raises ValueError for a message that fills a window."""
    if len(message) + MESSAGE_PREFIX_BYTES > WINDOW_BYTES:
        raise ValueError(f"a message of {len(message)} bytes, wanted what fits a window of {WINDOW_BYTES}")
    body = b"\0" + struct.pack(">I", len(message)) + message
    parts = [body[at : at + FRAME_BYTES] for at in range(0, len(body), FRAME_BYTES)]
    data = [frame(DATA, END_STREAM if part is parts[-1] else 0, 0, part) for part in parts]
    return frame(HEADERS, END_HEADERS, 0, _head(method)) + b"".join(data)


def on_stream(frames: bytes, stream: int) -> bytes:
    """The same frames on another stream."""
    made = bytearray(frames)
    for _, _, begins, _ in heads(frames):
        struct.pack_into(">I", made, begins - 4, stream)
    return bytes(made)


def _head(method: str) -> bytes:
    """The metadata of a call (RFC 7541): from the static table where it has the field, else as plain text, nothing indexed."""
    post, http = b"\x83", b"\x86"
    return (
        post
        + http
        + (b"\x04" + _text(method))  # :path
        + (b"\x01" + _text("127.0.0.1"))  # :authority
        + (b"\x0f\x10" + _text("application/grpc"))  # content-type
        + (b"\x00" + _text("te") + _text("trailers"))
    )


def _text(value: str) -> bytes:
    if len(value) > 126:  # longer ones take a second byte of length
        raise ValueError(f"{len(value)} characters, wanted at most 126")
    return bytes((len(value),)) + value.encode("ascii")
