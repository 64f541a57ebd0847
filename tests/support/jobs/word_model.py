"""A stand-in for the model that Weaviate's text2vec-transformers asks over HTTP: each word has a direction of its own, and a text's
vector is the sum of its words'.

Texts of the same words are near each other, others are not; the same text always has the same vector.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager

from support.network.http_scripts import Script, in_a_thread

DIMENSION = 128


def vector_of(text: str) -> list[float]:
    """Of a text without words, its first axis."""
    words = [random.Random(word) for word in text.lower().split()]
    sums = [sum(word.gauss(0, 1) for word in words) for _ in range(DIMENSION)]
    return sums if words else [1.0, *sums[1:]]


class _Model(Script):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Ready, and nothing to say of itself."""
        self.answer(b"{}")

    def do_POST(self) -> None:
        """The vector of a text."""
        text = json.loads(self.content())["text"]
        vector = vector_of(text)
        self.answer(json.dumps({"text": text, "dims": len(vector), "vector": vector}).encode())


@contextmanager
def listening() -> Iterator[str]:
    """Its URL, for the block."""
    with in_a_thread(_Model) as url:
        yield url
