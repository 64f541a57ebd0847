"""How many searches may be asked again at once: our only retry, and a database in trouble must not get twice the load.

A widened request that fails is followed by the client's own. That one is never refused: it is what the client would have sent.
When too many of them are under way, new searches go as the client's own from the start, so that nothing is left to ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Envoy's retry budget: a fifth of what is in flight, and at least three.
SHARE = 0.2
LEAST = 3


class Replays:
    """Of one process. ``in_flight``: how many requests are."""

    __slots__ = ("_in_flight", "_under_way")

    def __init__(self, in_flight: Callable[[], int]) -> None:
        self._in_flight = in_flight
        self._under_way = 0

    @property
    def is_spent(self) -> bool:
        """Whether no more searches should be sent that may have to be asked again."""
        return self._under_way >= LEAST and self._under_way >= SHARE * self._in_flight()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One is under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
