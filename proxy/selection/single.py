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


# Special values used in place of distances to order the filling of a page: below every distance, and never changed by one.
_HELD, _REPEATS, _TAKEN = np.float32(-0.5), np.float32(-0.75), np.float32(-1.0)


def fill(
    kept: Indices, distance: FloatMatrix, count: int, *, behind: Indices = NOBODY, equal: Mask | None = None
) -> Indices:
    """``count`` further indices (all, if there are fewer), in rank order: the least redundant duplicates.

    They are chosen one at a time: the candidate whose nearest kept candidate is farthest away, ties by rank. Each chosen one counts as kept
    for the next choice; otherwise two copies of one distant duplicate could both come before another duplicate. ``distance``: (n, n);
    ``kept``: indices, not empty unless the pool is. ``behind``: candidates that are chosen after all others, in rank order, as those held
    back by a cap: they are better than a short page. Repetitions, at distance 0, come last. ``equal``: (n, n), which texts are equal: only
    one candidate of each text is on the page, even if the page is short. None: they count as repetitions.
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
    """Which texts are equal (n, n), if no text may be on a page twice; else None.

    A reader gains nothing from the same text a second time, and it costs a model's context. So a page is short if its pool has no other
    results, as a database's page is if it holds fewer. GROW_THEN_REPEAT is for applications that rely on ``limit`` results.
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
    """The first ``count`` of ``order`` that the caps admit, and those that they held back before the page was full.

    ``order``: indices into the pool, in the order of choice; both results keep it. ``documents``, ``sources``: one per candidate. A
    candidate without a document or source is not counted, because two of them may be of different ones.
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
    """The representatives, each followed by the best-ranked other members of its cluster, up to ``per_cluster`` of a cluster.

    In order of relevance: a representative has the rank of its cluster's best member, other members their own; the representative goes
    first. ``labels``: (n,) numbered in order of best rank. ``standing``: (distinct,), one for each label. With 1 the result is
    ``standing``.
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
    """For each position, the number of earlier ones with its label (m,)."""
    grouped = np.argsort(labels, kind="stable")
    inner = labels[grouped]
    turns = np.empty(len(labels), dtype=np.intp)
    turns[grouped] = np.arange(len(labels)) - inner.searchsorted(inner)
    return turns


def _limits(documents: Names | None, sources: Names | None, caps: Caps) -> list[_Limit]:
    pairs = ((documents, caps.per_document), (sources, caps.per_source))
    return [_Limit(names, most, Counter()) for names, most in pairs if names is not None and most is not None]


def silent(_stage: str) -> None:
    """Ignore the end of a stage."""


def select(
    candidates: Candidates,
    *,
    top_k: int,
    policy: Policy,
    scale: float | None = None,
) -> Selection:
    """Choose ``top_k`` of the candidates.

    ``scale``: the typical distance, except for a fixed threshold; None: this pool's own median.

    ``wanting`` > 0 means that a larger pool could give a better page; ``keep`` is a full page nevertheless (unless the policy allows a
    short one), for callers that cannot fetch a larger pool. Raises ValueError for a negative ``top_k``.
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

    ``lap`` is called with "cluster", "select" and "mmr" at the end of that stage, always in this order, so that the caller can measure the
    time.
    """
    if top_k < 0:
        raise ValueError(f"top_k: saw {top_k}, wanted 0 or more")
    grouped = yield from group(candidates, policy, top_k, scale)
    lap("cluster")
    restrained = _is_restrained(candidates, grouped, policy)
    if restrained or _leaves_alone(candidates, grouped.labels, top_k, policy):
        lap("select")
        lap("mmr")
        return _native(alone(grouped) if restrained else grouped, top_k, restrained=restrained)
    standing = _representatives(candidates, grouped, policy)
    lap("select")
    picks, held = _pick(candidates, grouped, standing, top_k=top_k, policy=policy)
    lap("mmr")
    keep = np.concatenate((picks, _fills(grouped, picks, held, top_k, policy)))
    ordered = keep if policy.order is Order.MMR else np.sort(keep)
    return _outcome(grouped, standing, ordered, picks, held, top_k)


def _is_restrained(candidates: Candidates, grouped: Grouped, policy: Policy) -> bool:
    """Whether the clusters were made by vectors alone and are implausible (metric.py)."""
    if grouped.evidence is not None or not may_be_restrained(policy) or not len(grouped.followers):
        return False
    to_head = grouped.raw[np.arange(candidates.size), grouped.heads]
    return is_implausible(grouped.heads, to_head, candidates.scores, candidates.metric)


def _representatives(candidates: Candidates, grouped: Grouped, policy: Policy) -> Indices:
    """The representative of each cluster (distinct,), as indices into the pool."""
    if policy.representative is Strategy.RANK:
        return best_ranked(grouped.labels)
    return represent(
        grouped.labels,
        grouped.distance,
        candidates,
        strategy=policy.representative,
        magnitude=counts_length(candidates, policy),
        chain=policy.chain,
        authority=policy.authority,
    )


def _fills(grouped: Grouped, picks: Indices, held: Indices, top_k: int, policy: Policy) -> Indices:
    """The duplicates that fill the page; none if the policy allows a short page."""
    missing = top_k - len(picks)
    if policy.short is Short.ALLOW or not missing:
        return np.empty(0, np.intp)
    return fill(picks, grouped.distance, missing, behind=held, equal=_equal_texts(grouped, policy))


def _leaves_alone(candidates: Candidates, labels: Indices, top_k: int, policy: Policy) -> bool:
    """Whether the backend's page is kept: its first top_k repeat no cluster, document or source more often than allowed."""
    if policy.when is not When.REDUNDANT:
        return False
    first = labels[:top_k]
    if policy.caps.per_cluster == 1:
        # Labels are numbered by first appearance, so they are distinct exactly if they are 0, 1, 2, …
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
    """The page before it is filled, as indices into the pool in pick order, and the candidates that caps held back.

    A diversifier matters only if there is a choice: with at most top_k representatives all of them are kept, and it could only reorder
    them, which it does when the policy asks for its order.
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
    """The backend's own first top_k. Nothing was collapsed: the rest is beyond what was requested."""
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
    """The cut at the last rank of the page, as in Selection."""
    return grouped.cuts[min(top_k, len(grouped.cuts)) - 1]


def fates_of(representative: Indices, keep: Indices) -> npt.NDArray[np.int8]:
    """The Fate of each candidate (n,), from the representatives and the kept candidates."""
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
