"""Families of copies: bases almost at right angles, the text of each, and queries near several of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Families:
    """``count`` bases of ``dimension`` numbers."""

    seed: int
    count: int
    dimension: int

    def bases(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """(count, dimension) unit vectors, each almost at right angles to the others: no policy takes two for copies."""
        rng = np.random.default_rng(self.seed)
        square, _ = np.linalg.qr(rng.normal(size=(self.dimension, self.count)))
        raw = square.T + rng.normal(scale=0.01, size=(self.count, self.dimension))
        return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))

    def query(self, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Near several bases, and less near each of the others in turn."""
        weights = np.random.default_rng(seed).permutation(np.geomspace(1.0, 0.1, self.count))
        return np.asarray(weights @ self.bases())

    def near(self, seed: int) -> list[float]:
        return floats(self.query(seed))


def floats(values: np.ndarray[Any, Any]) -> list[float]:
    """As float32: what a database keeps, so that nothing is lost on the way in."""
    return [float(value) for value in values.astype(np.float32)]


def text(words: np.random.Generator) -> str:
    """Nine words of seven letters."""
    return " ".join("".join(chr(97 + letter) for letter in words.integers(0, 26, size=7)) for _ in range(9))
