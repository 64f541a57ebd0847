"""The two policies every other is compared with: the default, and the usual recipe."""

from __future__ import annotations

from vecsieve.proxy.selection.values import (
    Distance,
    Fixed,
    Linkage,
    Mmr,
    Order,
    Policy,
    Relative,
    Relevance,
    Short,
    Similarity,
    Strategy,
    When,
)

DEFAULT = Policy(
    linkage=Linkage.AVERAGE,
    threshold=Relative(factor=0.20, minimum=0.02, maximum=0.30),
    when=When.REDUNDANT,
    representative=Strategy.RANK,
    mmr=Mmr(weight=0.7, relevance=Relevance.MINMAX, similarity=Similarity.SCALED),
    order=Order.BACKEND,
    short=Short.GROW_THEN_FILL,
    distance=Distance.AUTO,
)

CLASSICAL = Policy(
    linkage=Linkage.AVERAGE,
    threshold=Fixed(value=0.15),
    when=When.ALWAYS,
    representative=Strategy.RANK,
    mmr=Mmr(weight=0.5, relevance=Relevance.RAW, similarity=Similarity.RAW),
    order=Order.MMR,
    short=Short.FILL,
    distance=Distance.COSINE,
)
