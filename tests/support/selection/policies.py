"""The policies every other is compared with: the default, the calibrated rule for vectors, relative cut with scaled MMR, and the usual recipe."""

from __future__ import annotations

from dataclasses import replace

from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import (
    Caps,
    Certain,
    Distance,
    Fixed,
    Linkage,
    Order,
    Overlap,
    Policy,
    Relative,
    Short,
    Strategy,
    Tie,
    Tier,
    When,
)

ONE_A_CLUSTER = Caps(per_cluster=1, per_document=None, per_source=None)

DEFAULT = Policy(
    texts=Tier.EDITED,
    rewordings=None,
    linkage=Linkage.LEADER,
    threshold=None,
    chance=None,
    when=When.REDUNDANT,
    representative=Strategy.RANK,
    diversifier=None,
    order=Order.BACKEND,
    short=Short.GROW_THEN_FILL,
    overlap=Overlap.KEEP,
    distance=Distance.AUTO,
    keep_sources=(),
    chain=tuple(Tie),
    authority=(),
    caps=ONE_A_CLUSTER,
)

# The calibrated rule for vectors, with texts where there are any.
VECTORS = replace(DEFAULT, threshold=Certain(first=0.85, last=0.4))

# What VecSieve did before its cut grew: one cut for the whole page, then MMR. Still what its parts make together.
SCALED_MMR = Policy(
    texts=None,
    rewordings=None,
    linkage=Linkage.AVERAGE,
    threshold=Relative(factor=0.20, minimum=0.02, maximum=0.30),
    chance=None,
    when=When.REDUNDANT,
    representative=Strategy.RANK,
    diversifier=Mmr(weight=0.7, is_scaled=True),
    order=Order.BACKEND,
    short=Short.GROW_THEN_FILL,
    overlap=Overlap.KEEP,
    distance=Distance.AUTO,
    keep_sources=(),
    chain=(Tie.RANK,),
    authority=(),
    caps=ONE_A_CLUSTER,
)

CLASSICAL = Policy(
    texts=None,
    rewordings=None,
    linkage=Linkage.AVERAGE,
    threshold=Fixed(value=0.15),
    chance=None,
    when=When.ALWAYS,
    representative=Strategy.RANK,
    diversifier=Mmr(weight=0.5, is_scaled=False),
    order=Order.MMR,
    short=Short.FILL,
    overlap=Overlap.KEEP,
    distance=Distance.COSINE,
    keep_sources=(),
    chain=(Tie.RANK,),
    authority=(),
    caps=ONE_A_CLUSTER,
)
