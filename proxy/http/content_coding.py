"""Undoing a request body's Content-Encoding, bounded: a body of 199 KiB can hold 200 MiB.

Pure: bytes in, bytes or None out. None means that the body is to pass through as it is; nothing here is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

# zlib's window bits: 16 + 15 reads gzip; 15 reads the zlib wrapper that RFC 9110 8.4.1.2 calls deflate.
WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
# A ratio of 100 is beyond any JSON of vectors (2 to 4); a bomb reaches 1000.
LARGEST_RATIO = 100
# Small bodies may compress well: 4 KiB of blanks are harmless.
ALWAYS_ALLOWED_BYTES = 64 * 1024


def coding_of(lines: Sequence[bytes], undone: frozenset[bytes]) -> bytes | None:
    """The one coding of a request's body, b"" without any; None where the database might see another body in it than we.

    ``lines``: the values of the field. ``undone``: the codings that the database undoes.
    """
    if not lines:
        return b""
    name = lines[0].strip().lower()
    return name if len(lines) == 1 and (name == b"identity" or name in undone) else None


def decoded(body: bytes, coding: bytes, *, limit_bytes: int) -> bytes | None:
    """The body without its content coding, at most ``limit_bytes`` long.

    ``coding``: the field's value; empty and `identity` give the body back. None for every other coding than gzip and
    deflate, a list of codings, damage, bytes after the end, more than the limit, or a ratio above 100.
    """
    name = coding.strip().lower()
    if name in {b"", b"identity"}:
        return body if len(body) <= limit_bytes else None
    window = WINDOWS.get(name)
    if window is None:
        return None
    allowed = min(limit_bytes, max(ALWAYS_ALLOWED_BYTES, LARGEST_RATIO * len(body)))
    inflater = zlib.decompressobj(wbits=window)
    try:
        plain = inflater.decompress(body, allowed + 1)
    except zlib.error:
        return None
    if len(plain) > allowed or not inflater.eof or inflater.unused_data:
        return None
    return plain
