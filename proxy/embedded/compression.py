"""The coding of an answer: what actix's `Compress` does whenever the client allows it, whatever the size."""

from __future__ import annotations

import zlib

_GZIP_WINDOW_BITS = 31
"""zlib's spelling of a gzip wrapper around the largest window."""
_FASTEST = 1
"""The level actix uses."""


def allows_gzip(accept_encoding: str | None) -> bool:
    """Whether the client takes gzip and did not forbid it with `q=0`."""
    weights: dict[str, float] = {}
    for item in (accept_encoding or "").split(","):
        name, *parameters = [part.strip().lower() for part in item.split(";")]
        weights[name] = next((_weight(part) for part in parameters if part.startswith("q=")), 1.0)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def gzipped(body: bytes) -> bytes:
    """The body in gzip."""
    squeezer = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return squeezer.compress(body) + squeezer.flush()


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0
