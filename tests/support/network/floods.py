"""What a peer may send without end on one connection: small frames, chunks and requests, each cheap to send and dear to follow."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hpack import Encoder

from vecsieve.proxy.grpc.shared_port import PREFACE

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, PADDED = 0x1, 0x4, 0x8
BLOCK_BYTES = 1 << 16

HEAD = b"POST /collections/c/points/query HTTP/1.1\r\nHost: db\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def fields(path: str = "/qdrant.Points/Count") -> bytes:
    """The header block of a gRPC call, which may stand in any number of frames of one connection."""
    headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "db")]
    encoded: bytes = Encoder().encode([*headers, ("te", "trailers"), ("content-type", "application/grpc")])
    return encoded


FIELDS = fields()
BEGUN = PREFACE + frame(SETTINGS, 0, 0)
REQUESTED = BEGUN + frame(HEADERS, END_HEADERS, 1, FIELDS)


@dataclass(frozen=True, slots=True)
class Flood:
    """``beginning`` is sent once a connection, then ``more`` without end. ``is_slow``: every byte is a segment of its own.

    ``is_cut``: whether the peer is to be cut; False where it only waits its turn. ``is_of_frames``: whether the number of frames is what it is cut for;
    False where one frame is enough.
    """

    name: str
    beginning: bytes
    more: Callable[[], Iterator[bytes]]
    is_http2: bool = True
    is_slow: bool = False
    is_cut: bool = True
    is_of_frames: bool = True


def repeated(piece: bytes) -> Callable[[], Iterator[bytes]]:
    """The same again, in blocks of 64 KiB."""
    return lambda: itertools.repeat(piece * max(1, BLOCK_BYTES // len(piece)))


def numbered(piece: Callable[[int], bytes]) -> Callable[[], Iterator[bytes]]:
    """A piece a stream, in rising order of streams, in blocks of 64 KiB."""

    def more() -> Iterator[bytes]:
        streams = itertools.count(1, 2)
        while True:
            first = piece(next(streams))
            yield b"".join((first, *(piece(next(streams)) for _ in range(BLOCK_BYTES // len(first)))))

    return more


def head_of(stream: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, FIELDS)


# A field of 3.9 kB for the table, and the byte that names it then.
LARGE_ENTRY = b"\x40\x01a\x7f\xbd\x1d" + bytes(3_900)
NAMED = b"\xbe"
LARGE_NAMED = BEGUN + frame(HEADERS, END_HEADERS, 1, FIELDS + LARGE_ENTRY)
# The size of the table, 4,096 bytes, in as many bytes as the core reads.
LONG_INTEGER = b"\x3f\xe1\x9f" + b"\x80" * 16 + b"\x00"
# A field with a name of 14 bytes for the core, which knows no padding. Without the first byte, a length of padding: a string of 20 kB begins.
NO_PADDING = b"\x00\x0e\x7f\xa1\x9b\x01" + b"a" * 10 + b"\x00"

MANY_FIELDS = b"".join(b"\x00\x04x%03d\x00" % number for number in range(180))

FLOODS = (
    Flood("empty DATA frames", REQUESTED, repeated(frame(DATA, 0, 1))),
    Flood("SETTINGS", BEGUN, repeated(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)))),
    Flood("PING", BEGUN, repeated(frame(PING, 0, 0, bytes(8)))),
    Flood("WINDOW_UPDATE", BEGUN, repeated(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))),
    Flood("PRIORITY", BEGUN, repeated(frame(PRIORITY, 0, 1, bytes(5)))),
    Flood("CONTINUATION", BEGUN + frame(HEADERS, 0, 1, FIELDS), repeated(frame(CONTINUATION, 0, 1))),
    Flood(
        "a block of fields without an end",
        BEGUN + frame(HEADERS, 0, 1, FIELDS),
        repeated(frame(CONTINUATION, 0, 1, b"\x10\x01a\x7f\x81\x7c" + bytes(16_000))),
    ),
    Flood(
        "fields that name a large entry",
        LARGE_NAMED,
        numbered(lambda stream: frame(HEADERS, END_HEADERS, stream + 2, FIELDS + LARGE_ENTRY + NAMED * 8_000)),
        is_of_frames=False,
    ),
    Flood(
        "fields that name a small entry",
        BEGUN,
        numbered(lambda stream: frame(HEADERS, END_HEADERS, stream, FIELDS + NAMED * 8_000)),
        is_of_frames=False,
    ),
    Flood(
        "fields that name a large entry behind a long integer",
        LARGE_NAMED,
        numbered(lambda stream: frame(HEADERS, END_HEADERS, stream + 2, LONG_INTEGER + FIELDS + LARGE_ENTRY + NAMED * 8_000)),
        is_of_frames=False,
    ),
    Flood(
        "fields that name a large entry behind what is no padding",
        LARGE_NAMED,
        numbered(lambda stream: frame(HEADERS, END_HEADERS | PADDED, stream + 2, NO_PADDING + FIELDS + LARGE_ENTRY + NAMED * 8_000)),
        is_of_frames=False,
    ),
    Flood("DATA of padding", REQUESTED, repeated(frame(DATA, PADDED, 1, b"\xff" + bytes(255)))),
    Flood("streams opened and reset", BEGUN, numbered(lambda stream: head_of(stream) + frame(RST_STREAM, 0, stream, bytes(4)))),
    Flood("streams of a head alone", BEGUN, numbered(head_of)),
    Flood("streams of a head with many fields", BEGUN, numbered(lambda stream: frame(HEADERS, END_HEADERS, stream, FIELDS + MANY_FIELDS))),
    Flood(
        "DATA frames of one byte",
        REQUESTED + frame(DATA, 0, 1, b"\0\x10\0\0\0"),
        repeated(frame(DATA, 0, 1, b"x")),
    ),
    Flood(
        "HTTP/1.1 chunks of one byte",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        repeated(b"1\r\nx\r\n"),
        is_http2=False,
    ),
    Flood(
        "HTTP/1.1 chunks of thirteen bytes",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        repeated(b"d\r\nthirteen byte\r\n"),
        is_http2=False,
        is_cut=False,
    ),
    Flood("empty lines", b"", repeated(b"\r\n"), is_http2=False, is_cut=False),
    Flood(
        "HTTP/1.1 requests in one go",
        b"",
        repeated(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        is_http2=False,
        is_cut=False,
    ),
    Flood(
        "an HTTP/1.1 body in segments of one byte",
        HEAD + b"Content-Length: 1000000000\r\n\r\n",
        repeated(b" "),
        is_http2=False,
        is_slow=True,
        is_cut=False,
    ),
)  # fmt: skip
