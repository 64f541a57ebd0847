"""The policies every other is compared with: the default, relative cut with scaled MMR, and the usual recipe."""

from __future__ import annotations

from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import (
    Caps,
    Certain,
    Distance,
    Fixed,
    Guards,
    Linkage,
    Order,
    Policy,
    Relative,
    Relevance,
    Require,
    Short,
    Similarity,
    Strategy,
    TextRules,
    Tie,
    When,
)

NO_GUARDS = Guards(
    numbers=False,
    dates=False,
    versions=False,
    amounts=False,
    negation=False,
    subjects=False,
    templates=False,
    short_words=0,
    keep_sources=(),
)
ALL_GUARDS = Guards(
    numbers=True,
    dates=True,
    versions=True,
    amounts=True,
    negation=True,
    subjects=True,
    templates=True,
    short_words=30,
    keep_sources=(),
)
TEXT_RULES = TextRules(
    identical=True,
    near=(),
    require=Require.ANY,
    span=0.8,
    reach=1.0,
    short_words=30,
)
ONE_A_CLUSTER = Caps(per_cluster=1, per_document=None, per_source=None)

DEFAULT = Policy(
    linkage=Linkage.LEADER,
    threshold=Certain(first=0.85, last=0.4),
    chance=None,
    when=When.REDUNDANT,
    representative=Strategy.RANK,
    diversifier=None,
    order=Order.BACKEND,
    short=Short.GROW_THEN_FILL,
    distance=Distance.AUTO,
    text=TEXT_RULES,
    guards=ALL_GUARDS,
    chain=tuple(Tie),
    authority=(),
    caps=ONE_A_CLUSTER,
)

# What VecSieve did before its cut grew: one cut for the whole page, then MMR. Still what its parts make together.
SCALED_MMR = Policy(
    linkage=Linkage.AVERAGE,
    threshold=Relative(factor=0.20, minimum=0.02, maximum=0.30),
    chance=None,
    when=When.REDUNDANT,
    representative=Strategy.RANK,
    diversifier=Mmr(weight=0.7, relevance=Relevance.MINMAX, similarity=Similarity.SCALED),
    order=Order.BACKEND,
    short=Short.GROW_THEN_FILL,
    distance=Distance.AUTO,
    text=None,
    guards=NO_GUARDS,
    chain=(Tie.RANK,),
    authority=(),
    caps=ONE_A_CLUSTER,
)

CLASSICAL = Policy(
    linkage=Linkage.AVERAGE,
    threshold=Fixed(value=0.15),
    chance=None,
    when=When.ALWAYS,
    representative=Strategy.RANK,
    diversifier=Mmr(weight=0.5, relevance=Relevance.RAW, similarity=Similarity.RAW),
    order=Order.MMR,
    short=Short.FILL,
    distance=Distance.COSINE,
    text=None,
    guards=NO_GUARDS,
    chain=(Tie.RANK,),
    authority=(),
    caps=ONE_A_CLUSTER,
)
