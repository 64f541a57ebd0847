"""A toy embedder: words, hashed. It knows nothing of meaning, but texts that share words lie close, and the same text always
gives the same vector.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter

import numpy as np
from servers.pinecone.shapes import Reals
from servers.pinecone.store import Sparse

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return _WORD.findall(text.lower())


def embed_dense(text: str, dimension: int) -> Reals:
    """A unit vector, shape (dimension,): every word adds its sign to its place. A text without words points at place 0."""
    vector = np.zeros(dimension, dtype=np.float64)
    for word in words(text):
        number = _hash(word)
        vector[(number >> 1) % dimension] += 1.0 if number & 1 else -1.0
    if not vector.any():
        vector[0] = 1.0
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def embed_sparse(text: str) -> Sparse | None:
    """Each word's hash with 1 + ln(how often it stands there); None for a text without words."""
    counted = Counter(_hash(word) & 0xFFFFFFFF for word in words(text))
    if not counted:
        return None
    places = sorted(counted)
    weights = np.array([1.0 + math.log(counted[place]) for place in places], dtype=np.float32)
    return Sparse(indices=tuple(places), values=weights)


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
