"""Pools for selection tests: random topics with planted near and exact copies, and spelled-out small ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from vecsieve.proxy.selection.paged import paging
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Metric, Selection, finished


def pool(vectors: object, scores: Sequence[float] | None = None, **more: Any) -> Candidates:
    """Candidates of these vectors; scores fall from 1 unless given. ``more``: the other members of Candidates."""
    rows = np.asarray(vectors, dtype=np.float32)
    falling = np.linspace(1.0, 0.5, len(rows)) if scores is None else np.asarray(scores, dtype=np.float64)
    return Candidates(scores=falling, vectors=rows, **{"metric": Metric.COSINE, **more})


def angles(*degrees: float) -> FloatMatrix:
    """Unit vectors in the plane (n, 2): their cosine distances can be read off the angles between them."""
    radians = np.radians(np.array(degrees, dtype=np.float64))
    return np.stack((np.cos(radians), np.sin(radians)), axis=1).astype(np.float32)


@st.composite
def planted(draw: st.DrawFn, *, smallest: int = 0, largest: int = 60) -> FloatMatrix:
    """(n, d) float32: some topics, each with near copies at random spreads and with exact copies, in random order."""
    n = draw(st.integers(smallest, largest))
    d = draw(st.integers(2, 24))
    topics = draw(st.integers(1, max(1, n)))
    spread = draw(st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    centres = random.standard_normal((topics, d))
    rows = centres[random.integers(0, topics, n)] + spread * random.standard_normal((n, d))
    copies = random.integers(0, n, n // 5) if n else np.empty(0, np.intp)
    rows[random.permutation(n)[: len(copies)]] = rows[copies]
    return rows.astype(np.float32)


@st.composite
def damaged(draw: st.DrawFn, *, smallest: int = 0, largest: int = 60) -> FloatMatrix:
    """Planted rows, some of which are zero, NaN, infinite, tiny or huge."""
    rows = draw(planted(smallest=smallest, largest=largest)).copy()
    for i in range(len(rows)):
        kind = draw(st.sampled_from(["as is"] * 6 + ["zero", "nan", "infinite", "tiny", "huge"]))
        with np.errstate(under="ignore"):
            rows[i] *= np.float32({"zero": 0.0, "tiny": 1e-30, "huge": 1e30}.get(kind, 1.0))
        if kind in {"nan", "infinite"}:
            rows[i, 0] = np.float32(kind if kind == "nan" else "inf")
    return rows


def page(candidates: Candidates, *, top_k: int, offset: int, policy: Policy, exhausted: bool) -> Selection:
    """A page of the deduplicated list, all its steps taken at once."""
    return finished(paging(candidates, top_k=top_k, offset=offset, policy=policy, exhausted=exhausted))
