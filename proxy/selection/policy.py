"""How to choose: the policy and its parts. Frozen values; the defaults live in the settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the package loads all diversifiers, and some read a policy's enums
    from .diversifiers.choice import Diversifier


class Linkage(StrEnum):
    """How the distance of two clusters is read off their members' distances."""

    SINGLE = "single"
    COMPLETE = "complete"
    AVERAGE = "average"
    LEADER = "leader"  # no linkage in the strict sense: walk down the ranking, join the first cluster whose best rank is near


class Strategy(StrEnum):
    """Which member stands for its cluster."""

    RANK = "rank"
    CENTROID = "centroid"
    HYBRID = "hybrid"
    QUERY_CLOSEST = "query_closest"
    LONGEST = "longest"
    AUTO = "auto"
    CHAIN = "chain"  # the policy's ties, one after the other


class Tie(StrEnum):
    """One link of the chain that chooses a representative. What is unknown loses against what is known."""

    CITATIONS = "citations"  # more of the citation fields filled
    AUTHORITY = "authority"  # earlier in the policy's list of sources
    RECENCY = "recency"  # newer
    SHORTER = "shorter"  # shorter span, else shorter text
    RANK = "rank"  # better rank; always the last word, named or not


class When(StrEnum):
    """Whether selection acts only when two of the first top_k share a cluster, or on every pool."""

    REDUNDANT = "redundant"
    ALWAYS = "always"


class Order(StrEnum):
    """The order of the answer: the backend's, or the order in which the diversifier picked (MMR by default, hence the word)."""

    BACKEND = "backend"
    MMR = "mmr"


class Short(StrEnum):
    """What happens when there are fewer representatives than top_k. A page by offset is always filled: its list ends with the copies."""

    GROW_THEN_FILL = (
        "grow_then_fill"  # a larger pool, then the least redundant copies, but none with a text that stands already
    )
    GROW_THEN_REPEAT = "grow_then_repeat"  # and where nothing else is left equal texts as well
    FILL = "fill"  # from the pool that there is, equal texts last
    ALLOW = "allow"


class Relevance(StrEnum):
    """How MMR reads relevance: the score as it is, or scaled to [0, 1] over the pool."""

    RAW = "raw"
    MINMAX = "minmax"


class Similarity(StrEnum):
    """How MMR reads similarity: 1 - distance, or max(0, 1 - distance / median pool distance)."""

    RAW = "raw"
    SCALED = "scaled"


class Distance(StrEnum):
    """Cosine distance always, or (auto) with a term for length where the pool says that length carries meaning."""

    AUTO = "auto"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A threshold that is one number for every pool: candidates at distance <= value merge."""

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
    """The calibrated rule: a candidate merges with a kept result when the probability that it repeats that result reaches
    the certainty of its place. The certainty is ``first`` for the second result of the page and falls to ``last`` for the
    eighth and all behind it. Both in [0, 1]; at 1.0 only equal texts merge (without texts: equal vectors).

    The candidates are walked in rank order, as Linkage.LEADER does; the policy's linkage is not looked at. ``model``: None
    for the one that is shipped.
    """

    first: float
    last: float
    model: Model | None = None

    @classmethod
    def beside(cls, other: Threshold, first: float, last: float) -> Certain:
        """With this certainty, and the coefficients that another threshold has."""
        return cls(first=first, last=last, model=other.model if isinstance(other, Certain) else None)


Threshold = Fixed | Relative | Certain


class Require(StrEnum):
    """Whether one text signal over its threshold makes a near copy, or all that are switched on must be."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """Which texts are copies.

    ``identical``: equal canonical texts. ``near``: the near-text signals that are switched on, by name (text/signals) with
    their thresholds; the first that finds a pair is reported. ``require``: how they combine.
    ``short_words``: a text of at most so many words is short. ``span``: share of the shorter span that must overlap, for chunks
    of one document. ``stitch``: the same for overlapping chunks of any kind (text/seams), however far apart their vectors are; 0.0 takes
    those that touch, None looks for none. ``reach``: pairs with vectors farther apart than reach x median pool distance are not compared by
    text; None compares all.
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
    """What forbids that two candidates share a cluster, however alike they are.

    ``subjects``: names at the beginning of texts of any length. ``templates``: what fills the gaps of a template (guards/templates.py).
    ``short_words``: the first five look only at pairs of texts that both have at most so many words. ``keep_sources``: a
    candidate of one of these sources is never collapsed into another.
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
    """At most so many results; None: any number. Unknown documents and sources are not counted."""

    per_cluster: int
    per_document: int | None
    per_source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to choose. Every member is given: defaults live in the settings.

    ``chance``: two independent points of a pool are within a relative or growing cut with this probability at most; None:
    any.
    ``chain``: the ties that Strategy.CHAIN goes through. ``authority``: sources, the most trusted first.
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
