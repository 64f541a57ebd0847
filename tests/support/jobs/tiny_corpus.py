"""A corpus of a few chunks in four dimensions, and answers to questions about it, for tests of the demo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vecsieve.proxy.demo.corpus import Chunk, Corpus, Question
from vecsieve.proxy.demo.database import Answer

A = (1.0, 0.0, 0.0, 0.0)
NEAR_A = (0.999, 0.0447, 0.0, 0.0)  # cosine distance to A: 0.001
B = (0.0, 1.0, 0.0, 0.0)
C = (0.0, 0.0, 1.0, 0.0)
D = (0.0, 0.0, 0.0, 1.0)


def corpus_of(vectors: Sequence[Sequence[float]], *, texts: Sequence[str] | None = None) -> Corpus:
    """One chunk per vector, all of one title; vectors are scaled to length 1; the question asks for the first chunk."""
    rows = np.asarray(vectors, dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    given = texts if texts is not None else [f"chunk {chr(ord('a') + row)} of them all" for row in range(len(rows))]
    return Corpus(
        chunks=tuple(chunk(text, document=f"module.name{row}") for row, text in enumerate(given)),
        vectors=rows,
        questions=(Question(text="What?"),),
        question_vectors=rows[:1],
    )


def chunk(text: str, *, document: str = "module.name", title: str = "module") -> Chunk:
    return Chunk(text=text, source="docstring", document=document, title=title, position=0)


def answer(*rows: int, milliseconds: float = 1.0) -> Answer:
    """These rows in this order, with falling scores."""
    scores = tuple(1.0 - place / 100 for place in range(len(rows)))
    return Answer(rows=rows, scores=scores, milliseconds=milliseconds)
