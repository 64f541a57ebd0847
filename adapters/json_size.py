"""How much of a JSON text there is to read, counted in linear time before it is parsed: of a request, and of a reply.

Bytes are counted, no structure is read: characters inside strings count as well, so a count may be too high and is never
too low. What follows from too high a count is only that a search is answered plainly.

Measured for 4 MiB: 1 to 2 ms for the counts, 10 to 25 ms where vectors have to be left out of them.
"""

from __future__ import annotations

import re

import numpy as np

from vecsieve.adapters.contract import Bounds, Reason, Unsupported

# Numbers of all vectors of a request. Decoding that many takes 25 to 45 ms without the optional pysimdjson; 4 MiB of
# ordinary numbers, eight characters and more each, are fewer.
NUMBERS = 512 * 1024
# Numbers of one vector: no database here takes more dimensions (Qdrant 65,536, Weaviate 65,535, Milvus 32,768).
DIMENSIONS = 65_536
# Of one number of a long vector on average, blanks included: a float64 in full has 25. Numbers of a megabyte take readers
# several passes, 140 ms in all on a busy machine.
NUMBER_BYTES = 64

# Of a reply without its vectors: 4 MiB of plain text take 30 ms. A thousand candidates have 4 kB each.
REPLY_BYTES = 4 * 1024 * 1024
# Of the same: strings, lists and objects, a microsecond each where they are walked. A thousand candidates have 65 each.
REPLY_PARTS = 64 * 1024
# Surrogate escapes, each of which is replaced before the text is read.
REPLY_SURROGATES = 64 * 1024

# A list of numbers. Possessive, so that each byte is passed over twice at most: by the list and in search of the next one.
_VECTOR = re.compile(rb"\[[-+.0-9eE, \t\r\n]*+\]")
_QUOTE, _COMMA, _LIST, _OBJECT, _ESCAPE = b'",[{\\'


def check_size(body: bytes, bounds: Bounds) -> None:
    """Raises Unsupported for a body with more parts than the bounds allow: strings, list items, lists and objects."""
    if len(body) <= bounds.parts:  # each part has a byte of its own
        return
    counts = _counts(body, (_QUOTE, _LIST, _OBJECT, _COMMA))
    parts, commas = counts[0] // 2 + counts[1] + counts[2], counts[3]
    if parts > bounds.parts or commas > NUMBERS:
        raise Unsupported(Reason.TOO_MANY_PARTS)
    if parts + commas <= bounds.parts:
        return
    between = _VECTOR.sub(b"", body).count(b",")
    if parts + between > bounds.parts:
        raise Unsupported(Reason.TOO_MANY_PARTS)


def check_reply(text: bytes) -> None:
    """Raises ValueError for a reply that, without its vectors, is too much to be read."""
    if len(text) > REPLY_BYTES:
        raise ValueError(f"{len(text)} bytes beside vectors, wanted {REPLY_BYTES} at most")
    if len(text) <= REPLY_PARTS:
        return
    quotes, lists, objects, escapes = _counts(text, (_QUOTE, _LIST, _OBJECT, _ESCAPE))
    parts = quotes // 2 + lists + objects
    if parts > REPLY_PARTS:
        raise ValueError(f"{parts} strings, lists and objects, wanted {REPLY_PARTS} at most")
    if escapes > REPLY_SURROGATES and text.count(b"\\ud") + text.count(b"\\uD") > REPLY_SURROGATES:
        raise ValueError(f"more than {REPLY_SURROGATES} surrogates")


def check_dimensions(body: bytes, start: int, end: int) -> None:
    """Raises Unsupported for a vector of more numbers than any database takes, or of numbers that fill lines."""
    if end - start <= 2 * DIMENSIONS:
        return
    numbers = body.count(b",", start, end) + 1
    if numbers > DIMENSIONS or end - start > NUMBER_BYTES * numbers:
        raise Unsupported(Reason.TOO_MANY_PARTS)


def _counts(body: bytes, wanted: tuple[int, ...]) -> list[int]:
    view = np.frombuffer(body, dtype=np.uint8)
    return [int(np.count_nonzero(view == byte)) for byte in wanted]
