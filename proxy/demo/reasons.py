"""Why each candidate stays or goes: the proxy's own selection done once more, on the candidates as the proxy reads them.

The proxy answers with results, not with reasons. Selection is deterministic: the same pool under the same policy gives the
same answer, and this time everything that was found on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool as Fetched
from vecsieve.adapters.contract import Search
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.search.candidates import asked_for, from_pool
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.geometry import measure
from vecsieve.proxy.selection.grouping import cuts_of, distances_of
from vecsieve.proxy.selection.guards.veto import vetoes
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.thresholds import median_distance
from vecsieve.proxy.selection.values import Candidates, Link, Selection, Veto, finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What the proxy had to choose from: the first ``first`` candidates of ``answer``, all of them where those lacked
    distinct results; and the policy it chose by, one that walks the ranking as the default does.

    ``known``: how many of ``answer`` it chose from, where it says so: one that learns how many a collection's pages want
    begins with fewer than ``first``.
    """

    answer: Answer
    first: int
    policy: ResolvedPolicy
    known: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What selection says of one candidate.

    ``rank``: its place in the direct ranking, from 1. ``stands_for_it``: the corpus row of the result that does, None for a
    result of its own; ``link`` and ``similarity``: why and by how much, as in Selection. ``cut``: the cosine distance up to
    which it counted as near a result above. ``veto``: the guard that made it a result of its own. ``apart_from``: the
    corpus rows above which that guard keeps it apart from, the nearest first.
    """

    rank: int
    stands_for_it: int | None
    link: Link
    similarity: float
    cut: float
    veto: Veto
    apart_from: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """``verdicts``: by corpus row. ``kept``: the rows of the answer. ``cuts``: how near counts below the first result of the
    page and below all but its last. ``short``: the rows whose texts are short; two of them may lie ``short_factor`` times
    as far apart. ``median``: the typical distance of two of the first candidates.
    """

    verdicts: Mapping[int, Verdict]
    kept: tuple[int, ...]
    cuts: tuple[float, float]
    short: frozenset[int]
    short_factor: float
    median: float

    def cut(self, row: int, above: int) -> float | None:
        """How near ``row`` had to be to count as a copy of ``above``; None for a row that was not looked at."""
        verdict = self.verdicts.get(row)
        if verdict is None:
            return None
        return verdict.cut * (self.short_factor if {row, above} <= self.short else 1.0)


def explain(corpus: Corpus, pool: Pool, direct: Answer) -> Reasons:
    """The reasons of the answer that the proxy gives to a client who asks for as many results as ``direct`` has.

    The direct results come first, in their own order: among chunks of equal text and score the engine decides anew for
    every limit which is listed first.
    """
    scores = dict(zip((*pool.answer.rows, *direct.rows), (*pool.answer.scores, *direct.scores), strict=True))
    rows = tuple(dict.fromkeys((*direct.rows, *pool.answer.rows)))
    page = len(direct.rows)
    first = rows[: pool.first]
    median = median_distance(measure(_vectors(corpus, first), magnitude=False))
    seen = first if pool.known is None else rows[: pool.known]
    candidates, selection = _select(corpus, seen, scores, pool.policy, page)
    if pool.known is None and selection.wanting and len(rows) > len(first):
        candidates, selection = _select(corpus, rows, scores, pool.policy, page)
    policy, rules = pool.policy.selection, pool.policy.selection.text
    grown = _cuts(candidates, selection, policy)
    counts = None
    short: frozenset[int] = frozenset()
    if rules is not None and candidates.metadata.texts is not None:
        counts = read(candidates.metadata, rules).word_counts
        short = frozenset(
            row for row, count in zip(rows, counts.tolist(), strict=False) if 0 <= count <= rules.short_words
        )
    guarded = _Guarded(candidates=candidates, policy=policy, counts=counts)
    return Reasons(
        verdicts=_verdicts(rows[: candidates.size], candidates, selection, grown, guarded),
        kept=tuple(rows[place] for place in selection.keep.tolist()),
        cuts=(grown[min(1, len(grown) - 1)], grown[max(0, min(page, len(grown)) - 1)]),
        short=short,
        short_factor=1.0 if rules is None else rules.short_factor,
        median=median,
    )


def _select(
    corpus: Corpus, rows: Sequence[int], scores: Mapping[int, float], policy: ResolvedPolicy, page: int
) -> tuple[Candidates, Selection]:
    """Read the payloads and choose, as the proxy does."""
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


def _cuts(candidates: Candidates, selection: Selection, policy: Policy) -> list[float]:
    """How near counts when 0, 1, 2, … results stand already; one entry at least."""
    measured = distances_of(candidates, policy)
    cuts = cuts_of(measured, measured.inside(0, candidates.size), policy, None, candidates.size)
    return [cut * measured.shown_unit for cut in cuts]


def _verdicts(
    rows: Sequence[int], candidates: Candidates, selection: Selection, grown: Sequence[float], guarded: _Guarded
) -> dict[int, Verdict]:
    found: dict[int, Verdict] = {}
    standing = 0
    for place, row in enumerate(rows):
        head = int(selection.representative[place])
        cut = grown[min(standing, len(grown) - 1)]
        found[row] = Verdict(
            rank=place + 1,
            stands_for_it=None if head == place else rows[head],
            link=Link(int(selection.links[place])),
            similarity=float(selection.similarities[place]),
            cut=cut,
            veto=Veto(int(selection.vetoes[place])),
            apart_from=tuple(rows[above] for above in guarded.partners(place, int(selection.vetoes[place]), cut)),
        )
        standing += head == place
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guarded:
    """Finds whom a guard keeps a candidate apart from: selection says by which guard, not from whom."""

    candidates: Candidates
    policy: Policy
    counts: npt.NDArray[np.int64] | None

    def partners(self, place: int, veto: int, cut: float) -> tuple[int, ...]:
        """The places above that ``veto`` speaks about and that are near enough to be copies, the nearest first.

        Where a guard spoke about two who would have met through a third, the nearest it speaks about.
        """
        known = self.candidates.metadata
        if veto == Veto.NONE or known.texts is None:
            return ()
        above = np.arange(place, dtype=np.intp)
        pairs, form = (above, np.full(place, place)), known.texts.__getitem__
        codes = finished(vetoes(known.texts, known.sources, *pairs, self.policy.guards, self.counts, form))
        vectors = self.candidates.vectors
        distance = 1.0 - vectors[:place] @ vectors[place]
        spoken = above[codes == veto]
        spoken = spoken[np.argsort(distance[spoken], kind="stable")]
        near = spoken[distance[spoken] <= cut]
        return tuple((near if len(near) else spoken[:1]).tolist())
