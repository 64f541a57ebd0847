"""One ranked list against the labels: what repeats, what was found, in what order.

Sources: subtopic recall Zhai, Cohen and Lafferty, SIGIR 2003; nDCG Järvelin and Kekäläinen 2002.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from vecsieve.proxy.selection.values import FloatVector

NEW_SHARE = 0.5  # an item with a smaller share of unseen atoms is redundant


def redundant(atoms: Sequence[Sequence[str]]) -> int:
    """How many of the items, best first, say less than half of it for the first time.

    An item without atoms is never redundant: nothing is known of what it says. An atom that an item has twice counts twice.
    """
    seen: set[str] = set()
    count = 0
    for said in atoms:
        count += sum(atom not in seen for atom in said) < NEW_SHARE * len(said)
        seen.update(said)
    return count


def met(rows: Collection[int], subtopics: Mapping[str, frozenset[int]]) -> frozenset[str]:
    """The subtopics that have an item in the list."""
    return frozenset(name for name, satisfying in subtopics.items() if not satisfying.isdisjoint(rows))


def discounts(count: int) -> FloatVector:
    """1 / log2(rank + 1) of the ranks 1 … ``count``."""
    return 1.0 / np.log2(np.arange(2, count + 2))


def ndcg(rows: Sequence[int], relevant: frozenset[int], top_k: int) -> float:
    """Binary gain over all relevant items. Copies earn again, so collapsing them lowers it: never a gate."""
    weights = discounts(top_k)
    gain = sum(float(weights[rank]) for rank, row in enumerate(rows[:top_k]) if row in relevant)
    return gain / float(weights[: min(top_k, len(relevant))].sum())
