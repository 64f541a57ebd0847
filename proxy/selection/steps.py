"""Long work in steps: a generator yields where others may have a turn, and returns what it found.

Selection has no loop and no clock. Whoever runs it on an event loop gives others a turn at each step; everybody else
runs all steps at once. What is found does not depend on it. A step takes at most some 15 ms, so steps are bounded by what
there is to do in them: characters, words, pairs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def finished(steps: Steps[T]) -> T:
    """What all steps, one after another, come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
