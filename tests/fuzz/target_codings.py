"""A body is decoded to what zlib makes of the whole of it and within its bound, or None; nothing is raised, no bomb fills the memory.

The first byte of an input names the coding, the second the bound.
"""

from __future__ import annotations

import gzip
import zlib

from vecsieve.proxy.http.body import ALWAYS_ALLOWED_BYTES, LARGEST_RATIO, decoded

WORDS = (
    b"\x1f\x8b\x08\x00",
    b"\x78\x9c",
    b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x00\x00\xff\xff",
    b"\x1f\x8b\x08\x1f",
)
CODINGS = (b"gzip", b"deflate", b" X-GZIP ", b"identity", b"", b"br", b"gzip, gzip", b"\xff")
WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
BOUNDS = (0, 1, 100, 65_536, 8 * 2**20)


def seeds() -> list[bytes]:
    """Bodies in each coding: small, empty, two members, a bomb."""
    plain = b'{"result":{"points":[{"id":1,"score":0.5}]},"status":"ok"}'
    packed = [gzip.compress(plain, mtime=0), gzip.compress(b"", mtime=0), gzip.compress(plain, mtime=0) * 2]
    packed += [zlib.compress(plain), zlib.compress(b""), gzip.compress(bytes(2**20), mtime=0), plain]
    return [bytes([coding, bound]) + body for body in packed for coding in (0, 1, 3) for bound in (2, 4)]


def check(data: bytes) -> None:
    """Decode, and hold what comes against zlib's own reading without a bound."""
    if len(data) < 2:
        return
    coding, limit, body = CODINGS[data[0] % len(CODINGS)], BOUNDS[data[1] % len(BOUNDS)], data[2:]
    plain = decoded(body, coding, limit_bytes=limit)
    name = coding.strip().lower()
    if name in {b"", b"identity"}:
        assert plain == (body if len(body) <= limit else None)
        return
    if name not in WINDOWS:
        assert plain is None
        return
    try:
        reader = zlib.decompressobj(wbits=WINDOWS[name])
        whole = reader.decompress(body) + reader.flush()
        is_one = reader.eof and not reader.unused_data
    except zlib.error:
        is_one, whole = False, b""
    allowed = min(limit, max(ALWAYS_ALLOWED_BYTES, LARGEST_RATIO * len(body)))
    assert plain == (whole if is_one and len(whole) <= allowed else None), "what one whole body holds, within its bound"
