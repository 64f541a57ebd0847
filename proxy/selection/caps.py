"""No more than so many results of one cluster, one document, one source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.selection.clustering import best_ranked
from vecsieve.proxy.selection.policy import Caps
from vecsieve.proxy.selection.values import Indices

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
