"""In which space a Chroma collection measures, read off a pool: neither request nor reply names it.

A collection in cosine space hands its vectors out at the lengths they came with, so their lengths alone would say that
length carries meaning. The distances to the query tell: in no other space are they one minus the cosine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

LOOKED_AT = 8  # candidates: one could agree by chance, eight of different lengths do not
TOLERANCE = 1e-3  # distances come as float32, of vectors that were scaled there and back


def is_cosine(query: Vectors | None, vectors: Vectors, distances: npt.NDArray[np.float64]) -> bool:
    """Whether the first distances (n,) are cosine's between the query (d,) and the vectors (n, d); False when in doubt."""
    if query is None or vectors.shape[1:] != query.shape:
        return False
    rows, told = vectors[:LOOKED_AT].astype(np.float64), distances[:LOOKED_AT]
    asked = query.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * float(np.sqrt(asked @ asked))
    usable = np.isfinite(lengths) & (lengths > 0.0) & np.isfinite(told)
    if not usable.any():
        return False
    expected = 1.0 - (rows[usable] @ asked) / lengths[usable]
    return bool(np.all(np.abs(expected - told[usable]) <= TOLERANCE))
