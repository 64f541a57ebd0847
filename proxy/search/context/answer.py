"""The last step of a selection: repeats, overlaps and token budgets decide which of the chosen results are in the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from vecsieve.adapters.contract import Pool

from ...runtime.loop import LongWork
from ...selection.policy import Require, TextRules
from ...selection.text.reading import read
from ...selection.text.seams import overlaps
from ...selection.values import Fate, Metadata, Selection, Steps
from ..candidates import QUOTE, TEXT_BYTES, Columns, asked_for, from_pool, string
from ..fetch import Attempt, Overlap
from ..policy import ResolvedPolicy
from .tokens import TextBudget, affordable, of_bytes


async def surround(attempt: Attempt, work: LongWork, *, is_long: bool) -> None:
    """Apply repeats, overlaps and budgets to the selections of an attempt. ``is_long``: whether its reply is large."""
    if attempt.renewed:
        attempt.selections = attempt.renewed
    if attempt.policy.marks_overlaps:
        attempt.overlapping = await work.finished(_overlapping(attempt), nullcontext(), is_long=is_long)
    budget = attempt.policy.budget
    if budget.tokens is not None:
        paid = partial(_paid, attempt, budget, budget.tokens)
        attempt.selections = await work.done(paid, is_long=is_long or not budget.is_quick)


# Overlaps of any size, and adjacent chunks.
_ANY = TextRules(identical=False, near=(), require=Require.ANY, span=None, reach=None, short_words=0, stitch=0.0)


def _overlapping(attempt: Attempt) -> Steps[tuple[tuple[Overlap, ...], ...]]:
    """Which results of each search are overlapping chunks, in steps."""
    assert attempt.reply is not None  # noqa: S101 - a selection was made of it
    policy = attempt.policy
    found: list[tuple[Overlap, ...]] = []
    for search, pool, selection in zip(attempt.call.searches, attempt.reply.pools, attempt.selections, strict=True):
        keep = selection.keep.tolist()
        fields = tuple([pool.fields[row] for row in keep]) if pool.fields else ()
        page = Pool(scores=pool.scores[keep], vectors=pool.vectors[keep], fields=fields)
        known = from_pool(page, search, tenant_keys=policy.tenant_keys, fields=policy.fields).metadata
        found.append((yield from overlaps_of(known, keep)))
    return tuple(found)


def overlaps_of(known: Metadata, rows: list[int]) -> Steps[tuple[Overlap, ...]]:
    """The overlaps of these candidates, in steps; ``known``: their metadata."""
    if known.texts is None and known.documents is None:
        return ()
    each, texts = np.arange(len(rows), dtype=np.intp), read(known, _ANY)
    yield from texts.reading(range(len(texts)))
    shares = (yield from overlaps(texts, each, each)).shares
    pairs = np.argwhere(np.triu(~np.isnan(shares), 1)).tolist()
    return tuple(Overlap(rows[one], rows[other], float(shares[one, other])) for one, other in pairs)


def _paid(attempt: Attempt, budget: TextBudget, tokens: int) -> tuple[Selection, ...]:
    """The selections, each truncated to what the budget allows for its results' texts. A search that was not widened has no texts and is
    unchanged.
    """
    assert attempt.reply is not None  # noqa: S101 - a selection was made of it
    rows = zip(attempt.reply.pools, attempt.selections, attempt.plan, strict=True)
    return tuple(
        selection
        if planned is None
        else cut(selection, affordable(costs(pool, selection, attempt.policy, budget), tokens))
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
    must, may = asked_for(policy.tenant_keys, policy.fields)
    columns = Columns((*must, *may), pool.fields).present(budget.paths or policy.text_paths) if pool.fields else []
    for row in selection.keep.tolist():
        yield next((cost(raw, budget) for column in columns if (raw := column[row]) not in {None, b"null"}), 0)


def cost(raw: bytes, budget: TextBudget) -> int:
    """The tokens of a payload value. For a value that is no string or too long to be read, an estimate from the bytes of its JSON."""
    text = string(raw, most_bytes=TEXT_BYTES) if raw[:1] == QUOTE else None
    return of_bytes(len(raw) - 2 * (raw[:1] == QUOTE)) if text is None else budget.count(text)
