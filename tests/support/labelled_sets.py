"""Labelled retrieval sets with real embeddings, when they are on this machine, and what a policy scores on them.

The sets are not part of the project (their licences differ). VECSIEVE_EVAL_DATA names their folder; without it, the
folder ``shared/data`` beside the checkout is tried. They bring their own metrics, which are loaded by path.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
POOL = 40
TOP_K = 8
# Sets whose plain top-8 holds more than 10 % redundant items: elsewhere a reduction is a quotient of noise.
REDUNDANT = 0.10

Run = list[list[int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One set under one policy, beside the plain top-8 of the same queries."""

    name: str
    queries: int
    retention: float
    redundancy: float
    plain_redundancy: float
    recall: float
    plain_recall: float
    returned: float

    @property
    def reduction(self) -> float | None:
        """Share of the redundancy that is gone, or None where there was hardly any."""
        return None if self.plain_redundancy <= REDUNDANT else 1.0 - self.redundancy / self.plain_redundancy

    @property
    def gain(self) -> float:
        """Subtopic recall gained over the plain top-8."""
        return self.recall - self.plain_recall


def folder() -> Path | None:
    """Where the sets are, or None."""
    found = Path(os.environ.get("VECSIEVE_EVAL_DATA", BESIDE))
    return found if (found / "quality.py").exists() else None


def names(data: Path) -> list[str]:
    """Every retrieval set of the folder."""
    return sorted(path.parent.name for path in data.glob("*/queries.jsonl"))


def score(data: Path, name: str, policies: dict[str, Policy], *, every: int = 1) -> dict[str, Outcome]:
    """Each policy's outcome on one set; ``every`` = 3 takes every third query."""
    metrics = _metrics(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # their reader leaves its files to the garbage collector
        collection = metrics.Collection(str(data / name))
    collection.queries = collection.queries[::every]
    collection.qemb = collection.qemb[::every]
    rows, scores = collection.knn(POOL)
    plain = [[int(row) for row in line[:TOP_K] if row >= 0] for line in rows]
    before = metrics.evaluate(collection, plain, plain, TOP_K)
    return {
        label: _outcome(
            name, before, metrics.evaluate(collection, _run(collection, rows, scores, policy), plain, TOP_K), len(plain)
        )
        for label, policy in policies.items()
    }


def _run(collection: Any, rows: Any, scores: Any, policy: Policy) -> Run:
    chosen: Run = []
    for query, line, values in zip(collection.qemb, rows, scores, strict=True):
        there = line >= 0
        candidates = Candidates(
            scores=values[there].astype(np.float64),
            vectors=collection.emb[line[there]],
            magnitude=False,
            query=query,
        )
        chosen.append([int(line[there][i]) for i in select(candidates, top_k=TOP_K, policy=policy).keep])
    return chosen


def _outcome(name: str, before: dict[str, float], after: dict[str, float], queries: int) -> Outcome:
    return Outcome(
        name=name,
        queries=queries,
        retention=after["retain"],
        redundancy=after["redundancy"],
        plain_redundancy=before["redundancy"],
        recall=after["s_recall"],
        plain_recall=before["s_recall"],
        returned=after["n"],
    )


def _metrics(data: Path) -> Any:
    spec = importlib.util.spec_from_file_location("labelled_set_metrics", data / "quality.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mean(values: list[float]) -> float:
    """Arithmetic mean; NaN of nothing."""
    return sum(values) / len(values) if values else float("nan")


def table(label: str, outcomes: list[Outcome], write: Callable[[str], object]) -> None:
    """Write one policy's table, a line a set, means last."""
    write(f"\n{label}: pool {POOL}, top_k {TOP_K}")
    write(
        f"{'set':<16}{'queries':>8}{'retention':>11}{'redundancy':>12}{'was':>8}{'reduction':>11}{'S-recall':>10}{'gain':>9}{'returned':>10}"
    )
    for one in outcomes:
        cut = "-" if one.reduction is None else f"{one.reduction:.3f}"
        write(
            f"{one.name:<16}{one.queries:>8}{one.retention:>11.3f}{one.redundancy:>12.3f}{one.plain_redundancy:>8.3f}"
            f"{cut:>11}{one.recall:>10.3f}{one.gain:>+9.3f}{one.returned:>10.2f}"
        )
    reduction = mean([one.reduction for one in outcomes if one.reduction is not None])
    write(
        f"{'worst / mean':<16}{'':>8}{min(one.retention for one in outcomes):>11.3f}{'':>12}{'':>8}"
        f"{reduction:>11.3f}{'':>10}{mean([one.gain for one in outcomes]):>+9.3f}{'':>10}"
    )
