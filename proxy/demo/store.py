"""What the story asks: a server that holds the corpus, and an answer of it. Every backend of the demo is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vecsieve.proxy.demo.corpus import Corpus, Vectors

NAME = "python-docs"  # of the collection or index


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``rows``: the corpus rows of the results in their order. ``milliseconds``: as the caller waited, client included.

    ``chosen_from``: how many candidates VecSieve says it chose from; None where it did not choose, or nobody looked.
    """

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    milliseconds: float
    chosen_from: int | None = None


class Store(Protocol):
    """A server that holds the corpus, asked directly or through the proxy."""

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Write the corpus, telling ``progress`` how many chunks each step has written."""
        ...

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), with what they say, as an application would ask for them."""
        ...
