"""How to choose: the policy and its parts. Frozen values; the defaults live in the settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
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

    GROW_THEN_FILL = "grow_then_fill"  # a larger pool, then the least redundant copies, but no text twice
    GROW_THEN_REPEAT = "grow_then_repeat"  # the same, and equal texts if nothing else is left
    FILL = "fill"  # from the current pool, equal texts last
    ALLOW = "allow"


class Relevance(StrEnum):
    """How MMR uses relevance: the score unchanged, or scaled to [0, 1] over the pool."""

    RAW = "raw"
    MINMAX = "minmax"


class Similarity(StrEnum):
    """How MMR uses similarity: 1 - distance, or max(0, 1 - distance / median pool distance)."""

    RAW = "raw"
    SCALED = "scaled"


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
class Model:
    """The coefficients of the calibrated rule, in the order of its features (certainty.py): with texts, and without."""

    texts: tuple[float, ...]
    vectors: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certain:
    """The calibrated rule: a candidate merges with a kept result when the probability that it repeats that result reaches the certainty at
    its rank. The certainty is ``first`` for the second result of the page and falls to ``last`` for the eighth and all after it. Both in
    [0, 1]; at 1.0 only equal texts merge (without texts: equal vectors).

    Candidates are processed in rank order, as with Linkage.LEADER, whatever the policy's linkage. ``model``: None for the shipped one.
    """

    first: float
    last: float
    model: Model | None = None

    @classmethod
    def beside(cls, other: Threshold, first: float, last: float) -> Certain:
        """The rule with these certainties and the coefficients of another threshold."""
        return cls(first=first, last=last, model=other.model if isinstance(other, Certain) else None)


Threshold = Fixed | Relative | Certain


class Require(StrEnum):
    """Whether one text signal above its threshold makes a near copy, or all enabled signals must be."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """Which texts are copies.

    ``identical``: equal canonical texts. ``near``: the enabled near-text signals, by name (text/signals) with their thresholds; the first
    that finds a pair is reported. ``require``: how they combine. ``short_words``: a text of at most this many words is short. ``span``: the
    share of the shorter span that must overlap, for chunks of one document. ``stitch``: the same for overlapping chunks of any kind
    (text/seams), whatever their vectors; 0.0 accepts chunks that only touch, None disables it. ``reach``: pairs with vectors farther apart
    than reach x median pool distance are not compared by text; None compares all.
    """

    identical: bool
    near: tuple[tuple[str, float], ...]
    require: Require
    span: float | None
    reach: float | None
    short_words: int
    stitch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Rules that keep two candidates out of one cluster, however similar they are.

    ``subjects``: names at the beginning of texts of any length. ``templates``: words in the gaps of a template (guards/templates.py).
    ``short_words``: the first five apply only to pairs of texts with at most this many words each. ``keep_sources``: a candidate of one of
    these sources is never collapsed into another.
    """

    numbers: bool
    dates: bool
    versions: bool
    amounts: bool
    negation: bool
    subjects: bool
    templates: bool
    short_words: int
    keep_sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most results of one kind; None: any number. Unknown documents and sources are not counted."""

    per_cluster: int
    per_document: int | None
    per_source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to choose. All members are required: defaults are in the settings.

    ``chance``: the probability with which two independent points of a pool may be within a relative or growing cut; None: unbounded.
    ``chain``: the ties of Strategy.CHAIN, in order. ``authority``: sources, the most trusted first.
    """

    linkage: Linkage
    threshold: Threshold
    chance: float | None
    when: When
    representative: Strategy
    diversifier: Diversifier | None
    order: Order
    short: Short
    distance: Distance
    text: TextRules | None
    guards: Guards
    chain: tuple[Tie, ...]
    authority: tuple[str, ...]
    caps: Caps
