"""How to choose: the policy and its parts. Frozen values; the defaults live in the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the package loads all diversifiers, and some read a policy's enums
    from .diversifiers.choice import Diversifier


class Linkage(StrEnum):
    """How the distance of two clusters follows from their members' distances."""

    SINGLE = "single"
    COMPLETE = "complete"
    AVERAGE = "average"
    LEADER = "leader"  # no linkage in the strict sense: walk down the ranking, join the first cluster whose best rank is near


class Strategy(StrEnum):
    """Which member represents its cluster."""

    RANK = "rank"
    CENTROID = "centroid"
    HYBRID = "hybrid"
    QUERY_CLOSEST = "query_closest"
    LONGEST = "longest"
    AUTO = "auto"
    CHAIN = "chain"  # the policy's ties, one after the other


# What chooses a representative without vectors.
_WITHOUT_VECTORS = frozenset((Strategy.RANK, Strategy.LONGEST, Strategy.CHAIN))


class Tie(StrEnum):
    """One step of the chain that chooses a representative. An unknown value loses against a known one."""

    CITATIONS = "citations"  # more of the citation fields filled
    AUTHORITY = "authority"  # earlier in the policy's list of sources
    RECENCY = "recency"  # newer
    SHORTER = "shorter"  # shorter span, else shorter text
    RANK = "rank"  # better rank; always the last step, even if it is not named


class When(StrEnum):
    """Whether selection acts only when two of the first top_k share a cluster, or on every pool."""

    REDUNDANT = "redundant"
    ALWAYS = "always"


class Order(StrEnum):
    """The order of the answer: the backend's, or the order in which the diversifier picked (usually MMR)."""

    BACKEND = "backend"
    MMR = "mmr"


class Short(StrEnum):
    """What happens when there are fewer representatives than top_k. A page by offset is always filled: its list ends with the copies."""

    GROW_THEN_FILL = "grow_then_fill"  # a larger pool, then the copies that say most beyond it, but none that is proven
    GROW_THEN_REPEAT = "grow_then_repeat"  # the same, and proven copies if nothing else is left
    FILL = "fill"  # from the current pool, proven copies last
    ALLOW = "allow"


class Overlap(StrEnum):
    """What happens to a result of which the page has a part: a chunk that shares text with its neighbour (judging/walk.py)."""

    KEEP = "keep"
    EXCHANGE = "exchange"


class Distance(StrEnum):
    """Cosine distance always, or (auto) with a term for length if the pool's metric depends on length."""

    AUTO = "auto"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """One threshold for every pool: candidates at distance <= value merge."""

    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """factor x the pool's typical distance, clipped to [minimum, maximum] (cosine distances)."""

    factor: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certain:
    """The calibrated rule for vectors: a candidate merges with a kept result when the probability that it repeats that result reaches the certainty
    at its rank. The certainty is ``first`` for the second result of the page and falls to ``last`` for the eighth and all after it. Both in [0, 1];
    at 1.0 only equal vectors merge.

    Candidates are processed in rank order, as with Linkage.LEADER, whatever the policy's linkage.
    """

    first: float
    last: float


Threshold = Fixed | Relative | Certain


class Tier(IntEnum):
    """What may leave because kept texts say it. Each tier allows those above it."""

    EXACT = 1  # one unbroken run of one kept text, read exactly: the rule of final deletions
    SAID = 2  # what kept texts say together, without headers and footers
    EDITED = 3  # edited copies of long texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most results of one kind; None: any number. Unknown documents and sources are not counted."""

    per_cluster: int
    per_document: int | None
    per_source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to choose. All members are required: defaults are in the settings.

    ``texts``: what texts decide; None: they are not read. Vectors decide the pairs of which one has no text. ``rewordings``: the largest doubt at which
    a sentence in other words leaves; None: none does. ``threshold``: when vectors merge; None: when they are nearly equal. ``chance``: the
    probability with which two independent points of a pool may be within a relative or growing cut; None: unbounded. ``keep_sources``: a candidate of
    one of these sources is never collapsed. ``chain``: the ties of Strategy.CHAIN, in order. ``authority``: sources, the most trusted first.
    ``is_by_texts``: whether texts alone decide between candidates that have one, so that no vector is needed.
    """

    texts: Tier | None
    rewordings: float | None
    linkage: Linkage
    threshold: Threshold | None
    chance: float | None
    when: When
    representative: Strategy
    diversifier: Diversifier | None
    order: Order
    short: Short
    overlap: Overlap
    distance: Distance
    keep_sources: tuple[str, ...]
    chain: tuple[Tie, ...]
    authority: tuple[str, ...]
    caps: Caps
    is_by_texts: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Compute once what every search reads."""
        by_texts = self.texts is not None and self.rewordings is None and self.diversifier is None
        object.__setattr__(self, "is_by_texts", by_texts and self.representative in _WITHOUT_VECTORS)
