"""The demo data in the repository: chunks of real text, questions, and the vectors of both; and the choice of a question.

No embedding is computed here: the vectors are part of the data.
"""

from __future__ import annotations

import gzip
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

DATA_DIRECTORY = Path(__file__).parent / "data"
CHUNKS_FILE = "corpus.jsonl.gz"
CHUNK_VECTORS_FILE = "corpus.f16.npy"
QUESTIONS_FILE = "questions.jsonl"
QUESTION_VECTORS_FILE = "questions.f16.npy"
_UNIT_TOLERANCE = 2e-3  # float16 keeps 11 bits: a unit vector of 384 such numbers has length 1 within 3e-4

Vectors = npt.NDArray[np.float32]
_Row = TypeVar("_Row", bound=msgspec.Struct)


class CorpusDamagedError(Exception):
    """A file of the demo data is missing, unreadable or inconsistent with another. The message names it."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """About 100 words. ``document``: page or qualified name. ``title``: what it describes. ``position``: its number in the document."""

    text: str
    source: Literal["docs", "docstring"]
    document: str
    title: str
    position: int

    def payload(self) -> dict[str, object]:
        return msgspec.structs.asdict(self)


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question of a developer. Questions are numbered by line, from 1."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """``vectors``: (chunks, d) float32 of unit length, row i for chunk i; ``question_vectors``: likewise."""

    chunks: tuple[Chunk, ...]
    vectors: Vectors
    questions: tuple[Question, ...]
    question_vectors: Vectors


def load(directory: Path = DATA_DIRECTORY) -> Corpus:
    """Raises CorpusDamagedError, nothing else."""
    try:
        chunks = _rows(gzip.decompress((directory / CHUNKS_FILE).read_bytes()), Chunk)
        questions = _rows((directory / QUESTIONS_FILE).read_bytes(), Question)
        vectors = np.load(directory / CHUNK_VECTORS_FILE, allow_pickle=False)
        question_vectors = np.load(directory / QUESTION_VECTORS_FILE, allow_pickle=False)
    except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
        raise CorpusDamagedError(f"demo data in {directory} cannot be read: {error}") from error
    return Corpus(
        chunks=chunks,
        vectors=_checked(vectors, CHUNK_VECTORS_FILE, rows=len(chunks)),
        questions=questions,
        question_vectors=_checked(question_vectors, QUESTION_VECTORS_FILE, rows=len(questions)),
    )


def _rows(data: bytes, kind: type[_Row]) -> tuple[_Row, ...]:
    return tuple(msgspec.json.decode(line, type=kind) for line in data.splitlines())


def _checked(stored: npt.NDArray[np.generic], name: str, *, rows: int) -> Vectors:
    if stored.dtype != np.float16 or stored.ndim != 2 or len(stored) != rows or rows == 0:
        raise CorpusDamagedError(
            f"{name}: want float16 of shape ({rows}, d) with rows, found {stored.dtype} {stored.shape}"
        )
    vectors = stored.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1.0) < _UNIT_TOLERANCE):  # also false for NaN
        raise CorpusDamagedError(f"{name}: want vectors of length 1, found {lengths.min():.3f} to {lengths.max():.3f}")
    vectors /= lengths[:, None]
    return vectors


_NUMBER = re.compile(r"[+-]?\d{1,100}")  # int() refuses texts of thousands of digits
_WORD = re.compile(r"[a-z0-9]+")


class UnknownQuestionError(Exception):
    """No such question. The message lists the questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """``index``: row of the question. ``remark``: for the user, on how it was chosen; None for nothing."""

    index: int
    remark: str | None = None


def choose(questions: Sequence[str], query: str) -> Choice:
    """The question with that number (from 1), or the one with the most words in common with a text, weighted by idf.

    Raises UnknownQuestionError for a number out of range and for a text without a common word.
    """
    if _NUMBER.fullmatch(query.strip()):
        number = int(query)
        if not 1 <= number <= len(questions):
            raise UnknownQuestionError(_listing(questions, f"no question {number}: want 1 to {len(questions)}"))
        return Choice(index=number - 1)
    return _by_words(questions, query)


def _by_words(questions: Sequence[str], text: str) -> Choice:
    words = _words(text)
    bags = [_words(question) for question in questions]
    weights = _idf(bags)
    # sorted(): a sum of floats depends on the order, and a set has none.
    overlaps = [sum(weights[word] for word in sorted(words & bag)) for bag in bags]
    best = max(range(len(questions)), key=overlaps.__getitem__, default=None)
    if best is None or overlaps[best] == 0.0:
        raise UnknownQuestionError(_listing(questions, f"no listed question shares a significant word with {text!r}"))
    if words == bags[best]:
        return Choice(index=best)
    remark = (
        "The demo ships no embedding model, so it cannot embed your text: "
        f"instead it asks listed question {best + 1}, the nearest by common words."
    )
    return Choice(index=best, remark=remark)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _idf(bags: Sequence[frozenset[str]]) -> dict[str, float]:
    """Inverse document frequency; 0 for a word of more than half of the questions ("how", "do", "a")."""
    counts = Counter(word for bag in bags for word in bag)
    half = len(bags) / 2
    return {word: 0.0 if count > half else math.log(1 + len(bags) / count) for word, count in counts.items()}


def _listing(questions: Sequence[str], problem: str) -> str:
    lines = [f"  {number:2}  {question}" for number, question in enumerate(questions, 1)]
    return "\n".join([problem, "The questions are:", *lines])
