"""Why each candidate is kept or left out: the proxy's selection, repeated on the same candidates.

The proxy returns results without reasons. Selection is deterministic, so the same pool under the same policy gives the same answer, and
here all details of the selection are available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from vecsieve.adapters.contract import Pool as Fetched
from vecsieve.adapters.contract import Search

from ..admin.reasons import is_alike, passed_over, verdicts
from ..search.candidates import candidates_of, records_of
from ..search.policy import ResolvedPolicy, keys_of
from ..selection.geometry import measure, median_distance
from ..selection.judging.judge import Missing
from ..selection.judging.judge import Verdict as Judged
from ..selection.single import selecting
from ..selection.values import Candidates, Link, Selection, finished
from .corpus import Corpus, Vectors
from .database import Answer

# The payload key of a chunk's text, which the proxy learns.
TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The pool from which the proxy selected: the first ``first`` candidates of ``answer``, or all of them if those had too few distinct
    results. ``policy``: one that goes through the ranking in order, as the default does.

    ``size``: how many candidates it reports; None: not reported. A proxy with other settings may start below ``first``.
    """

    answer: Answer
    first: int
    policy: ResolvedPolicy
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """A result above that says part of another. ``missing``: the first thing that it does not say."""

    row: int
    missing: Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Selection's decision on one candidate. All rows are corpus rows.

    ``rank``: in the direct ranking, from 1. ``holders``: the rows that say all of it, the representative first; () if it stands for itself. ``link``,
    ``similarity``, ``cut``: as in Selection. ``but``: differences that were passed over, in words. ``like``: why it stays beside another; None if
    nothing above is like it.
    """

    rank: int
    holders: tuple[int, ...]
    link: Link
    similarity: float
    cut: float
    but: str
    like: Like | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """``verdicts``: by corpus row. ``kept``: the rows of the answer. ``median``: the median pairwise distance of the first candidates."""

    verdicts: Mapping[int, Verdict]
    kept: tuple[int, ...]
    median: float


def explain(corpus: Corpus, pool: Pool, direct: Answer) -> Reasons:
    """The reasons of the proxy's answer to a search for as many results as ``direct`` has.

    The direct results come first, in their own order: engines may order chunks of equal score differently for another
    limit.
    """
    scores = dict(zip((*pool.answer.rows, *direct.rows), (*pool.answer.scores, *direct.scores), strict=True))
    rows = tuple(dict.fromkeys((*direct.rows, *pool.answer.rows)))
    page = len(direct.rows)
    first = rows[: pool.first]
    median = median_distance(measure(_vectors(corpus, first), magnitude=False))
    seen = first if pool.size is None else rows[: pool.size]
    candidates, selection = _select(corpus, seen, scores, pool.policy, page)
    if pool.size is None and selection.wanting and len(rows) > len(first):
        candidates, selection = _select(corpus, rows, scores, pool.policy, page)
    return Reasons(
        verdicts=_verdicts(rows[: candidates.size], candidates, selection, pool.policy),
        kept=tuple(rows[place] for place in selection.keep.tolist()),
        median=median,
    )


def _select(
    corpus: Corpus, rows: Sequence[int], scores: Mapping[int, float], policy: ResolvedPolicy, page: int
) -> tuple[Candidates, Selection]:
    fields = policy.with_texts((TEXT,)).fields
    keys = keys_of(policy.tenant_keys, fields)
    payloads = [corpus.chunks[row].payload() for row in rows]
    fetched = Fetched(
        scores=np.array([scores[row] for row in rows], dtype=np.float64),
        vectors=_vectors(corpus, rows),
        fields=tuple(
            tuple(msgspec.json.encode(payload[key]) if key in payload else None for key in keys) for payload in payloads
        ),
    )
    search = Search(top_k=page, offset=0, pages=False, query=None)
    records = records_of(fetched, tenant_keys=policy.tenant_keys, fields=fields)
    candidates = candidates_of(fetched, search, records, fields=fields)
    return candidates, finished(selecting(candidates, top_k=page, policy=policy.selection, whole=True))


def _vectors(corpus: Corpus, rows: Sequence[int]) -> Vectors:
    return corpus.vectors[list(rows)]


def _verdicts(
    rows: Sequence[int], candidates: Candidates, selection: Selection, policy: ResolvedPolicy
) -> dict[int, Verdict]:
    judged = verdicts(candidates, policy.selection, selection.representative == np.arange(candidates.size))
    return {row: _verdict(rows, place, candidates, selection, judged.get(place)) for place, row in enumerate(rows)}


def _verdict(
    rows: Sequence[int], place: int, candidates: Candidates, selection: Selection, judged: Judged | None
) -> Verdict:
    """``judged``: the verdict on its text, in words; None without a text."""
    head, also = int(selection.representative[place]), int(selection.also[place])
    link, texts = Link(int(selection.links[place])), candidates.metadata.texts
    holders: tuple[int, ...] = () if head == place else (head,) if also < 0 else (head, also)
    but, like = "", None
    if judged is not None and texts is not None and judged.link == link:
        text, holder = texts[place], texts[head]
        if judged.holders[:1] == holders[:1] and holders and text is not None and holder is not None:
            holders, but = judged.holders, passed_over(judged, text, holder)
        if not holders and judged.missing is not None and is_alike(judged):
            like = Like(row=rows[judged.missing.text], missing=judged.missing)
    return Verdict(
        rank=place + 1,
        holders=tuple(rows[holder] for holder in holders),
        link=link,
        similarity=float(selection.similarities[place]),
        cut=float(selection.cuts[place]),
        but=but,
        like=like,
    )
