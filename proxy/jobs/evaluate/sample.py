"""The labelled set that comes with the package, so that `vecsieve evaluate` runs without data: from the demo's own texts.

Items are the functions and methods of Python's library that are described twice: in one chunk of a documentation page and in one
docstring. The two are labelled as one thing. A query asks for a whole module or class (the mean of its items' vectors), and each of
its functions is a need. The labels come from the names alone. They are good for a first look and no benchmark: both halves of a
pair were written by the same people, and the vectors are of one model.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from vecsieve.proxy.demo.corpus import Chunk, load
from vecsieve.proxy.jobs.evaluate.reading import Item, LabelledSet, Query, unit

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
