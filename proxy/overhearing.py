"""Requests seen passing that change what was learned: it is forgotten before they go out and again when they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from vecsieve.adapters.contract import RequestHead, Touched

Touches = Callable[[RequestHead], Touched | None]
"""What a request may change; None where it changes nothing of the kind."""


class Forgetful(Protocol):
    """What has learned something of collections."""

    def forget(self, collection: str | None) -> None:
        """Unlearn what is known of this collection, or of any."""
        ...


@dataclass(frozen=True, slots=True)
class Heard:
    """One kind of change, and who forgets because of it."""

    touches: Touches
    forgetful: tuple[Forgetful, ...]


class Overhearing:
    """Of one transport. Without any kind of change nothing is forgotten."""

    __slots__ = ("_heard",)

    def __init__(self, *heard: Heard) -> None:
        self._heard = heard

    @contextmanager
    def passing(self, head: RequestHead) -> Iterator[None]:
        """While this request is passed through. A write whose client goes away may end later: the memory of vectors stays quiet longer."""
        touched = [(heard, found) for heard in self._heard if (found := heard.touches(head)) is not None]
        if not touched:
            yield
            return
        _forget(touched)
        try:
            yield
        finally:
            _forget(touched)


def _forget(touched: list[tuple[Heard, Touched]]) -> None:
    for heard, found in touched:
        for each in heard.forgetful:
            each.forget(found.collection)
