"""Texts as chunks come: passages of a hundred words, overlapping, some with a header and wrapped lines, some with curly quotes."""

from __future__ import annotations

import numpy as np

WORDS = 100
STRIDE = 75  # a quarter of each chunk is in the next one
VOCABULARY = 5_000
LETTERS = "etaoinshrdlucmfwypvbgk"
COLUMNS = 12  # words a line, in wrapped texts


def passages(n: int, *, seed: int) -> tuple[str, ...]:
    """n texts: every third is wrapped, with a header and a footer; every fourth has curly quotes. Same seed, same texts."""
    words = drawn(n * STRIDE + WORDS, seed=seed)
    return tuple(_shaped(words[i * STRIDE : i * STRIDE + WORDS], i) for i in range(n))


def drawn(count: int, *, seed: int) -> list[str]:
    """So many words by Zipf's law: as in prose, a hundred words make up half of the text."""
    generator = np.random.default_rng(seed)
    vocabulary = ["".join(generator.choice(list(LETTERS), length)) for length in generator.integers(2, 11, VOCABULARY)]
    weights = 1.0 / np.arange(1, VOCABULARY + 1)
    ranks = generator.choice(VOCABULARY, count, p=weights / weights.sum())
    return [vocabulary[rank] for rank in ranks.tolist()]


def _shaped(words: list[str], number: int) -> str:
    if number % 4 == 0:
        words = ["“", *words[:-1], f"{words[-1]}”"]
    if number % 3:
        return " ".join(words)
    lines = [" ".join(words[start : start + COLUMNS]) for start in range(0, len(words), COLUMNS)]
    return "\n".join((f"ANNUAL REPORT     Page {number}", *lines, "Confidential - do not distribute"))
