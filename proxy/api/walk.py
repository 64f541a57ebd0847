"""What of a ranked list is said by the results above it. Texts are judged as in a search (selection/judging); embeddings decide the pairs of which one
has no text.

``Decided`` judges a whole list, ``Walk`` one item after the other, for a stream. An item's verdict depends on better-ranked items only, so both give
the same, but for headers and footers: they show only in a whole list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ..admin.reasons import passed_over, why_left
from ..selection.clustering import lead
from ..selection.geometry import across, rows_of
from ..selection.grouping import Grouped, group
from ..selection.judging.judge import Judge, Verdict
from ..selection.judging.walk import explained
from ..selection.policy import Caps, Distance, Fixed, Linkage, Order, Overlap, Policy, Short, Strategy, Tier, When
from ..selection.reading.bounds import LONGEST, POOL_COST
from ..selection.reading.text import Text
from ..selection.single import links_of
from ..selection.values import Candidates, FloatMatrix, FloatVector, Indices, Link, Metadata, Metric, finished


class Stage(StrEnum):
    """Why an item left: how others say it, or for want of room."""

    EQUAL_ID = "equal_id"
    EQUAL_TEXT = "equal_text"
    CONTAINED = "contained"
    JOINED = "joined"
    EDITED = "edited"
    VECTORS = "vectors"
    TARGET = "target_k"
    BUDGET = "token_budget"


_STAGES = {
    Link.EQUAL: Stage.EQUAL_TEXT,
    Link.CONTAINED: Stage.CONTAINED,
    Link.JOINED: Stage.JOINED,
    Link.EDITED: Stage.EDITED,
    Link.DISTANCE: Stage.VECTORS,
}
REASONS = {
    Stage.EQUAL_ID: "has the same id, and no text",
    Stage.TARGET: "others were chosen before it",
    Stage.BUDGET: "does not fit into the token budget",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """``tier``: what texts decide; None: embeddings decide alone. ``cut``: the largest cosine distance at which embeddings merge."""

    tier: Tier | None
    cut: float
    linkage: Linkage = Linkage.LEADER

    @property
    def policy(self) -> Policy:
        return Policy(
            texts=self.tier,
            rewordings=None,
            linkage=self.linkage,
            threshold=Fixed(value=self.cut),
            chance=None,
            when=When.ALWAYS,
            representative=Strategy.RANK,
            diversifier=None,
            order=Order.BACKEND,
            short=Short.ALLOW,
            overlap=Overlap.KEEP,
            distance=Distance.COSINE,
            keep_sources=(),
            chain=(),
            authority=(),
            caps=Caps(per_cluster=1, per_document=None, per_source=None),
        )


@dataclass(frozen=True, slots=True)
class Repeat:
    """``of``: the items that say it, the main one first. ``similarity``: as in Selection. ``but``: the differences that were passed over, in words."""

    link: Link
    of: tuple[int, ...]
    similarity: float
    but: str = ""

    @property
    def stage(self) -> Stage:
        return _STAGES[self.link]

    def reason(self, names: Sequence[str | int], cut: float) -> str:
        """In words. ``names``: of the items ``of``. ``cut``: of the rules."""
        return why_left(self.link, names, self.similarity, 1.0 - cut, but=self.but)


def text_of(raw: str) -> Text | None:
    """None for a text of blanks. Not the cached one of searches, because the API works in a thread of its own."""
    return Text(raw) if raw.strip() else None


def matrix_of(vectors: Sequence[FloatMatrix | None], dimension: int | None) -> FloatMatrix:
    """(n, d) float32, zero for a missing vector and one of another dimension. ``dimension``: None for that of the first vector."""
    width = dimension or next((len(vector) for vector in vectors if vector is not None), 0)
    rows = np.zeros((len(vectors), width), np.float32)
    for place, vector in enumerate(vectors):
        if vector is not None and len(vector) == width:
            rows[place] = vector
    return rows


def candidates_of(
    texts: Sequence[Text | None], vectors: FloatMatrix, scores: FloatVector, query: FloatMatrix | None = None
) -> Candidates:
    """N items in rank order."""
    return Candidates(
        scores=scores,
        vectors=vectors,
        metric=Metric.COSINE,
        query=query,
        text_lengths=np.array([0 if text is None else len(text.raw) for text in texts], np.int64),
        metadata=Metadata(texts=tuple(texts)),
    )


class Decided:
    """A whole list, judged. ``grouped``: its clusters."""

    def __init__(self, candidates: Candidates, rules: Rules) -> None:
        self.grouped: Grouped = finished(group(candidates, rules.policy, None))
        self._verdicts: dict[int, Verdict] = {}
        links = self.grouped.links
        # Only these verdicts say more than the clusters: further holders, and what was passed over.
        if np.isin(links, (Link.JOINED, Link.EDITED)).any():
            self._verdicts = explained(candidates, rules.policy, np.flatnonzero(links == Link.NONE))
        self._texts: Sequence[Text | None] = candidates.metadata.texts or ()

    def repeats(self, representative: Indices) -> list[Repeat | None]:
        """Why each item is represented by another (n,); None for a representative. ``representative``: (n,) of each item's cluster."""
        grouping = links_of(self.grouped, representative)
        links, similarities = grouping["links"].tolist(), grouping["similarities"].tolist()
        return [
            None if standing == place else self._repeat(place, Link(links[place]), similarities[place], representative)
            for place, standing in enumerate(representative.tolist())
        ]

    def _repeat(self, place: int, link: Link, similarity: float, representative: Indices) -> Repeat:
        by = self.grouped.heads if link is Link.DISTANCE else self.grouped.walked.representative
        head, also = int(by[place]), int(self.grouped.walked.also[place])
        holders: tuple[int, ...] = (head,) if also < 0 else (head, also)
        verdict = self._verdicts.get(place)
        if verdict is None or verdict.link != link:
            verdict = Verdict(link, holders) if link is Link.EQUAL and head != place else None
        if verdict is None:
            return Repeat(link, _standing(holders, place, representative), similarity)
        text, holder = self._texts[place], self._texts[verdict.holders[0]]
        but = "" if text is None or holder is None else passed_over(verdict, text, holder)
        return Repeat(link, _standing(verdict.holders, place, representative), similarity, but)


def _standing(holders: Sequence[int], place: int, representative: Indices) -> tuple[int, ...]:
    """The representatives of the holders of an item, each once."""
    standing = dict.fromkeys(int(representative[holder]) for holder in holders)
    standing.pop(place, None)
    return tuple(standing) or (int(representative[place]),)


class Walk:
    """Judges one item after the other. ``rules``: with the linkage leader. ``dimension``: of the compared vectors; None: that of the first vector."""

    def __init__(self, rules: Rules, *, dimension: int | None) -> None:
        self._rules = rules
        self._dimension = dimension
        self._vectors: list[FloatMatrix | None] = []
        self._judge = None if rules.tier is None else Judge(rules.tier)
        self._left = POOL_COST
        self._unread: dict[str, int] = {}
        self._heads: list[int] = []
        self._rows: list[int] = []  # the items that did not leave by their texts
        self._has_text: list[bool] = []
        self._apart: FloatMatrix = np.zeros((0, 0), np.float32)  # of these: two texts are infinitely far apart

    @property
    def clusters(self) -> int:
        return sum(head == number for number, head in enumerate(self._heads))

    def head(self, number: int) -> int:
        """The first item of the cluster of an item."""
        return self._heads[number]

    def step(self, text: Text | None, vector: FloatMatrix | None) -> Repeat | None:
        """Why the next item leaves; None if it stays. ``vector``: (d,) float32."""
        number = len(self._heads)
        verdict = self._verdict(number, text)
        if verdict is not None and text is not None and self._judge is not None:
            holder = self._judge.kept.get(verdict.holders[0])  # None: neither of two equal texts is read
            but = "" if holder is None else passed_over(verdict, text, holder)
            of = tuple(dict.fromkeys(self._heads[holder] for holder in verdict.holders))
            self._heads.append(of[0])
            return Repeat(verdict.link, of, float(np.float32(verdict.share)), but)
        head, distance = self._led(number, has_text=self._judge is not None and text is not None, vector=vector)
        self._heads.append(head)
        return None if head == number else Repeat(Link.DISTANCE, (head,), float(np.float32(1.0 - distance)))

    def _verdict(self, number: int, text: Text | None) -> Verdict | None:
        """The verdict by which a text leaves; None if it stays."""
        if self._judge is None or text is None:
            return None
        if not self._affords(text):
            first = self._unread.setdefault(text.raw, number)
            return None if first == number else Verdict(Link.EQUAL, (first,), 1.0)
        verdict = self._judge.verdict(text)
        if verdict.holders:
            return verdict
        self._judge.keep(number, text)
        return None

    def _affords(self, text: Text) -> bool:
        """Whether a text is read: as ``readable`` decides for a whole list."""
        if len(text.raw) > LONGEST or self._left < 0:
            return False
        price = text.cost()
        self._left -= len(text.raw) if price < 0 else price
        return price >= 0 and self._left >= 0

    def _led(self, number: int, *, has_text: bool, vector: FloatMatrix | None) -> tuple[int, float]:
        """The first item of the cluster that an item joins by its vector, itself for none, and the distance."""
        size = len(self._rows)
        self._vectors.append(vector)
        rows = rows_of(matrix_of(self._vectors, self._dimension))
        distances = across(rows.at(slice(size)), rows.at(slice(size, None)), magnitude=False)[:, 0]
        if has_text:
            distances = np.where(self._has_text, np.float32(np.inf), distances)
        apart = np.zeros((size + 1, size + 1), np.float32)
        apart[:size, :size] = self._apart
        apart[size, :size] = apart[:size, size] = distances
        self._rows.append(number)
        self._has_text.append(has_text)
        self._apart = apart
        if all(self._has_text):
            return number, 0.0
        head = int(lead(apart, [self._rules.cut] * (size + 1))[size])
        return self._rows[head], float(apart[size, head])
