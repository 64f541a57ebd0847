"""What selection would do to the sampled pools, by the proxy's own code: how many results of a page it takes for copies.

By vectors alone. What a policy reads in texts comes on top, and needs the texts whole, which a survey does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.jobs.calibrate.survey import Pool
from vecsieve.proxy.resolved import resolved
from vecsieve.proxy.selection.policy import Fixed, Policy
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Fate, Metric

PAGE = 8  # results a page, as in every figure of the README


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """On the sampled pools: ``pages`` is the share of first pages with a copy, ``copies`` how many of their results are."""

    pages: float
    copies: float


def effect_of_default(pools: Sequence[Pool], *, metric: Metric, scale: float | None) -> Effect:
    """The default policy. ``scale``: the typical distance its threshold is read at, None for each pool's own."""
    return _effect(pools, _default(), metric=metric, scale=scale)


def effect_of_cut(pools: Sequence[Pool], *, metric: Metric, cut: float) -> Effect:
    """The default policy with a fixed threshold in place of its own."""
    return _effect(pools, replace(_default(), threshold=Fixed(value=cut)), metric=metric, scale=None)


def _default() -> Policy:
    return replace(resolved(PolicySettings(), mode=None).selection, text=None)


def _effect(pools: Sequence[Pool], policy: Policy, *, metric: Metric, scale: float | None) -> Effect:
    found = [_copies(pool, policy, metric=metric, scale=scale) for pool in pools]
    results = sum(min(PAGE, len(pool.ids)) for pool in pools)
    if not results:
        return Effect(pages=0.0, copies=0.0)
    return Effect(pages=sum(1 for copies in found if copies) / len(found), copies=sum(found) / results)


def _copies(pool: Pool, policy: Policy, *, metric: Metric, scale: float | None) -> int:
    """Of the backend's first page, those that stand for nothing of their own."""
    falling = np.linspace(1.0, 0.0, len(pool.ids))  # rank is all that selection by default reads of scores
    candidates = Candidates(scores=falling, vectors=pool.vectors, metric=metric)
    fates = select(candidates, top_k=PAGE, policy=policy, scale=scale).fates[:PAGE]
    return int(np.isin(fates, (Fate.COLLAPSED, Fate.FILLED)).sum())
