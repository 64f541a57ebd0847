"""Selects the chunks to keep. Uses only numpy: no JSON, no HTTP, no clock, no model.

Chunks are ranked by score, equal scores by their order. The stages: remove exact duplicates and near-duplicates (walk.py), cluster the rest,
take the representative of each cluster and up to ``max_per_cluster`` of its members, apply MMR if more than ``target_k`` remain, remove
redundant white space, apply the token budget. Each removed chunk is reported with its stage and the chunk that it repeats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..selection.clustering import cluster
from ..selection.diversifiers.mmr import mmr
from ..selection.diversifiers.relevance import query_distance, scaled
from ..selection.policy import Linkage, Strategy
from ..selection.representatives import represent
from ..selection.single import expand
from ..selection.values import Candidates, FloatMatrix, FloatVector, Indices, Metric
from .walk import Reader, Repeat, Stage, Walk, Words, jaccard, labels_of, lexicon_of

Tokens = Callable[[str], int]
"""Counts the tokens of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options. ``token_budget``: None for no limit. ``cluster_cut``: the largest distance at which clusters merge. ``mmr_lambda``:
    1.0 is only relevance; None for no MMR. ``query``: the text of the query. ``query_vector``: (d,) float32 or None.
    """

    target_k: int
    token_budget: int | None
    semantic: float
    cluster_cut: float
    linkage: Linkage
    max_per_cluster: int
    mmr_lambda: float | None
    representative: Strategy
    compress: bool
    query: str
    query_vector: FloatMatrix | None

    @property
    def dimension(self) -> int | None:
        """The dimension of the compared vectors; None: that of the first chunk with a vector."""
        return None if self.query_vector is None or not len(self.query_vector) else len(self.query_vector)


@dataclass(frozen=True, slots=True)
class Chunks:
    """n chunks in the order of the request. ``scores``: finite, higher is better. ``vectors``: (d,) float32 each, or None."""

    texts: Sequence[str]
    scores: Sequence[float]
    vectors: Sequence[FloatMatrix | None]


@dataclass(frozen=True, slots=True)
class Kept:
    """``number``: the chunk's position in the request. ``text``: without redundant white space, if ``compress`` is true."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Removed:
    """``of``: the chunk that it repeats; None if it was removed only for lack of room."""

    number: int
    stage: Stage
    of: int | None


@dataclass(frozen=True, slots=True)
class Optimized:
    """``kept``: in the order of the reply. ``removed``: all other chunks, in the order of the request."""

    kept: tuple[Kept, ...]
    removed: tuple[Removed, ...]
    clusters: int
    input_tokens: int
    output_tokens: int

    def count(self, stage: Stage) -> int:
        return sum(each.stage is stage for each in self.removed)


@dataclass(frozen=True, slots=True)
class _Pool:
    """The m survivors of the walk in rank order. ``numbers``: the chunks' positions in the request."""

    numbers: Sequence[int]
    words: Sequence[Words]
    candidates: Candidates
    distance: FloatMatrix


def optimize(chunks: Chunks, wishes: Wishes, tokens: Tokens) -> Optimized:
    """The chunks to keep, and the reason for each removed chunk."""
    ranked = sorted(range(len(chunks.texts)), key=lambda number: -chunks.scores[number])
    walk = Walk(semantic=wishes.semantic, dimension=wishes.dimension)
    words = Reader().read([chunks.texts[number] for number in ranked])
    repeats: list[Repeat | None] = []
    distances: list[FloatVector] = []
    for number, own in zip(ranked, words, strict=True):
        repeats.append(walk.step(own, chunks.vectors[number]))
        if repeats[-1] is None:
            distances.append(walk.distances)
    removed = {
        ranked[place]: Removed(ranked[place], repeat.stage, ranked[repeat.of])
        for place, repeat in enumerate(repeats)
        if repeat is not None
    }
    pool = _pool(
        chunks, [ranked[place] for place in walk.kept], [words[place] for place in walk.kept], distances, wishes
    )
    if wishes.linkage is Linkage.LEADER:
        labels = labels_of(distances, wishes.cluster_cut)
    else:
        labels = cluster(pool.distance, wishes.cluster_cut, wishes.linkage)
    standing = _standing(pool, labels, wishes)
    choices = expand(labels, standing, wishes.max_per_cluster)
    picks = _picks(pool, choices, wishes)
    for place in sorted(set(range(len(labels))) - set(picks.tolist())):
        number, stands = pool.numbers[place], int(standing[labels[place]])
        is_choice = place in choices
        of = None if is_choice else pool.numbers[stands]
        removed[number] = Removed(number, Stage.TARGET if is_choice else Stage.CLUSTER, of)
    kept, over, spent = fitted(
        [(pool.numbers[i], chunks.texts[pool.numbers[i]]) for i in picks.tolist()], wishes, tokens
    )
    removed.update({number: Removed(number, Stage.BUDGET, None) for number in over})
    return Optimized(
        tuple(kept),
        tuple(removed[number] for number in sorted(removed)),
        len(standing),
        sum(map(tokens, chunks.texts)),
        spent,
    )


def _pool(
    chunks: Chunks, numbers: Sequence[int], words: Sequence[Words], distances: Sequence[FloatVector], wishes: Wishes
) -> _Pool:
    size = len(numbers)
    distance = np.zeros((size, size), np.float32)
    for place, row in enumerate(distances):
        distance[place, :place] = distance[:place, place] = row
    dimension = wishes.dimension or next((len(found) for i in numbers if (found := chunks.vectors[i]) is not None), 0)
    vectors = np.zeros((size, dimension), np.float32)
    for place, number in enumerate(numbers):
        found = chunks.vectors[number]
        if found is not None and len(found) == dimension:
            vectors[place] = found
    candidates = Candidates(
        scores=np.array([chunks.scores[number] for number in numbers], np.float64),
        vectors=vectors,
        metric=Metric.COSINE,
        query=wishes.query_vector,
        text_lengths=np.array([len(chunks.texts[number]) for number in numbers], np.int64),
    )
    return _Pool(numbers, words, candidates, distance)


def _standing(pool: _Pool, labels: Indices, wishes: Wishes) -> Indices:
    """The representative of each cluster."""
    standing = represent(labels, pool.distance, pool.candidates, strategy=wishes.representative, magnitude=False).copy()
    if wishes.representative is Strategy.QUERY_CLOSEST and _to_query(pool) is None:
        merit = _shares(pool, wishes.query)
        for label in np.flatnonzero(np.bincount(labels) > 1).tolist():
            members = np.flatnonzero(labels == label)
            standing[label] = members[merit[members].argmax()]
    return standing


def _picks(pool: _Pool, choices: Indices, wishes: Wishes) -> Indices:
    """At most ``target_k`` of the choices. MMR picks and orders them if there are more; else they stay in rank order."""
    if wishes.mmr_lambda is None or len(choices) <= wishes.target_k:
        return choices[: wishes.target_k]
    near = jaccard([pool.words[place].vocabulary for place in choices.tolist()])
    apart = np.minimum(pool.distance[np.ix_(choices, choices)], np.float32(1.0) - near)
    relevance = _relevance(pool, wishes)[choices]
    return choices[mmr(relevance, apart, weight=wishes.mmr_lambda, count=wishes.target_k)]


def _relevance(pool: _Pool, wishes: Wishes) -> FloatVector:
    """The relevance of each chunk (m,): its cosine to the query if all chunks have one. Else its score. If all scores are equal, the
    share of the query's words that it has.
    """
    to_query = _to_query(pool)
    if to_query is not None:
        return 1.0 - to_query
    scores = pool.candidates.scores
    return scaled(scores) if len(scores) and np.ptp(scores) > 0.0 else _shares(pool, wishes.query)


def _to_query(pool: _Pool) -> FloatVector | None:
    """The distance of each chunk to the query (m,); None unless all have one, because two scales cannot be mixed in one list."""
    found = query_distance(pool.candidates, magnitude=False)
    return None if found is None or not np.isfinite(found).all() else found


def _shares(pool: _Pool, query: str) -> FloatVector:
    """The share of the query's words that each chunk has (m,)."""
    (asked,) = Reader().read([query])
    return lexicon_of(words.vocabulary for words in pool.words).shares(asked.vocabulary)


def fitted(
    chosen: Sequence[tuple[int, str]], wishes: Wishes, tokens: Tokens, spent: int = 0
) -> tuple[list[Kept], list[int], int]:
    """The chunks that fit into the token budget, uncut and in order; the numbers of the other chunks; the tokens spent in all.
    ``spent``: tokens spent before.
    """
    kept: list[Kept] = []
    over: list[int] = []
    for number, text in chosen:
        shown = compressed(text) if wishes.compress else text
        cost = tokens(shown)
        if wishes.token_budget is not None and spent + cost > wishes.token_budget:
            over.append(number)
            continue
        spent += cost
        kept.append(Kept(number, shown))
    return kept, over, spent


_INNER = re.compile(r"(?<=\S)[^\S\n]{2,}(?=\S)")
_LINES = re.compile(r"\n{3,}")


def compressed(text: str) -> str:
    """The text without redundant white space: at line ends, repeated blanks inside a line, repeated empty lines, and empty lines at the
    beginning and the end. The indentation of lines stays, because code and lists need it.
    """
    lines = (_INNER.sub(" ", line.rstrip()) for line in text.replace("\r\n", "\n").split("\n"))
    return _LINES.sub("\n\n", "\n".join(lines)).strip("\n")
