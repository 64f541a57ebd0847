"""One search, one page: geometry, texts, clusters, gate, representatives, diversifier, caps, fill, order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .diversifiers.choice import Choice, diversify
from .grouping import NOBODY, Grouped, alone, counts_length, group, lacks_texts, of_texts, rewordings_of
from .judging.judge import Judge
from .judging.walk import Walk
from .metric import is_implausible, may_be_restrained
from .policy import Caps, Order, Policy, Short, Strategy, Tier, When
from .representatives import represent
from .values import Candidates, Fate, Indices, Link, Selection, Steps, best_ranked, finished

_KEPT, _FILLED = np.int8(Fate.KEPT), np.int8(Fate.FILLED)
_COLLAPSED, _NOT_CHOSEN = np.int8(Fate.COLLAPSED), np.int8(Fate.NOT_CHOSEN)


def fill(grouped: Grouped, kept: Indices, count: int, *, reserve: Indices = NOBODY, repeats: bool = False) -> Indices:
    """``count`` further indices (all, if there are fewer), in rank order: those of which the kept results say least.

    First what left without a proof, the least covered first, ties by rank, but not what an earlier one of them says; then ``reserve``, candidates
    that a cap held back: they are better than a short page. With ``repeats`` also proven copies, last: a reader gains nothing from them, and they
    cost a model's context.
    """
    is_left = np.ones(len(grouped.labels), np.bool_)
    is_left[kept] = False
    has_left = is_left & (grouped.links != Link.NONE)
    is_left[reserve] = False
    doubtful = np.flatnonzero(has_left & is_left & ~grouped.proven)
    shares = np.nan_to_num(grouped.similarities[doubtful], nan=0.0)
    fresh, repeated = _fresh_and_repeated(grouped, doubtful[np.argsort(shares, kind="stable")])
    chosen = np.concatenate((fresh, reserve))
    if repeats:
        chosen = np.concatenate((chosen, repeated, np.flatnonzero(has_left & is_left & grouped.proven)))
    return np.sort(chosen[: max(count, 0)])


def _fresh_and_repeated(grouped: Grouped, doubtful: Indices) -> tuple[Indices, Indices]:
    """Of candidates that left without a proof, in this order: those whose text no earlier one says, and the others."""
    texts = grouped.candidates.metadata.texts
    if texts is None or len(doubtful) < 2:
        return doubtful, NOBODY
    judges: dict[int, Judge] = {}
    tenants = grouped.candidates.tenants
    is_repeated = np.zeros(len(doubtful), np.bool_)
    for turn, place in enumerate(doubtful.tolist()):
        text = texts[place]
        if text is None or grouped.links[place] == Link.DISTANCE:
            continue
        judge = judges.setdefault(0 if tenants is None else int(tenants[place]), Judge(Tier.SAID))
        is_repeated[turn] = bool(judge.verdict(text).holders)
        if not is_repeated[turn]:
            judge.keep(turn, text)
    return doubtful[~is_repeated], doubtful[is_repeated]


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
    reserve: list[int] = []
    for index in order.tolist():
        if len(kept) >= count:
            break
        counted = [(limit, name) for limit in limits if (name := limit.names[index]) is not None]
        if any(limit.seen[name] >= limit.most for limit, name in counted):
            reserve.append(index)
            continue
        for limit, name in counted:
            limit.seen[name] += 1
        kept.append(index)
    return np.array(kept, dtype=np.intp), np.array(reserve, dtype=np.intp)


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
    whole: bool = False,
) -> Steps[Selection]:
    """As ``select``, in steps of a few milliseconds. ``whole``: judge candidates behind a full page, too."""
    if top_k < 0:
        raise ValueError(f"top_k: saw {top_k}, wanted 0 or more")
    is_page = decides_a_page(policy) and not whole
    if is_page and not lacks_texts(candidates, policy):
        reword = None if policy.rewordings is None else rewordings_of(candidates, policy)
        walk = Walk(candidates, policy, reword, exchanges=policy.rewordings is None)
        yield from walk.steps(top_k)
        if len(walk.kept) >= top_k:
            return _walked_page(walk, NOBODY, top_k, policy)
        grouped = of_texts(candidates, policy, walk)
        if walk.exchanged:
            return _walked_page(walk, _fills(grouped, np.array(walk.kept), NOBODY, top_k, policy), top_k, policy)
    else:
        grouped = yield from group(candidates, policy, scale)
    restrained = _is_restrained(candidates, grouped, policy)
    if restrained or _leaves_alone(candidates, grouped.labels, top_k, policy):
        return _native(alone(grouped) if restrained else grouped, top_k, restrained=restrained)
    standing = _representatives(candidates, grouped, policy)
    picks, reserve = _pick(candidates, grouped, standing, top_k=top_k, policy=policy)
    linked = _linked(grouped, standing[grouped.labels])
    keep = np.concatenate((picks, _fills(linked, picks, reserve, top_k, policy)))
    ordered = keep if policy.order is Order.MMR else np.sort(keep)
    return _outcome(linked, standing, ordered, picks, reserve, top_k)


def _walked_page(walk: Walk, fills: Indices, top_k: int, policy: Policy) -> Selection:
    """The first ``top_k`` results that a walk kept, in its order, then ``fills``."""
    walked, kept = walk.walked, walk.kept[:top_k]
    keep, heads = [*kept, *fills.tolist()], walked.representative.tolist()
    numbers: dict[int, int] = {}
    labels = [numbers.setdefault(head, len(numbers)) for head in heads]
    is_native = policy.when is When.REDUNDANT and keep == list(range(len(keep)))
    fates = [Fate.NOT_CHOSEN if head == place or is_native else Fate.COLLAPSED for place, head in enumerate(heads)]
    for place in keep:
        fates[place] = Fate.KEPT if heads[place] == place else Fate.FILLED
    return Selection(
        keep=np.array(keep, np.intp),
        labels=np.array(labels, np.intp),
        representative=walked.representative,
        also=walked.also,
        fates=np.array(fates, np.int8),
        distinct=len(numbers),
        wanting=top_k - len(kept),
        acted=not is_native,
        threshold=math.nan,
        median=0.0,
        links=walked.links,
        similarities=walked.shares,
        cuts=np.full(len(heads), np.nan, np.float32),
    )


def counts_clusters_alone(caps: Caps) -> bool:
    """Whether documents and sources may have any number of results."""
    return caps.per_document is None and caps.per_source is None


def decides_a_page(policy: Policy) -> bool:
    """Whether candidates behind a full page cannot change it."""
    return (
        policy.representative is Strategy.RANK
        and policy.diversifier is None
        and policy.caps.per_cluster == 1
        and counts_clusters_alone(policy.caps)
    )


def _is_restrained(candidates: Candidates, grouped: Grouped, policy: Policy) -> bool:
    """Whether the clusters were made by vectors alone and are implausible (metric.py)."""
    if (
        grouped.vectors is None
        or grouped.walked.has_text.any()
        or not may_be_restrained(policy)
        or not len(grouped.followers)
    ):
        return False
    raw = grouped.measured.inside(0, candidates.size).distance
    to_head = raw[np.arange(candidates.size), grouped.heads]
    return is_implausible(grouped.heads, to_head, candidates.scores, candidates.metric)


def _representatives(candidates: Candidates, grouped: Grouped, policy: Policy) -> Indices:
    """The representative of each cluster (distinct,), as indices into the pool."""
    if policy.representative is Strategy.RANK:
        return best_ranked(grouped.labels)
    return represent(
        grouped.labels,
        lambda: grouped.apart,
        candidates,
        strategy=policy.representative,
        magnitude=counts_length(candidates, policy),
        may_stand=grouped.may_stand,
        chain=policy.chain,
        authority=policy.authority,
    )


def _fills(grouped: Grouped, picks: Indices, reserve: Indices, top_k: int, policy: Policy) -> Indices:
    """The duplicates that fill the page; none if the policy allows a short page."""
    missing = top_k - len(picks)
    if policy.short is Short.ALLOW or not missing:
        return np.empty(0, np.intp)
    return fill(grouped, picks, missing, reserve=reserve, repeats=policy.short is not Short.GROW_THEN_FILL)


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
    return Selection(
        keep=np.arange(min(top_k, len(fates)), dtype=np.intp),
        labels=grouped.labels,
        representative=grouped.heads,
        also=grouped.walked.also,
        fates=fates,
        distinct=grouped.distinct,
        wanting=max(0, top_k - grouped.distinct),
        acted=False,
        restrained=restrained,
        threshold=grouped.cut_at(top_k),
        median=grouped.median,
        links=grouped.links,
        similarities=grouped.similarities,
        cuts=grouped.cuts,
    )


def _outcome(
    grouped: Grouped, standing: Indices, keep: Indices, picks: Indices, reserve: Indices, top_k: int
) -> Selection:
    representative = standing[grouped.labels]
    fates = fates_of(representative, keep)
    fates[picks] = _KEPT  # a cluster that may have several results fills no gap
    if len(reserve):
        fates[np.setdiff1d(reserve, keep)] = Fate.CAPPED
    return Selection(
        keep=keep,
        labels=grouped.labels,
        representative=representative,
        also=grouped.walked.also,
        fates=fates,
        distinct=grouped.distinct,
        wanting=max(0, top_k - len(picks)),
        acted=True,
        threshold=grouped.cut_at(top_k),
        median=grouped.median,
        links=grouped.links,
        similarities=grouped.similarities,
        cuts=grouped.cuts,
    )


def links_of(grouped: Grouped, representative: Indices) -> dict[str, Any]:
    """The members of a selection that explain why each candidate shares a cluster with its representative.

    Where another member than the head represents a cluster, the head is linked as that member was.
    """
    links, similarities, needed = grouped.links.copy(), grouped.similarities.copy(), grouped.cuts.copy()
    moved = np.flatnonzero((representative != grouped.heads) & (grouped.heads == np.arange(len(links))))
    for head in moved.tolist():
        other = representative[head]
        links[head], similarities[head], needed[head] = links[other], similarities[other], needed[other]
        links[other], similarities[other], needed[other] = 0, np.nan, np.nan
    return {"links": links, "similarities": similarities, "cuts": needed}


def _linked(grouped: Grouped, representative: Indices) -> Grouped:
    """The same pool, with each candidate linked to its representative instead of its head."""
    if representative is grouped.heads or np.array_equal(representative, grouped.heads):
        return grouped
    members = links_of(grouped, representative)
    walked = replace(grouped.walked, links=members["links"])
    return replace(grouped, walked=walked, similarities=members["similarities"], cuts=members["cuts"])


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
        "also": np.full(n, -1, np.intp),
        "links": np.zeros(n, np.int8),
        "similarities": np.full(n, np.nan, np.float32),
        "cuts": np.full(n, np.nan, np.float32),
    }
