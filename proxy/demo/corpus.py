"""The committed demo data, loaded and checked: chunks of real text, real questions, and the vectors of both.

Rule of this file: what is in ``data/`` is the truth; nothing here computes an embedding.
"""

from __future__ import annotations

import gzip
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


class CorpusDamaged(Exception):  # noqa: N818 - names what happened to the data
    """A file of the demo data is missing, unreadable or disagrees with another. The message names it."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """About 100 words. ``document``: page or qualified name; ``title``: what they describe; ``position``: number in the document."""

    text: str
    source: Literal["docs", "docstring"]
    document: str
    title: str
    position: int

    def payload(self) -> dict[str, object]:
        """What a point carries in the collection."""
        return msgspec.structs.asdict(self)


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a developer asks; its number is its line, from 1."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """``vectors``: (chunks, d) float32 of unit length, row i for chunk i; ``question_vectors``: likewise."""

    chunks: tuple[Chunk, ...]
    vectors: Vectors
    questions: tuple[Question, ...]
    question_vectors: Vectors


def load(directory: Path = DATA_DIRECTORY) -> Corpus:
    """Read and check the data. Raises CorpusDamaged, nothing else."""
    try:
        chunks = _rows(gzip.decompress((directory / CHUNKS_FILE).read_bytes()), Chunk)
        questions = _rows((directory / QUESTIONS_FILE).read_bytes(), Question)
        vectors = np.load(directory / CHUNK_VECTORS_FILE, allow_pickle=False)
        question_vectors = np.load(directory / QUESTION_VECTORS_FILE, allow_pickle=False)
    except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
        raise CorpusDamaged(f"demo data in {directory} cannot be read: {error}") from error
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
        raise CorpusDamaged(f"{name}: want float16 of shape ({rows}, d) with rows, found {stored.dtype} {stored.shape}")
    vectors = stored.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1.0) < _UNIT_TOLERANCE):  # also false for NaN
        raise CorpusDamaged(f"{name}: want vectors of length 1, found {lengths.min():.3f} to {lengths.max():.3f}")
    vectors /= lengths[:, None]
    return vectors
