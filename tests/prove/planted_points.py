"""Points for writes in any order, three in ten of them copies of earlier ones: each is made of its number alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

COPIES, SIZE = 0.3, 32
SEED = 17
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Made:
    """A point. ``tag``: what its payload holds besides the text."""

    number: int
    vector: list[float]
    text: str
    tag: int


def made(number: int) -> Made:
    """A new point, or a copy of an earlier new one in capitals. Numbers begin with one."""
    chance, is_copy = _drawn(number)
    original = number
    while is_copy and _drawn(original)[1]:
        original = chance.randrange(1, number)
    rng = random.Random(f"{SEED} {original}")
    vector = [round(rng.gauss(0.0, 1.0), 6) for _ in range(SIZE)]
    text = "  ".join("".join(rng.choices(_LETTERS, k=7)) for _ in range(6))
    return Made(number, vector, text.upper() if is_copy else text, number % 7)


def _drawn(number: int) -> tuple[random.Random, bool]:
    """Whether a point is a copy, and what chooses its original."""
    chance = random.Random(SEED * 1_000_003 + number)
    return chance, number > 10 and chance.random() < COPIES
