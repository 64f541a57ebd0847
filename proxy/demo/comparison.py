"""Two answers to one question, laid side by side: what repeats what, what went out, what came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.demo.collection import Answer
from vecsieve.proxy.demo.corpus import Corpus
from vecsieve.proxy.demo.repeats import Nearest, nearest_earlier, vector_repeats, wording_repeats
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The result tells what the result at ``place`` (from 0, in the same list) tells; ``distance``: cosine, of the two.

    ``same_text``: whether they agree letter for letter.
    """

    place: int
    distance: float
    same_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """No copy, and yet not in the other answer: maximal marginal relevance preferred something more different."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CameIn:
    """Not among the direct results. ``rank``: its direct rank, from 1; None when it lies beyond the pool looked at."""

    rank: int | None


Note = Repeat | PassedOver | CameIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many results of one list repeat an earlier one of the same list, by vector and by wording."""

    results: int
    by_vector: int
    by_wording: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two lists: corpus rows in order, their texts, a note where there is something to say, and its counts."""

    rows: tuple[int, ...]
    texts: tuple[str, ...]
    notes: tuple[Note | None, ...]
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``threshold``: the cosine distance up to which two of this question's candidates count as copies.

    Results are told apart by their texts, not by their ids: chunks of equal text have equal scores, and which of those
    comes first the engine decides anew for every limit.
    """

    direct: Side
    proxied: Side
    threshold: float

    @property
    def changed(self) -> bool:
        """Whether the answers differ in any text."""
        return self.direct.texts != self.proxied.texts

    @property
    def first_kept(self) -> bool:
        """Whether both answers begin with the same text."""
        return self.direct.texts[:1] == self.proxied.texts[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What the proxy had to choose from: the first ``first`` candidates of ``answer``, all of them where those lacked
    distinct results; and the policy it chose by.
    """

    answer: Answer
    first: int
    policy: Policy


def compare(corpus: Corpus, pool: Pool, *, direct: Answer, proxied: Answer) -> Comparison:
    """Judge both answers by the corpus's own vectors and texts.

    The threshold and the clusters are computed as the proxy does, so that the notes say what happened there.
    """
    chosen = _select(corpus, pool, size=pool.first, top_k=len(direct.rows))
    if chosen.wanting:
        chosen = _select(corpus, pool, size=len(pool.answer.rows), top_k=len(direct.rows))
    ranks = {row: rank for rank, row in enumerate(pool.answer.rows, 1)}
    clusters = {row: int(label) for row, label in zip(pool.answer.rows, chosen.labels, strict=False)}
    repeats = _direct_notes(corpus, direct.rows, proxied.rows, clusters=clusters, threshold=chosen.threshold)
    arrivals = _proxied_notes(corpus, proxied.rows, direct.rows, ranks=ranks, threshold=chosen.threshold)
    return Comparison(
        direct=_side(corpus, direct.rows, repeats, threshold=chosen.threshold),
        proxied=_side(corpus, proxied.rows, arrivals, threshold=chosen.threshold),
        threshold=chosen.threshold,
    )


def _select(corpus: Corpus, pool: Pool, *, size: int, top_k: int) -> Selection:
    candidates = Candidates(
        scores=np.asarray(pool.answer.scores[:size], dtype=np.float64),
        vectors=corpus.vectors[list(pool.answer.rows[:size])],
        magnitude=False,
    )
    return select(candidates, top_k=top_k, policy=pool.policy)


def _direct_notes(
    corpus: Corpus, rows: tuple[int, ...], others: tuple[int, ...], *, clusters: Mapping[int, int], threshold: float
) -> tuple[Note | None, ...]:
    notes: list[Note | None] = list(_repeats(corpus, rows, threshold))
    elsewhere = _texts(corpus, others)
    for place, row in enumerate(rows):
        if notes[place] is None and corpus.chunks[row].text not in elsewhere:
            notes[place] = _clustered(corpus, rows, place, clusters=clusters)
    return tuple(notes)


def _clustered(corpus: Corpus, rows: tuple[int, ...], place: int, *, clusters: Mapping[int, int]) -> Note:
    """Why a result went out that is within the threshold of none above it: its cluster reaches it through a third."""
    label = clusters.get(rows[place])
    for above in range(place):
        if label is not None and clusters.get(rows[above]) == label:
            distance = 1.0 - float(corpus.vectors[rows[place]] @ corpus.vectors[rows[above]])
            return _repeat(corpus, rows, place, Nearest(place=above, distance=distance))
    return PassedOver()


def _proxied_notes(
    corpus: Corpus, rows: tuple[int, ...], others: tuple[int, ...], *, ranks: Mapping[int, int], threshold: float
) -> tuple[Note | None, ...]:
    notes: list[Note | None] = list(_repeats(corpus, rows, threshold))
    elsewhere = _texts(corpus, others)
    for place, row in enumerate(rows):
        if notes[place] is None and corpus.chunks[row].text not in elsewhere:
            notes[place] = CameIn(rank=ranks.get(row))
    return tuple(notes)


def _repeats(corpus: Corpus, rows: tuple[int, ...], threshold: float) -> tuple[Repeat | None, ...]:
    return tuple(
        None if near is None or near.distance > threshold else _repeat(corpus, rows, place, near)
        for place, near in enumerate(nearest_earlier(corpus.vectors[list(rows)]))
    )


def _repeat(corpus: Corpus, rows: tuple[int, ...], place: int, near: Nearest) -> Repeat:
    same = corpus.chunks[rows[place]].text == corpus.chunks[rows[near.place]].text
    return Repeat(place=near.place, distance=near.distance, same_text=same)


def _side(corpus: Corpus, rows: tuple[int, ...], notes: tuple[Note | None, ...], *, threshold: float) -> Side:
    texts = _texts(corpus, rows)
    counts = Counts(
        results=len(rows),
        by_vector=vector_repeats(corpus.vectors[list(rows)], threshold),
        by_wording=wording_repeats(texts),
    )
    return Side(rows=rows, texts=texts, notes=notes, counts=counts)


def _texts(corpus: Corpus, rows: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(corpus.chunks[row].text for row in rows)
