"""The labelled sets that come with the package, made of the demo's own texts. The sample set is there so that `vecsieve evaluate` runs without data.

Items are the functions and methods of Python's library that are described twice: in one chunk of a documentation page and in one
docstring. The two are labelled as one thing. A query asks for a whole module or class (the mean of its items' vectors), and each of
its functions is a need. The labels come from the names alone. They are good for a first look and no benchmark: both halves of a
pair were written by the same people, and the vectors are of one model.

The seeded set has known copies, for the gates: the chunk that answers one of its 100 questions is there four times, any other once to
four times, each as a document of its own. The copies are what ingestion makes of one text: the same under another address, one with
soft hyphens and a running header, one with another layout and letter case. Their vectors differ from the original's as those of an
embedding model would. A question's vector is near its chunk's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from vecsieve.proxy.demo.corpus import Chunk, load
from vecsieve.proxy.jobs.evaluate.reading import Item, LabelledSet, Query, Vectors, unit

NAME = "sample"
FEWEST_NEEDS = 2  # of a query: with one there is nothing to choose from


def sample_set() -> LabelledSet:
    """Raises CorpusDamagedError."""
    corpus = load()
    of_title: defaultdict[str, list[int]] = defaultdict(list)
    for row, chunk in enumerate(corpus.chunks):
        of_title[chunk.title].append(row)
    twice = {
        title: rows
        for title, rows in of_title.items()
        if sorted(corpus.chunks[row].source for row in rows) == ["docs", "docstring"]
    }
    kept = sorted(row for rows in twice.values() for row in rows)
    place = {row: number for number, row in enumerate(kept)}
    of_owner: defaultdict[str, dict[str, frozenset[int]]] = defaultdict(dict)
    for title, rows in sorted(twice.items()):
        of_owner[title.rpartition(".")[0]][title] = frozenset(place[row] for row in rows)
    needs = [found for owner, found in sorted(of_owner.items()) if owner and len(found) >= FEWEST_NEEDS]
    queries = tuple(
        Query(subtopics=found, relevant=frozenset().union(*found.values()), candidates=None) for found in needs
    )
    vectors = corpus.vectors[kept]
    return LabelledSet(
        name=NAME,
        items=tuple(_item(corpus.chunks[row]) for row in kept),
        queries=queries,
        vectors=vectors,
        query_vectors=unit(np.stack([vectors[sorted(query.relevant)].mean(axis=0) for query in queries])),
    )


def _item(chunk: Chunk) -> Item:
    payload = {name: msgspec.json.encode(value) for name, value in chunk.payload().items()}
    return Item(doc=chunk.document, atoms=(chunk.title,), payload=payload)


QUESTIONS = 100
NOISE, ASKED = 0.04, 0.45  # lengths of what is added to a unit vector: for a copy, and for a question
SOFT_HYPHEN = "\u00ad"
LONG = 8  # characters of a word that is hyphenated


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
    found = {f"chunk {row}": frozenset(of_chunk[row]) for row in chosen}
    queries = tuple(Query(subtopics={name: rows}, relevant=rows, candidates=None) for name, rows in found.items())
    asked = unit(vectors[chosen] + _noise(rng, QUESTIONS, width, ASKED))
    return LabelledSet(
        name="seeded",
        items=tuple(items),
        queries=queries,
        vectors=np.concatenate((vectors, unit(copies + _noise(rng, len(copies), width, NOISE)))),
        query_vectors=asked,
    )


def _alone(chunks: Sequence[Chunk], vectors: Vectors) -> list[int]:
    """The rows with a text and a vector of their own: which of two equal ones answers a question nobody could say."""
    texts = Counter(chunk.text for chunk in chunks)
    rows = Counter(row.tobytes() for row in vectors)
    return [row for row, chunk in enumerate(chunks) if texts[chunk.text] == 1 == rows[vectors[row].tobytes()]]


def as_it_is(text: str) -> str:
    """The same text, under another address."""
    return text


def with_header(text: str) -> str:
    """With soft hyphens and a running header."""
    words = (word[:4] + SOFT_HYPHEN + word[4:] if len(word) >= LONG else word for word in text.split())
    return f"The handbook, second edition\n{' '.join(words)}"


def set_otherwise(text: str) -> str:
    """In short lines of capitals."""
    words = text.split()
    return "\n".join(" ".join(words[at : at + 9]) for at in range(0, len(words), 9)).upper()


COPIES: Sequence[Callable[[str], str]] = (as_it_is, with_header, set_otherwise)


def _noise(rng: np.random.Generator, count: int, width: int, length: float) -> Vectors:
    """(count, width) rows of about this length."""
    drawn: Vectors = rng.normal(scale=length / np.sqrt(width), size=(count, width)).astype(np.float32)
    return drawn


def _variant(chunk: Chunk, text: str, row: int, number: int) -> Item:
    document = f"{chunk.document}#{row}.{number}"
    payload = {"text": text, "title": chunk.title, "doc_id": document}
    told = {name: msgspec.json.encode(value) for name, value in payload.items()}
    return Item(doc=document, atoms=(f"chunk {row}",), payload=told)
