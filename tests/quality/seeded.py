"""A set with seeded copies: a hundred questions about the demo's texts, each with four items that answer it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from vecsieve.proxy.demo.corpus import Chunk, load
from vecsieve.proxy.jobs.evaluate.reading import Item, LabelledSet, Query, Vectors, unit

QUESTIONS = 100
NOISE, QUESTION_NOISE = 0.04, 0.45  # lengths of the noise added to a unit vector: for a copy, and for a question
SOFT_HYPHEN = "\u00ad"
LONG = 8  # characters from which on a word is hyphenated
SHOUTED = 4  # letters from which on a word is put in capitals


def seeded_set() -> LabelledSet:
    """Raises CorpusDamagedError."""
    corpus = load()
    base = _alone(corpus.chunks, corpus.vectors)
    chunks, vectors = [corpus.chunks[row] for row in base], corpus.vectors[base]
    width = vectors.shape[1]
    rng = np.random.default_rng(100)
    chosen = np.linspace(0, len(chunks) - 1, QUESTIONS).astype(int).tolist()
    times = rng.integers(0, len(COPIES) + 1, len(chunks))
    times[chosen] = len(COPIES)
    items = [_variant(chunk, chunk.text, row, 0) for row, chunk in enumerate(chunks)]
    of_chunk = [[row] for row in range(len(chunks))]
    for row, chunk in enumerate(chunks):
        for number, copied in enumerate(COPIES[: int(times[row])], start=1):
            of_chunk[row].append(len(items))
            items.append(_variant(chunk, copied(chunk.text), row, number))
    copies = np.repeat(vectors, times, axis=0)
    rows_by_name = {f"chunk {row}": frozenset(of_chunk[row]) for row in chosen}
    queries = tuple(
        Query(subtopics={name: rows}, relevant=rows, candidates=None) for name, rows in rows_by_name.items()
    )
    questions = unit(vectors[chosen] + _noise(rng, QUESTIONS, width, QUESTION_NOISE))
    return LabelledSet(
        name="seeded",
        items=tuple(items),
        queries=queries,
        vectors=np.concatenate((vectors, unit(copies + _noise(rng, len(copies), width, NOISE)))),
        query_vectors=questions,
    )


def _alone(chunks: Sequence[Chunk], vectors: Vectors) -> list[int]:
    """The rows with a text and a vector of their own: which of two equal rows answers a question is undefined."""
    texts = Counter(chunk.text for chunk in chunks)
    rows = Counter(row.tobytes() for row in vectors)
    return [row for row, chunk in enumerate(chunks) if texts[chunk.text] == 1 == rows[vectors[row].tobytes()]]


def with_header(text: str) -> str:
    """With soft hyphens and a running header."""
    words = (word[:4] + SOFT_HYPHEN + word[4:] if len(word) >= LONG else word for word in text.split())
    return f"The handbook, second edition    page 12\n{' '.join(words)}"


def set_otherwise(text: str) -> str:
    """In short lines, with plain words in capitals: case counts in names of code."""
    words = [word.upper() if word.isalpha() and len(word) >= SHOUTED else word for word in text.split()]
    return "\n".join(" ".join(words[at : at + 9]) for at in range(0, len(words), 9))


COPIES: Sequence[Callable[[str], str]] = (lambda text: text, with_header, set_otherwise)


def _noise(rng: np.random.Generator, count: int, width: int, length: float) -> Vectors:
    """(count, width) random rows of about this length."""
    drawn: Vectors = rng.normal(scale=length / np.sqrt(width), size=(count, width)).astype(np.float32)
    return drawn


def _variant(chunk: Chunk, text: str, row: int, number: int) -> Item:
    document = f"{chunk.document}#{row}.{number}"
    payload = {"text": text, "title": chunk.title, "doc_id": document}
    encoded = {name: msgspec.json.encode(value) for name, value in payload.items()}
    return Item(doc=document, atoms=(f"chunk {row}",), payload=encoded)
