"""Pools kept for the inspector: of texts that a test names, and of the demo's questions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from support.selection.texts import as_texts
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import policy_of
from vecsieve.config.schema import RuleSettings
from vecsieve.proxy.admin.pools import KeptPool, keeping
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric, finished

CORPUS = load()
POOL, TOP_K = 40, 8
# Together some eighty words, so that two results may hold one text together.
SENTENCES = (
    "Insert item x in list a and keep it sorted, whatever the items of the list are and however long it is.",
    "It is assumed that list a is sorted already before the call, because the place of the item is found by halving it.",
    "If x is there already, the place is to the right of all that are equal, so that the order of insertion is kept.",
    "Slice bounds lo and hi limit the part of the list that is searched, and by default the whole list is used.",
)
EDITED = (" ".join(SENTENCES), " ".join(SENTENCES).replace("the list that is searched", "the list is searched"))


def of_preset(name: str) -> Policy:
    rule = RuleSettings.model_validate({"preset": name})
    return resolved(policy_of(PolicySettings(), rule), mode=None).selection


def pool_of(*texts: str | None, **members: Any) -> Candidates:
    """Candidates with these texts and vectors at right angles."""
    n = len(texts)
    known: dict[str, Any] = {
        "scores": np.linspace(1.0, 0.5, n),
        "vectors": np.eye(n, n + 1, dtype=np.float32),
        "metric": Metric.COSINE,
        "metadata": Metadata(texts=as_texts(texts)),
    }
    return Candidates(**known | members)


@cache
def demo_pool(question: int, size: int = POOL) -> Candidates:
    """What a search for one of the demo's questions fetches, with its texts."""
    query = CORPUS.question_vectors[question]
    similarities = CORPUS.vectors @ query
    rows = np.argsort(-similarities, kind="stable")[:size]
    return Candidates(
        scores=similarities[rows].astype(np.float64),
        vectors=np.ascontiguousarray(CORPUS.vectors[rows]),
        metric=Metric.COSINE,
        query=query,
        metadata=Metadata(texts=as_texts(CORPUS.chunks[row].text for row in rows.tolist())),
    )


def kept(candidates: Candidates, *, preset: str = "default", top_k: int = TOP_K, offset: int | None = None) -> KeptPool:
    return finished(keeping(candidates, top_k=top_k, policy=of_preset(preset), offset=offset))
