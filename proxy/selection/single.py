"""One search, one page: geometry, texts, clusters, gate, representatives, diversifier, caps, fill, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .diversifiers.choice import Choice, diversify
from .geometry import Mask
from .grouping import NOBODY, Grouped, alone, counts_length, group, links_of
from .metric import is_implausible, may_be_restrained
from .policy import Caps, Order, Policy, Short, Strategy, When
from .representatives import represent
from .text.evidence import counts_clusters_alone
from .values import (
    Candidates,
    Fate,
    FloatMatrix,
    Indices,
    Link,
    Selection,
    Steps,
    best_ranked,
    finished,
)

_KEPT, _FILLED = np.int8(Fate.KEPT), np.int8(Fate.FILLED)
_IDENTICAL = np.int8(Link.IDENTICAL)
_COLLAPSED, _NOT_CHOSEN = np.int8(Fate.COLLAPSED), np.int8(Fate.NOT_CHOSEN)


# In place of distances that choose what fills a page: below each of them, and no nearness changes their order.
_HELD, _REPEATS, _TAKEN = np.float32(-0.5), np.float32(-0.75), np.float32(-1.0)


def fill(
    kept: Indices, distance: FloatMatrix, count: int, *, behind: Indices = NOBODY, equal: Mask | None = None
) -> Indices:
    """``count`` further indices (all the rest, when there are fewer), in rank order: the least redundant duplicates.

    They are chosen one at a time: the candidate whose nearest kept candidate is farthest away, ties by rank. Each chosen one
    counts as kept for the next choice. Otherwise two copies of one far duplicate could both come in before another duplicate.
    ``distance``: (n, n); ``kept``: indices, not empty unless the pool is. ``behind``: candidates that are chosen only when
    all others are, in rank order: what a cap holds back comes before a short page. A repetition, at distance 0, comes last of all: only
    where the page would be short without it. ``equal``: (n, n), whose texts are equal: of such candidates one alone is on the page, even
    if it is short then. None: they are repetitions like others.
    """
    count = min(count, len(distance) - len(kept))
    chosen = np.empty(max(count, 0), dtype=np.intp)
    if not len(chosen):
        return chosen
    nearest = distance[kept].min(axis=0)
    repeats = nearest <= 0.0
    nearest[behind] = _HELD
    nearest[repeats] = _REPEATS
    nearest[kept] = _TAKEN
    if equal is not None:
        nearest[equal[kept].any(axis=0)] = _TAKEN
    for place in range(count):
        choice = chosen[place] = nearest.argmax()
        if nearest[choice] == _TAKEN:
            return np.sort(chosen[:place])
        apart = distance[choice]
        np.minimum(nearest, np.where(apart > 0.0, apart, _REPEATS), out=nearest)
        nearest[choice] = _TAKEN
        if equal is not None:
            nearest[equal[choice]] = _TAKEN
    return np.sort(chosen)


def _equal_texts(grouped: Grouped, policy: Policy) -> Mask | None:
    """Whose texts are equal (n, n), where no text may stand twice on a page.

    A reader gains nothing from the same text a second time, and the place costs a model's context. So a page of a pool
    without any other result is short, as a database's is that holds fewer. Applications that count on
    ``limit`` results have GROW_THEN_REPEAT.
    """
    if policy.short is not Short.GROW_THEN_FILL or grouped.evidence is None:
        return None
    equal: Mask = grouped.evidence.links == _IDENTICAL
    return equal


Names = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class _Limit:
    """At most ``most`` results of one name; ``seen`` counts them."""

    names: Names
    most: int
    seen: Counter[str]


def capped(
    order: Indices, documents: Names | None, sources: Names | None, caps: Caps, count: int
) -> tuple[Indices, Indices]:
    """The first ``count`` of ``order`` that the caps let through, and those they held back before the page was full.

    ``order``: indices into the pool, in the order of choice; both answers keep it. ``documents``, ``sources``: one a
    candidate. Who has no document or source, or whose pool knows none, is not counted: nothing says that two of them
    are of the same one.
    """
    limits = _limits(documents, sources, caps)
    kept: list[int] = []
    held: list[int] = []
    for index in order.tolist():
        if len(kept) >= count:
            break
        own = [(limit, name) for limit in limits if (name := limit.names[index]) is not None]
        if any(limit.seen[name] >= limit.most for limit, name in own):
            held.append(index)
            continue
        for limit, name in own:
            limit.seen[name] += 1
        kept.append(index)
    return np.array(kept, dtype=np.intp), np.array(held, dtype=np.intp)


def expand(labels: Indices, standing: Indices, per_cluster: int) -> Indices:
    """The representatives and, behind each, its best-ranked fellows, ``per_cluster`` of a cluster in all.

    In order of relevance: a representative has the rank of its cluster's best member, a fellow its own; the
    representative goes first. ``labels``: (n,) numbered in order of best rank. ``standing``: (distinct,), one for each
    label. With 1 the answer is ``standing``.
    """
    if per_cluster <= 1 or len(standing) == len(labels):
        return standing
    ranks = np.arange(len(labels), dtype=np.intp)
    ranks[standing] = best_ranked(labels)
    is_fellow = np.ones(len(labels), np.bool_)
    is_fellow[standing] = False
    order = np.lexsort((is_fellow, ranks))
    return order[_turn(labels[order]) < per_cluster]


def _turn(labels: Indices) -> Indices:
    """For each position, how many earlier ones have its label (m,)."""
    grouped = np.argsort(labels, kind="stable")
    inner = labels[grouped]
    turns = np.empty(len(labels), dtype=np.intp)
    turns[grouped] = np.arange(len(labels)) - inner.searchsorted(inner)
    return turns


def _limits(documents: Names | None, sources: Names | None, caps: Caps) -> list[_Limit]:
    pairs = ((documents, caps.per_document), (sources, caps.per_source))
    return [_Limit(names, most, Counter()) for names, most in pairs if names is not None and most is not None]


def silent(_stage: str) -> None:
    """Ignores the end of a stage."""


def select(
    candidates: Candidates,
    *,
    top_k: int,
    policy: Policy,
    scale: float | None = None,
) -> Selection:
    """Choose ``top_k`` of the candidates.

    ``scale``: the typical distance that distances are read at, but for a fixed threshold; None: this pool's own median.

    ``wanting`` above 0 says that a larger pool could give a better page; ``keep`` is a full page all the same (unless
    the policy allows a short one), for a caller who has no larger pool to ask for. Raises ValueError for a negative
    ``top_k``.
    """
    return finished(selecting(candidates, top_k=top_k, policy=policy, scale=scale))


def selecting(
    candidates: Candidates,
    *,
    top_k: int,
    policy: Policy,
    scale: float | None = None,
    lap: Callable[[str], None] = silent,
) -> Steps[Selection]:
    """As ``select``, in steps of a few milliseconds.

    ``lap`` is called with "cluster", "select" and "mmr" when that stage is over, always in this order, so that the caller
    can time what has no clock.
    """
    if top_k < 0:
        raise ValueError(f"top_k: saw {top_k}, wanted 0 or more")
    grouped = yield from group(candidates, policy, top_k, scale)
    lap("cluster")
    restrained = (
        grouped.evidence is None
        and may_be_restrained(policy)
        and len(grouped.followers) > 0
        and is_implausible(grouped.heads, grouped.raw[np.arange(candidates.size), grouped.heads], candidates.scores)
    )
    if restrained or _leaves_alone(candidates, grouped.labels, top_k, policy):
        lap("select")
        lap("mmr")
        return _native(alone(grouped) if restrained else grouped, top_k, restrained=restrained)
    standing = (
        best_ranked(grouped.labels)
        if policy.representative is Strategy.RANK
        else represent(
            grouped.labels,
            grouped.distance,
            candidates,
            strategy=policy.representative,
            magnitude=counts_length(candidates, policy),
            chain=policy.chain,
            authority=policy.authority,
        )
    )
    lap("select")
    picks, held = _pick(candidates, grouped, standing, top_k=top_k, policy=policy)
    lap("mmr")
    fills = np.empty(0, np.intp)
    if policy.short is not Short.ALLOW:
        missing = top_k - len(picks)
        fills = fill(
            picks, grouped.distance, missing, behind=held, equal=_equal_texts(grouped, policy) if missing else None
        )
    keep = np.concatenate((picks, fills))
    ordered = keep if policy.order is Order.MMR else np.sort(keep)
    return _outcome(grouped, standing, ordered, picks, held, top_k)


def _leaves_alone(candidates: Candidates, labels: Indices, top_k: int, policy: Policy) -> bool:
    """Whether the backend's page stays: its first top_k repeat no cluster, document or source more often than allowed."""
    if policy.when is not When.REDUNDANT:
        return False
    first = labels[:top_k]
    if policy.caps.per_cluster == 1:
        # Labels are numbered by first appearance, so they do not repeat exactly when they count up.
        is_distinct: bool = first.tolist() == list(range(len(first)))
    else:
        is_distinct = int(np.bincount(first).max(initial=0)) <= policy.caps.per_cluster
    if not is_distinct or counts_clusters_alone(policy.caps):
        return is_distinct
    known = candidates.metadata
    page = np.arange(len(first), dtype=np.intp)
    return not len(capped(page, known.documents, known.sources, policy.caps, top_k)[1])


def _pick(
    candidates: Candidates, grouped: Grouped, standing: Indices, *, top_k: int, policy: Policy
) -> tuple[Indices, Indices]:
    """The page without what fills it, as indices into the pool in pick order, and those that caps held back.

    A diversifier has a say only where there is a choice: with no more representatives than top_k all of them are kept, and
    it could only reorder them, which it does when the policy asks for its order.
    """
    choices = expand(grouped.labels, standing, policy.caps.per_cluster)
    is_capped = not counts_clusters_alone(policy.caps)
    if policy.diversifier is not None and (len(choices) > top_k or policy.order is Order.MMR):
        choice = Choice(
            candidates=candidates,
            standing=choices,
            labels=grouped.labels,
            distance=grouped.apart,
            measured=grouped.measured,
        )
        choices = diversify(choice, policy.diversifier, len(choices) if is_capped else top_k)
    if not is_capped:
        return choices[:top_k], np.empty(0, np.intp)
    known = candidates.metadata
    return capped(choices, known.documents, known.sources, policy.caps, top_k)


def _native(grouped: Grouped, top_k: int, *, restrained: bool) -> Selection:
    """The backend's own first top_k. Nothing was collapsed: the rest is simply beyond what was asked for."""
    fates = np.full(len(grouped.labels), _NOT_CHOSEN)
    fates[:top_k] = _KEPT
    representative = grouped.heads
    return Selection(
        keep=np.arange(min(top_k, len(fates)), dtype=np.intp),
        labels=grouped.labels,
        representative=representative,
        fates=fates,
        distinct=grouped.distinct,
        wanting=max(0, top_k - grouped.distinct),
        acted=False,
        restrained=restrained,
        threshold=_threshold(grouped, top_k),
        median=grouped.measured.median,
        **links_of(grouped, representative),
    )


def _outcome(
    grouped: Grouped, standing: Indices, keep: Indices, picks: Indices, held: Indices, top_k: int
) -> Selection:
    representative = standing[grouped.labels]
    fates = fates_of(representative, keep)
    fates[picks] = _KEPT  # a cluster that may have several results fills no gap
    if len(held):
        fates[np.setdiff1d(held, keep)] = Fate.CAPPED
    return Selection(
        keep=keep,
        labels=grouped.labels,
        representative=representative,
        fates=fates,
        distinct=grouped.distinct,
        wanting=max(0, top_k - len(picks)),
        acted=True,
        threshold=_threshold(grouped, top_k),
        median=grouped.measured.median,
        **links_of(grouped, representative),
    )


def _threshold(grouped: Grouped, top_k: int) -> float:
    """The cut for the last place of the page, as Selection has it."""
    return grouped.cuts[min(top_k, len(grouped.cuts)) - 1]


def fates_of(representative: Indices, keep: Indices) -> npt.NDArray[np.int8]:
    """What became of each candidate (n,), given who stands for it and who is kept."""
    stands = representative == np.arange(len(representative))
    fates = np.where(stands, _NOT_CHOSEN, _COLLAPSED)
    fates[keep] = np.where(stands[keep], _KEPT, _FILLED)
    return fates


def unlinked(n: int) -> dict[str, Any]:
    """The members of a selection in which nothing is linked or measured."""
    return {
        "median": 0.0,
        "links": np.zeros(n, np.int8),
        "similarities": np.full(n, np.nan, np.float32),
        "cuts": np.full(n, np.nan, np.float32),
        "vetoes": np.zeros(n, np.int8),
    }
