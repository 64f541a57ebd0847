"""Writes seen passing: what they change is forgotten, before they go out and again when they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.proxy.vector_memory import VectorMemory


class Overhearing:
    """``touched``: what a request may change, None when it only reads. Without a memory there is nothing to forget."""

    __slots__ = ("_memory", "_touched")

    def __init__(self, memory: VectorMemory | None, touched: Callable[[RequestHead], Touched | None] | None) -> None:
        self._memory = memory
        self._touched = touched

    @contextmanager
    def passing(self, head: RequestHead) -> Iterator[None]:
        """While this request is passed through. A write whose client goes away may end later: memory stays quiet longer."""
        touched = None if self._memory is None or self._touched is None else self._touched(head)
        if self._memory is None or touched is None:
            yield
            return
        self._memory.forget(touched.collection)
        try:
            yield
        finally:
            self._memory.forget(touched.collection)
