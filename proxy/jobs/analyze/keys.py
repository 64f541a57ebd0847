"""What a point is an exact copy by: its canonical text, or, where it has no text, the very bytes of its vector.

The canonical text is the proxy's own but for one step: header and footer lines are not taken off, since what repeats in a
pool of fifty is told from its neighbours there, and a collection has no such pool. Such copies count as near ones. A text that is too long or too dear to read stands for itself as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from vecsieve.proxy.jobs.analyze.gathered import Known
from vecsieve.proxy.jobs.source import Point, Vectors
from vecsieve.proxy.jobs.texts import text_of
from vecsieve.proxy.selection.text.bounds import cost
from vecsieve.proxy.selection.text.canonical import folded, unwrapped
from vecsieve.proxy.selection.text.identity import content_hash

_BYTES = 8


def key(point: Point, text_fields: Iterable[str]) -> tuple[Known, int]:
    """Which kind of key, and the key: 64 bits, which in a million points coincide once in 37 million collections."""
    text = text_of(point.payload, text_fields)
    canonical = "" if text is None else text if cost(text) is None else folded(unwrapped(text))
    if canonical:
        return Known.TEXT, content_hash(canonical)
    if point.vector is not None:
        return Known.VECTOR, _vector_key(point.vector)
    return Known.NOTHING, 0


def _vector_key(vector: Vectors) -> int:
    content = (vector + 0.0).tobytes()  # -0.0 and 0.0 are the same number
    return int.from_bytes(hashlib.blake2b(content, digest_size=_BYTES).digest(), "little")
