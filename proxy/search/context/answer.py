"""The last step of a selection: repeats and token budgets decide which of the chosen results are in the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from vecsieve.adapters.contract import Pool

from ...runtime.loop import LongWork
from ...selection.values import Fate, Selection
from ..candidates import QUOTE, TEXT_BYTES, Columns, string
from ..policy import ResolvedPolicy
from ..pools.values import Selected
from .tokens import TextBudget, affordable, of_bytes


async def surround(selected: Selected, work: LongWork, *, is_long: bool) -> Selected:
    """Apply repeats and budgets. ``is_long``: whether the reply is large."""
    selected = replace(selected, selections=selected.unbudgeted)
    budget = selected.pools.policy.budget
    if budget.tokens is None:
        return selected
    paid = partial(_paid, selected, budget, budget.tokens)
    return replace(selected, selections=await work.done(paid, is_long=is_long or not budget.is_quick))


def _paid(selected: Selected, budget: TextBudget, tokens: int) -> tuple[Selection, ...]:
    """The selections, each truncated to what the budget allows for its results' texts. A search that was not widened has no texts and is
    unchanged.
    """
    pools = selected.pools
    rows = zip(pools.reply.pools, selected.selections, pools.planned.plan, strict=True)
    return tuple(
        selection
        if planned is None
        else cut(selection, affordable(costs(pool, selection, pools.policy, budget), tokens))
        for pool, selection, planned in rows
    )


def cut(selection: Selection, count: int) -> Selection:
    """The selection's first ``count`` results."""
    if count >= len(selection.keep):
        return selection
    fates = selection.fates.copy()
    fates[selection.keep[count:]] = np.int8(Fate.OVER_BUDGET)
    return replace(selection, keep=selection.keep[:count], fates=fates)


def costs(pool: Pool, selection: Selection, policy: ResolvedPolicy, budget: TextBudget) -> Iterator[int]:
    """The tokens of each result's text, in answer order; 0 for a result without a text."""
    columns = Columns(policy.keys, pool.fields).present(budget.paths or policy.text_paths) if pool.fields else []
    for row in selection.keep.tolist():
        yield next((cost(raw, budget) for column in columns if (raw := column[row]) not in {None, b"null"}), 0)


def cost(raw: bytes, budget: TextBudget) -> int:
    """The tokens of a payload value. For a value that is no string or too long to be read, an estimate from the bytes of its JSON."""
    text = string(raw, most_bytes=TEXT_BYTES) if raw[:1] == QUOTE else None
    return of_bytes(len(raw) - 2 * (raw[:1] == QUOTE)) if text is None else budget.count(text)
