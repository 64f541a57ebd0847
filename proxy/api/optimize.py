"""Selects the chunks to keep. Uses only numpy: no JSON, no HTTP, no clock, no model.

Chunks are ranked by score, equal scores by their order. The stages: a chunk leaves if better-ranked ones say all of it (walk.py), else it stays or
represents its cluster; up to ``max_per_cluster`` members of a cluster are taken; MMR chooses if more than ``target_k`` remain; redundant white
space goes; the token budget is applied. Each removed chunk is reported with its stage, the chunks that cover it, and the reason in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..selection.diversifiers.mmr import mmr
from ..selection.diversifiers.relevance import query_distance, scaled
from ..selection.policy import Linkage, Strategy, Tier
from ..selection.reading.bounds import readable
from ..selection.representatives import represent
from ..selection.single import expand
from ..selection.values import Candidates, FloatMatrix, FloatVector, Indices
from .overlap import Words, jaccard, shares, words_of
from .walk import Decided, Repeat, Rules, Stage, candidates_of, matrix_of, text_of

Tokens = Callable[[str], int]
"""Counts the tokens of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options. ``token_budget``: None for no limit. ``tier``: what texts decide; None: embeddings decide alone. ``cut``: the largest cosine
    distance at which embeddings merge. ``mmr_lambda``: 1.0 is only relevance; None for no MMR. ``query``: the text of the query. ``query_vector``:
    (d,) float32 or None.
    """

    target_k: int
    token_budget: int | None
    tier: Tier | None
    cut: float
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

    @property
    def rules(self) -> Rules:
        return Rules(tier=self.tier, cut=self.cut, linkage=self.linkage)

    def can_never_fit(self, text: str, tokens: Tokens) -> bool:
        """Whether a text alone exceeds the budget. Such a chunk covers no other."""
        return self.token_budget is not None and tokens(self.returned(text)) > self.token_budget

    def returned(self, text: str) -> str:
        """A text as it is returned."""
        return compressed(text) if self.compress else text


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
    """``repeat``: by which chunks it is covered, with their positions in the request; None if it was removed only for lack of room."""

    number: int
    stage: Stage
    repeat: Repeat | None = None


@dataclass(frozen=True, slots=True)
class Optimized:
    """``kept``: in the order of the reply. ``removed``: all other chunks, in the order of the request."""

    kept: tuple[Kept, ...]
    removed: tuple[Removed, ...]
    clusters: int
    input_tokens: int
    output_tokens: int

    def count(self, stage: Stage) -> int:
        return sum(repeat.stage is stage for repeat in self.removed)


@dataclass(frozen=True, slots=True)
class _Pool:
    """m chunks in rank order. ``numbers``: their positions in the request. ``words``: of those that are read."""

    numbers: Sequence[int]
    words: Sequence[Words]
    candidates: Candidates
    decided: Decided


def optimize(chunks: Chunks, wishes: Wishes, tokens: Tokens) -> Optimized:
    """The chunks to keep, and the reason for each removed chunk."""
    too_large = {n for n, text in enumerate(chunks.texts) if wishes.can_never_fit(text, tokens)}
    ranked = sorted(set(range(len(chunks.texts))) - too_large, key=lambda number: (-chunks.scores[number], number))
    pool = _pool(chunks, ranked, wishes)
    labels = pool.decided.grouped.labels
    standing = _standing(pool, wishes)
    choices = expand(labels, standing, wishes.max_per_cluster)
    picks = _picks(pool, choices, wishes)
    kept, over, spent = fitted([(ranked[i], chunks.texts[ranked[i]]) for i in picks.tolist()], wishes, tokens)
    removed = {number: Removed(number, Stage.BUDGET) for number in (*too_large, *over)}
    among = set(choices.tolist())
    repeats = pool.decided.repeats(standing[labels])
    for place in sorted(set(range(len(ranked))) - set(picks.tolist())):
        number, repeat = ranked[place], repeats[place]
        if place in among or repeat is None:
            removed[number] = Removed(number, Stage.TARGET)
        else:
            removed[number] = Removed(number, repeat.stage, replace(repeat, of=tuple(ranked[i] for i in repeat.of)))
    return Optimized(
        tuple(kept),
        tuple(removed[number] for number in sorted(removed)),
        len(standing),
        sum(map(tokens, chunks.texts)),
        spent,
    )


def _pool(chunks: Chunks, ranked: Sequence[int], wishes: Wishes) -> _Pool:
    texts = [text_of(chunks.texts[number]) for number in ranked]
    vectors = matrix_of([chunks.vectors[number] for number in ranked], wishes.dimension)
    scores = np.array([chunks.scores[number] for number in ranked], np.float64)
    candidates = candidates_of(texts, vectors, scores, wishes.query_vector)
    return _Pool(ranked, words_of(readable(texts)[0]), candidates, Decided(candidates, wishes.rules))


def _standing(pool: _Pool, wishes: Wishes) -> Indices:
    """The representative of each cluster."""
    grouped, labels = pool.decided.grouped, pool.decided.grouped.labels
    standing = represent(
        labels,
        lambda: grouped.apart,
        pool.candidates,
        strategy=wishes.representative,
        magnitude=False,
        may_stand=grouped.may_stand,
    ).copy()
    if wishes.representative is Strategy.QUERY_CLOSEST and _to_query(pool) is None:
        merit = _shares(pool, wishes.query)
        for label in np.flatnonzero(np.bincount(labels) > 1).tolist():
            members = np.flatnonzero((labels == label) & grouped.may_stand)
            standing[label] = members[merit[members].argmax()]
    return standing


def _picks(pool: _Pool, choices: Indices, wishes: Wishes) -> Indices:
    """At most ``target_k`` of the choices. MMR picks and orders them if there are more; else they stay in rank order."""
    if wishes.mmr_lambda is None or len(choices) <= wishes.target_k:
        return choices[: wishes.target_k]
    near = jaccard([pool.words[place] for place in choices.tolist()])
    distance = pool.decided.grouped.measured.inside(0, pool.candidates.size).distance
    apart = np.minimum(distance[np.ix_(choices, choices)], np.float32(1.0) - near)
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
    distances = query_distance(pool.candidates, magnitude=False)
    return None if distances is None or not np.isfinite(distances).all() else distances


def _shares(pool: _Pool, query: str) -> FloatVector:
    """The share of the query's words that each chunk has (m,)."""
    (words,) = words_of(readable([text_of(query)])[0])
    return shares(pool.words, words)


def fitted(
    chosen: Sequence[tuple[int, str]], wishes: Wishes, tokens: Tokens, spent: int = 0
) -> tuple[list[Kept], list[int], int]:
    """The chunks that fit into the token budget, uncut and in order; the numbers of the other chunks; the tokens spent in all.
    ``spent``: tokens spent before.
    """
    kept: list[Kept] = []
    over: list[int] = []
    for number, text in chosen:
        returned = wishes.returned(text)
        cost = tokens(returned)
        if wishes.token_budget is not None and spent + cost > wishes.token_budget:
            over.append(number)
            continue
        spent += cost
        kept.append(Kept(number, returned))
    return kept, over, spent


_INNER = re.compile(r"(?<=\S)[^\S\n]{2,}(?=\S)")
_LINES = re.compile(r"\n{3,}")


def compressed(text: str) -> str:
    """The text without redundant white space: at line ends, repeated blanks inside a line, repeated empty lines, and empty lines at the
    beginning and the end. The indentation of lines stays, because code and lists need it.
    """
    lines = (_INNER.sub(" ", line.rstrip()) for line in text.replace("\r\n", "\n").split("\n"))
    return _LINES.sub("\n\n", "\n".join(lines)).strip("\n")
