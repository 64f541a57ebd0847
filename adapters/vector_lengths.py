"""What the lengths of vectors say: which cannot be used, and whether length carries meaning."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

# Cosine collections return normalised vectors; float16 and turbo4 storage leave about this much slack.
UNIT_TOLERANCE = 1e-3


def measured(vectors: npt.NDArray[np.float32]) -> tuple[int, bool]:
    """How many rows of (n, d) are NaN, and whether the others that are not zero are of other than unit length."""
    count, width = vectors.shape
    if width == 0:
        return count, False
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors).tolist()
    # A list from here on: on a handful of numbers each numpy call costs 5 to 10 microseconds where caches are cold.
    usable = [square for square in squares if not math.isnan(square)]
    lengths = [math.sqrt(square) for square in usable if square > 0.0]
    magnitude = bool(lengths) and max(max(lengths) - 1.0, 1.0 - min(lengths)) > UNIT_TOLERANCE
    return count - len(usable), magnitude
