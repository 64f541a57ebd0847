"""The benchmark's corpora and questions, chunks of them, and embeddings.

The data are the benchmark's own files: ``corpora/*.md`` and ``questions_df.csv`` with character ranges of excerpts. They are not in this repository.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Matrix]
"""Embeddings of texts, (n, d)."""

# The corpora on which a choice may be made; the other three are reported apart.
DEVELOPMENT = ("state_of_the_union", "wikitexts")
TOKEN = re.compile(r"\w+|[^\w\s]")
SHINGLE = 5  # words that stand together: fewer are common phrases
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage that answers a question. ``start``, ``end``: characters in its corpus."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Question:
    text: str
    corpus: str
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True)
class Chunk:
    """``start``, ``end``: characters in the corpus."""

    corpus: str
    start: int
    end: int
    text: str

    @cached_property
    def shingles(self) -> frozenset[tuple[str, ...]]:
        """Its runs of SHINGLE words, without case."""
        return frozenset(shingles(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    corpora: dict[str, str]
    questions: tuple[Question, ...]


def shingles(text: str) -> list[tuple[str, ...]]:
    """The runs of SHINGLE words of a text, without case and marks; the whole of a shorter text."""
    words = re.findall(r"\w+", text.lower())
    if len(words) <= SHINGLE:
        return [tuple(words)] if words else []
    return list(zip(*(words[start:] for start in range(SHINGLE)), strict=False))


def read(folder: Path) -> Benchmark:
    """Raises OSError, ValueError for a file that is none of the benchmark's."""
    corpora = {path.stem: path.read_text(encoding="utf-8") for path in sorted((folder / "corpora").glob("*.md"))}
    questions: list[Question] = []
    with (folder / "questions_df.csv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            excerpts = [
                Excerpt(one["start_index"], one["end_index"], one["content"]) for one in json.loads(row["references"])
            ]
            questions.append(Question(row["question"], row["corpus_id"], tuple(excerpts)))
    if not corpora or not questions:
        raise ValueError(f"{folder} has no corpora, or no questions")
    return Benchmark(corpora=corpora, questions=tuple(questions))


def chunks_of(benchmark: Benchmark, *, size: int, overlap: int) -> list[Chunk]:
    """Windows of ``size`` tokens, each sharing ``overlap`` percent with the one before it. A token is a word or a mark."""
    return [chunk for corpus, text in benchmark.corpora.items() for chunk in _chunks(corpus, text, size, overlap)]


def _chunks(corpus: str, text: str, size: int, overlap: int) -> Iterator[Chunk]:
    spans = [match.span() for match in TOKEN.finditer(text)]
    step = max(1, size - size * overlap // 100)
    for first in range(0, max(1, len(spans) - (size - step)), step):
        window = spans[first : first + size]
        start, end = window[0][0], window[-1][1]
        yield Chunk(corpus, start, end, text[start:end])


def embedded(texts: Sequence[str], embed: Embed, name: str, cache: Path) -> Matrix:
    """The embeddings of texts, of length one, kept in a file by their content."""
    digest = hashlib.sha256("\0".join((name, *texts)).encode()).hexdigest()[:24]
    kept = cache / f"{digest}.npy"
    if kept.is_file():
        vectors: Matrix = np.load(kept)
        return vectors
    parts = [np.asarray(embed(texts[at : at + _BATCH]), np.float32) for at in range(0, len(texts), _BATCH)]
    rows = np.concatenate(parts)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cache.mkdir(parents=True, exist_ok=True)
    np.save(kept, rows)
    return rows
