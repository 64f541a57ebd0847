"""Chunks for the optimizer: some written down, some generated with copies among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from vecsieve.proxy.api.optimize import Chunks, Optimized, Wishes, optimize
from vecsieve.proxy.search.context.tokens import estimated
from vecsieve.proxy.selection.policy import Linkage, Strategy, Tier
from vecsieve.proxy.selection.values import FloatMatrix

DEFAULT = Wishes(
    target_k=8,
    token_budget=None,
    tier=Tier.EDITED,
    cut=0.001,
    linkage=Linkage.AVERAGE,
    max_per_cluster=1,
    mmr_lambda=0.5,
    representative=Strategy.AUTO,
    compress=True,
    query="",
    query_vector=None,
)
STABLE = replace(DEFAULT, linkage=Linkage.LEADER, representative=Strategy.RANK, mmr_lambda=None)

WORDS = (
    "refund",
    "within",
    "thirty",
    "days",
    "заказ",
    "退款",
    "ご注文",
    "café",
    "!",
    "...",
    "42",
    "a,b",
    "\u00ad",
    "x y",
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join) | st.just("")
NUMBERS = st.sampled_from((0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf")))
VECTORS = st.none() | st.lists(NUMBERS, max_size=4).map(lambda row: np.array(row, np.float32))
SCORES = st.sampled_from((0.0, 0.5, 0.95, -1.0, 1e300))
SHARES = st.sampled_from((0.0, 0.3, 0.5, 1.0))


@st.composite
def chunks(draw: st.DrawFn) -> Chunks:
    """Few words and few numbers, so that many repeat each other."""
    size = draw(st.integers(0, 14))
    drawn = [draw(st.tuples(TEXTS, SCORES, VECTORS)) for _ in range(size)]
    return Chunks([text for text, _, _ in drawn], [score for _, score, _ in drawn], [vector for _, _, vector in drawn])


@st.composite
def wishes(draw: st.DrawFn, *, stable: bool = False) -> Wishes:
    """Any options; ``stable``: those of a stream."""
    return Wishes(
        target_k=draw(st.integers(1, 9)),
        token_budget=draw(st.none() | st.integers(1, 30)),
        tier=draw(st.sampled_from((Tier.EDITED, Tier.SAID, Tier.EXACT, None))),
        cut=draw(st.sampled_from((0.0, 0.001, 0.15, 0.6, 2.0))),
        linkage=Linkage.LEADER if stable else draw(st.sampled_from(Linkage)),
        max_per_cluster=draw(st.integers(1, 3)),
        mmr_lambda=None if stable else draw(st.none() | SHARES),
        representative=Strategy.RANK
        if stable
        else draw(st.sampled_from([strategy for strategy in Strategy if strategy is not Strategy.CHAIN])),
        compress=draw(st.booleans()),
        query=draw(TEXTS),
        query_vector=draw(VECTORS),
    )


def of(*texts: str, scores: list[float] | None = None, vectors: Sequence[list[float] | None] | None = None) -> Chunks:
    rows: list[FloatMatrix | None] = [None] * len(texts)
    if vectors is not None:
        rows = [None if row is None else np.array(row, np.float32) for row in vectors]
    return Chunks(list(texts), scores or [0.0] * len(texts), rows)


def kept(chunks: Chunks, wishes: Wishes = DEFAULT, **changed: object) -> list[int]:
    return [chunk.number for chunk in outcome(chunks, wishes, **changed).kept]


def outcome(chunks: Chunks, wishes: Wishes = DEFAULT, **changed: object) -> Optimized:
    return optimize(chunks, replace(wishes, **changed), estimated)  # type: ignore[arg-type]  # - fields by name
