"""Texts that may be of one template, in a pool of unrelated ones."""

from __future__ import annotations

import numpy as np

from support.texts import as_texts
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric, Selection

POLICY = Policies(Settings()).resolve("qdrant", "c").selection


def chosen(texts: list[str], *, apart: float = 0.02) -> Selection:
    """What is chosen from texts whose vectors are as near as those of copies, among unrelated ones."""
    others = [
        f"{word} is about something else altogether, {word}"
        for word in ("apples", "violins", "glaciers", "taxes", "bees", "ships")
    ]
    draw = np.random.default_rng(0)
    base, noise = draw.normal(size=64), draw.normal(size=(len(texts), 64))
    vectors = np.concatenate((base + apart * noise, draw.normal(size=(len(others), 64)))).astype(np.float32)
    scores = np.linspace(1.0, 0.5, len(vectors))
    pool = Candidates(
        scores=scores, vectors=vectors, metric=Metric.COSINE, metadata=Metadata(texts=as_texts([*texts, *others]))
    )
    return select(pool, top_k=len(texts), policy=POLICY)
