"""Ranked records: distances, probes, embeddings of text and reranking."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from servers.pinecone.errors import invalid
from servers.pinecone.shapes import Reals
from servers.pinecone.store import DENSE, SPARSE, Dense, Description, Index, Namespace, Record, Sparse

# Exact nearest neighbours. Equal scores keep the order the records were first written in.


class Scored(NamedTuple):
    """A record and its score, a float32 widened to a Python float."""

    record: Record
    score: float


Passing = Callable[[Record], bool]


def nearest(
    namespace: Namespace, field: Dense, probe: Reals, passing: Passing, *, sparse: Sparse | None = None
) -> list[Scored]:
    """Every passing record with this dense field, the closest first. A sparse probe adds its dot product (hybrid).

    Lower is closer under `euclidean`, whose score is the squared distance.
    """
    records, matrix = namespace.stacked(field.name)
    if not records:
        return []
    scores = _dense_scores(field.metric, matrix, probe.astype(np.float64))
    if sparse is not None:
        scores += [sparse_dot(sparse, record.sparse.get(SPARSE)) for record in records]
    hits = [
        Scored(record, float(np.float32(score)))
        for record, score in zip(records, scores, strict=True)
        if passing(record)
    ]
    return ordered(hits, is_distance=field.metric == "euclidean")


def nearest_sparse(namespace: Namespace, name: str, probe: Sparse, passing: Passing) -> list[Scored]:
    """Every passing record with this sparse field, the highest dot product first.

    A record that shares no index with the probe is found with a score of 0: the official client's own tests search for
    words that no record has, and wait for hits.
    """
    having = [(record, record.sparse[name]) for record in namespace.records.values() if name in record.sparse]
    return ordered(
        [Scored(record, float(np.float32(sparse_dot(probe, sparse)))) for record, sparse in having if passing(record)]
    )


def ordered(hits: list[Scored], *, is_distance: bool = False) -> list[Scored]:
    """Best first; the sort is stable."""
    return sorted(hits, key=lambda item: item.score if is_distance else -item.score)


def sparse_dot(one: Sparse, other: Sparse | None) -> float:
    """The dot product of two sparse vectors; 0 when one is missing."""
    if other is None:
        return 0.0
    weights: dict[int, float] = dict(zip(one.indices, one.values.tolist(), strict=True))
    pairs: list[tuple[int, float]] = list(zip(other.indices, other.values.tolist(), strict=True))
    return sum(weights.get(index, 0.0) * value for index, value in pairs)


def _dense_scores(metric: str, matrix: NDArray[np.float64], probe: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shape (records,), from (records, dimension) and (dimension,)."""
    if metric == "euclidean":
        return np.asarray(((matrix - probe) ** 2).sum(axis=1))
    dots = np.asarray(matrix @ probe)
    if metric == "dotproduct":
        return dots
    norms = np.linalg.norm(matrix, axis=1) * np.linalg.norm(probe)
    return np.asarray(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0))


# What a search looks for: a vector, two, or those of a record; checked against the index and ranked.


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The vectors to look for. Either may be missing."""

    dense: Reals | None = None
    sparse: Sparse | None = None


def ranked(index: Index, name: str, probe: Probe, passing: Passing) -> list[Scored]:
    """Every passing record of a namespace, the best first; none when the probe has nothing for this index."""
    namespace = index.namespace(name)
    field = index.description.dense().get(DENSE)
    if namespace is None:
        return []
    if field is not None:
        return [] if probe.dense is None else nearest(namespace, field, probe.dense, passing, sparse=probe.sparse)
    return [] if probe.sparse is None else nearest_sparse(namespace, SPARSE, probe.sparse, passing)


def probe_of_id(index: Index, name: str, identifier: str) -> Probe | None:
    """A record's own vectors; None when there is no such record."""
    namespace = index.namespace(name)
    record = None if namespace is None else namespace.records.get(identifier)
    return None if record is None else Probe(dense=record.dense.get(DENSE), sparse=record.sparse.get(SPARSE))


def checked(description: Description, probe: Probe) -> Probe:
    """The probe, which must fit the index."""
    if probe.dense is None and probe.sparse is None:
        raise invalid("Missing a query vector: one of vector, sparseVector and id is wanted.")
    field = description.dense().get(DENSE)
    if field is None:
        if probe.dense is not None or probe.sparse is None:
            raise invalid("Cannot query a sparse index with a dense vector")
        return probe
    if probe.dense is None:
        raise invalid("Cannot query a dense index with only a sparse vector")
    check_dense(field, len(probe.dense))
    if probe.sparse is not None and field.metric != "dotproduct":
        raise invalid("Index configuration does not support sparse values - only dotproduct indexes do")
    return probe


def check_dense(field: Dense, length: int) -> None:
    """Refuse a vector of another length than the index has."""
    if length != field.dimension:
        raise invalid(f"Vector dimension {length} does not match the dimension of the index {field.dimension}")


# A toy embedder: words, hashed. It knows nothing of meaning, but texts that share words lie close, and the same text always gives the same vector.


_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return _WORD.findall(text.lower())


def embed_dense(text: str, dimension: int) -> Reals:
    """A unit vector, shape (dimension,): every word adds its sign to its place. A text without words points at place 0."""
    vector = np.zeros(dimension, dtype=np.float64)
    for word in words(text):
        number = _hash(word)
        vector[(number >> 1) % dimension] += 1.0 if number & 1 else -1.0
    if not vector.any():
        vector[0] = 1.0
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def embed_sparse(text: str) -> Sparse | None:
    """Each word's hash with 1 + ln(how often it stands there); None for a text without words."""
    counted = Counter(_hash(word) & 0xFFFFFFFF for word in words(text))
    if not counted:
        return None
    places = sorted(counted)
    weights = np.array([1.0 + math.log(counted[place]) for place in places], dtype=np.float32)
    return Sparse(indices=tuple(places), values=weights)


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


# A toy reranker: the share of the question's words that a text has, and a little for being short.


def relevance(question: str, text: str) -> float:
    """From 0 to 1, a float32 widened to a Python float; the same texts always score the same."""
    terms, given = set(words(question)), words(text)
    shared = terms & set(given)
    if not shared:
        return 0.0
    return float(np.float32(0.99 * len(shared) / len(terms) + 0.01 / len(given)))


def reranked(question: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """Places and scores, the most relevant first; equals keep their order."""
    scored = [(place, relevance(question, text)) for place, text in enumerate(texts)]
    return sorted(scored, key=lambda item: -item[1])
