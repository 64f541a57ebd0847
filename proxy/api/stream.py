"""Chunks one by one: whether a chunk is kept is certain when it comes, and nothing behind it changes that.

Possible only where a decision needs nothing that comes later: scores that never rise, clusters led by their first chunk, which represents
them, and no MMR. With these options the outcome is that of ``optimize``, which the whole list could be given to as well.
"""

from __future__ import annotations

from collections import Counter

from vecsieve.proxy.api.lexical import Reader
from vecsieve.proxy.api.optimize import Kept, Optimized, Removed, Tokens, Wishes, fitted
from vecsieve.proxy.api.walk import Leaders, Stage, Walk
from vecsieve.proxy.selection.policy import Linkage, Strategy
from vecsieve.proxy.selection.values import FloatMatrix


def is_stable(wishes: Wishes) -> bool:
    """Whether later chunks change nothing of what was decided of earlier ones."""
    is_led = wishes.linkage is Linkage.LEADER and wishes.representative is Strategy.RANK
    return is_led and wishes.mmr_lambda is None


class Stream:
    """``wishes``: stable ones. Give it the chunks in falling order of their scores."""

    def __init__(self, wishes: Wishes, tokens: Tokens) -> None:
        self._wishes = wishes
        self._tokens = tokens
        self._reader = Reader()
        self._walk = Walk(semantic=wishes.semantic, dimension=wishes.dimension)
        self._leaders = Leaders(wishes.cluster_cut)
        self._heads: list[int] = []
        self._sizes: Counter[int] = Counter()
        self._kept: list[Kept] = []
        self._removed: list[Removed] = []
        self._taken = 0
        self._input_tokens = 0
        self._spent = 0

    def add(self, text: str, vector: FloatMatrix | None) -> Kept | None:
        """The next chunk; itself if it is kept."""
        number = len(self._kept) + len(self._removed)
        self._input_tokens += self._tokens(text)
        removed = self._repeat(number, text, vector)
        if removed is None and self._taken == self._wishes.target_k:
            removed = Removed(number, Stage.TARGET, None)
        if removed is None:
            self._taken += 1
            kept, over, self._spent = fitted([(number, text)], self._wishes, self._tokens, self._spent)
            if not over:
                self._kept += kept
                return kept[0]
            removed = Removed(number, Stage.BUDGET, None)
        self._removed.append(removed)
        return None

    def _repeat(self, number: int, text: str, vector: FloatMatrix | None) -> Removed | None:
        (words,) = self._reader.read([text])
        repeat = self._walk.step(words, vector)
        if repeat is not None:
            return Removed(number, repeat.stage, repeat.of)
        cluster = self._leaders.step(self._walk.distances)
        if cluster == len(self._heads):
            self._heads.append(number)
        self._sizes[cluster] += 1
        if self._sizes[cluster] > self._wishes.max_per_cluster:
            return Removed(number, Stage.CLUSTER, self._heads[cluster])
        return None

    def outcome(self) -> Optimized:
        """Of all chunks that came."""
        return Optimized(tuple(self._kept), tuple(self._removed), len(self._heads), self._input_tokens, self._spent)
