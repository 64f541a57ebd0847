"""What is stored in a real server of Weaviate, and the vectors that ask for it. Read by the interpreter that has Weaviate's client."""

from __future__ import annotations

import random
import uuid
from typing import Any

from weaviate.classes.data import GeoCoordinate, PhoneNumber  # type: ignore[import-not-found]  # - it is in an environment of its own

from support.weaviate.scenario import FAMILIES

COPIES, DIMENSION = 3, 96
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vector(family: int, copy: int) -> list[float]:
    """Each family somewhere else, its copies beside it. No two are equally far from a query."""
    made, moved = random.Random(family), random.Random(family * 100 + copy)
    return [made.gauss(0, 1) + copy * moved.gauss(0, 0.01) for _ in range(DIMENSION)]


def query(turn: int) -> list[float]:
    """Near all families, some nearer than others."""
    made = random.Random(1_000 + turn)
    weights = [made.random() for _ in range(FAMILIES)]
    every = zip(*(vector(family, 0) for family in range(FAMILIES)), strict=True)
    return [sum(weight * value for weight, value in zip(weights, values, strict=True)) for values in every]


def counted(family: int, copy: int) -> list[float]:
    """For distances that count the places that differ: from ``counted_query``, so many that no two are equally far."""
    made = random.Random(family)
    places = made.sample(range(DIMENSION), DIMENSION)
    base = 10 + COPIES * family
    values = counted_query()
    for place in places[:base]:
        values[place] = made.choice([2.0, 5.0, -3.0, 8.0])
    for place in places[base : base + copy]:
        values[place] = 1.01
    return values


def counted_query() -> list[float]:
    """Where those begin."""
    return [1.0] * DIMENSION


def words(family: int, copy: int = 0) -> str:
    """Each family's own words, longer by an article with each copy and by a word with each family, so that no two score alike."""
    letter = LETTERS[family]
    vocabulary = " ".join(
        f"{letter}ord{LETTERS[place % 26]}{LETTERS[place // 26]}" for place in range(40 + COPIES * family)
    )
    return f"common {'the ' * copy}{vocabulary}"


def properties(family: int, copy: int) -> dict[str, Any]:
    """Of the collections of one kind of text."""
    owner, tags = f"o{copy % 2}", [f"t{family % 3}", "all"]
    return {"text": words(family, copy), "owner": owner, "number": family, "tags": tags}


def kinds(family: int, copy: int) -> dict[str, Any]:
    """A property of every kind; `absent` is not there."""
    key = uuid.UUID(int=7_000 + family)
    day = f"2024-01-{family + 1:02}T10:00:00Z"
    return {
        "text": words(family, copy),
        "number": family,
        "share": family / 7,
        "flag": family % 2 == 0,
        "day": day,
        "key": key,
        "place": GeoCoordinate(latitude=40.0 + family, longitude=-3.5),
        "phone": PhoneNumber(number="+49 171 1234567"),
        "picture": "aGVsbG8=",
        "flags": [True, False],
        "days": [day, day],
        "keys": [key],
        "shares": [0.5, family / 3],
        "numbers": [family, 2**40],
        "nested": {"inner": f"größe {family}", "count": family},
        "list": [{"inner": "a"}, {"inner": f"b{family}"}],
    }
