"""`python -m quality.other_words MODULE:FUNCTION [FOLDER]`: of pairs of sentences (sentences.py), how many lose one, by the default policy.

FUNCTION gets a list of n texts and returns their embeddings (n, d). FOLDER: the same embeddings of the labelled sets, by set; by default the
sets' own. Each pair stands among the 48 texts of all sets that are nearest to its first sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import msgspec
import numpy as np
from quality.sentences import FIRST, LACKING, SECOND, Pairs

from support.jobs.eval_data import folder
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.selection.reading.text import Text
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Metadata, Metric

POLICY = Policies(Settings()).resolve("qdrant", "c").selection
SHARED_FOLDER, TOP_K = 48, 8

Embed = Callable[[Sequence[str]], FloatMatrix]


class _Row(msgspec.Struct):
    text: str


def background(embeddings: Path | None = None) -> tuple[list[str], FloatMatrix]:
    """The texts of all labelled sets and their embeddings (n, d), of length one. Raises FileNotFoundError."""
    data = folder()
    if data is None:
        raise FileNotFoundError("no labelled sets: VECSIEVE_EVAL_DATA names their folder")
    texts: list[str] = []
    rows: list[FloatMatrix] = []
    for corpus in sorted(data.glob("*/corpus.jsonl")):
        path = (embeddings or data) / corpus.parent.name / "corpus.f16.npy"
        if not path.exists():
            continue
        lines = [msgspec.json.decode(line, type=_Row).text for line in corpus.read_bytes().splitlines()]
        rows.append(np.load(path)[: len(lines)].astype(np.float32))
        texts += lines
    return texts, unit(np.concatenate(rows))


def unit(rows: FloatMatrix) -> FloatMatrix:
    """Rows of length one; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def losing(
    pairs: Pairs, embed: Embed, candidates: tuple[list[str], FloatMatrix], *, followed: str = ""
) -> list[tuple[str, str]]:
    """The pairs of which one sentence is not among the results."""
    texts, vectors = candidates
    return [
        pair for pair in pairs if _loses([f"{sentence} {followed}".strip() for sentence in pair], embed, texts, vectors)
    ]


def _loses(pair: list[str], embed: Embed, texts: list[str], vectors: FloatMatrix) -> bool:
    pair_vectors = unit(np.asarray(embed(pair), np.float32))
    near = np.argsort(-(vectors @ pair_vectors[0]), kind="stable")[:SHARED_FOLDER]
    rows = np.concatenate((pair_vectors, vectors[near]))
    scores = (rows @ pair_vectors[0]).astype(np.float64)
    order = np.argsort(-scores, kind="stable")
    sentences = [*pair, *(texts[row] for row in near.tolist())]
    pool = Candidates(
        scores=scores[order],
        vectors=np.ascontiguousarray(rows[order]),
        metric=Metric.COSINE,
        metadata=Metadata(texts=tuple(Text(sentences[place]) for place in order.tolist())),
    )
    kept = order[select(pool, top_k=TOP_K, policy=POLICY).keep].tolist()
    return not {0, 1} <= set(kept)


def main() -> int:
    """Print one line for each kind of pairs."""
    module, _, function = sys.argv[1].partition(":")
    embed: Embed = getattr(import_module(module), function)
    candidates = background(Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    for sentences in (FIRST, SECOND, LACKING):
        for kind, pairs in (("another meaning", sentences.different), ("reworded", sentences.reworded)):
            as_they_are, followed = (
                len(losing(pairs, embed, candidates, followed=after)) for after in ("", sentences.followed)
            )
            print(
                f"{sentences.name}, {kind}: {as_they_are} of {len(pairs)} lose one; followed by the same text {followed}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
