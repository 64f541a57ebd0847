"""How many candidates a reply can hold: Chroma answers all searches of a request in one JSON text, vectors as digits.

The server has no limit of its own. What VecSieve holds of a reply has one (16 MiB by default): a request that is sure to
pass it is not sent.
"""

from __future__ import annotations

REPLY_BYTES = 12_000_000  # a quarter below what is held: records differ in size
NUMBER_BYTES = 12  # a float32 with its comma: 11.4 on average over 384 to 1,536 dimensions
RECORD_BYTES = 2048  # id, distance, a passage of text and its metadata


def most(*, searches: int, numbers: int) -> int:
    """How many candidates each of so many searches may ask for, when each has a vector of so many numbers."""
    return REPLY_BYTES // (max(searches, 1) * (RECORD_BYTES + NUMBER_BYTES * numbers))
