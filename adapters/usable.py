"""Which vectors of a reply can be used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def without_vector(vectors: npt.NDArray[np.float32]) -> int:
    """How many rows (n, d) are no usable vector: those of NaN, and all where nobody has a vector (d = 0)."""
    if not vectors.shape[1]:
        return len(vectors)
    with np.errstate(over="ignore"):
        # A row with a NaN has a NaN for its square: half the time of looking at every number.
        squares = np.einsum("ij,ij->i", vectors, vectors)
    return int(np.isnan(squares).sum())
