"""Why each candidate is kept or left out: the proxy's selection, repeated on the same candidates.

The proxy returns results without reasons. Selection is deterministic, so the same pool under the same policy gives the same answer, and
here all details of the selection are available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool as Fetched
from vecsieve.adapters.contract import Search

from ..search.candidates import asked_for, from_pool
from ..search.policy import ResolvedPolicy
from ..selection.geometry import measure, median_distance
from ..selection.grouping import cuts_of, distances_of
from ..selection.guards.veto import vetoes
from ..selection.policy import Certain, Policy
from ..selection.single import select
from ..selection.text.reading import read
from ..selection.values import Candidates, Link, Selection, Veto, finished
from .corpus import Corpus, Vectors
from .database import Answer


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
class Verdict:
    """Selection's decision on one candidate. All rows are corpus rows.

    ``rank``: in the direct ranking, from 1. ``representative``: the row that represents it, None for itself. ``link`` and ``similarity``:
    as in Selection. ``cut``: the similarity from which on it was a copy of a result above. ``veto``: the guard that kept it.
    ``kept_apart_from``: rows above it that the guard distinguishes it from, nearest first.
    """

    rank: int
    representative: int | None
    link: Link
    similarity: float
    cut: float
    veto: Veto
    kept_apart_from: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """``verdicts``: by corpus row. ``kept``: the rows of the answer. ``cuts``: at the second and at the last result of the page.
    ``median``: the median pairwise distance of the first candidates.
    """

    verdicts: Mapping[int, Verdict]
    kept: tuple[int, ...]
    cuts: tuple[float, float]
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
    policy, rules = pool.policy.selection, pool.policy.selection.text
    required = _required(candidates, policy)
    counts = None
    if rules is not None and candidates.metadata.texts is not None:
        counts = read(candidates.metadata, rules).word_counts
    guarded = _Guarded(candidates=candidates, policy=policy, counts=counts)
    return Reasons(
        verdicts=_verdicts(rows[: candidates.size], candidates, selection, required, guarded),
        kept=tuple(rows[place] for place in selection.keep.tolist()),
        cuts=(required[min(1, len(required) - 1)], required[max(0, min(page, len(required)) - 1)]),
        median=median,
    )


def _select(
    corpus: Corpus, rows: Sequence[int], scores: Mapping[int, float], policy: ResolvedPolicy, page: int
) -> tuple[Candidates, Selection]:
    fields = policy.fields
    must, may = asked_for(policy.tenant_keys, fields)
    payloads = [corpus.chunks[row].payload() for row in rows]
    fetched = Fetched(
        scores=np.array([scores[row] for row in rows], dtype=np.float64),
        vectors=_vectors(corpus, rows),
        fields=tuple(
            tuple(msgspec.json.encode(payload[key]) if key in payload else None for key in (*must, *may))
            for payload in payloads
        ),
    )
    search = Search(top_k=page, offset=0, pages=False, query=None)
    candidates = from_pool(fetched, search, tenant_keys=policy.tenant_keys, fields=fields)
    return candidates, select(candidates, top_k=page, policy=policy.selection)


def _vectors(corpus: Corpus, rows: Sequence[int]) -> Vectors:
    return corpus.vectors[list(rows)]


def _required(candidates: Candidates, policy: Policy) -> list[float]:
    """The similarity that makes a copy after 0, 1, 2, … results; at least one entry."""
    measured = distances_of(candidates, policy)
    unit = 1.0 if isinstance(policy.threshold, Certain) else measured.shown_unit
    return [1.0 - cut * unit for cut in cuts_of(measured, policy, None, candidates.size)]


def _verdicts(
    rows: Sequence[int], candidates: Candidates, selection: Selection, required: Sequence[float], guarded: _Guarded
) -> dict[int, Verdict]:
    found: dict[int, Verdict] = {}
    results = 0
    for place, row in enumerate(rows):
        head = int(selection.representative[place])
        found[row] = Verdict(
            rank=place + 1,
            representative=None if head == place else rows[head],
            link=Link(int(selection.links[place])),
            similarity=float(selection.similarities[place]),
            cut=required[min(results, len(required) - 1)],
            veto=Veto(int(selection.vetoes[place])),
            kept_apart_from=tuple(rows[above] for above in guarded.partners(place, int(selection.vetoes[place]))),
        )
        results += head == place
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guarded:
    """Finds the candidates that a guard distinguished from another, because selection reports only the guard."""

    candidates: Candidates
    policy: Policy
    counts: npt.NDArray[np.int64] | None

    def partners(self, place: int, veto: int) -> tuple[int, ...]:
        """The places above ``place`` that ``veto`` applies to, nearest first."""
        known = self.candidates.metadata
        if veto == Veto.NONE or known.texts is None:
            return ()
        above = np.arange(place, dtype=np.intp)
        pairs, raw = (above, np.full(place, place)), [None if text is None else text.raw for text in known.texts]
        codes = finished(vetoes(known.texts, known, *pairs, self.policy.guards, self.counts, raw.__getitem__))
        vectors = self.candidates.vectors
        distance = 1.0 - vectors[:place] @ vectors[place]
        guarded = above[codes == veto]
        guarded = guarded[np.argsort(distance[guarded], kind="stable")]
        return tuple(guarded.tolist())
