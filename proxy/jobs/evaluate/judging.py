"""One query's answers, compared with its labels and with the plain answer."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from ...runtime.files import Advance
from ...selection.values import FloatVector
from ...telemetry.tracing import Clock
from .reading import LabelledSet, Repeats
from .searching import (
    PLAIN,
    Contender,
    Points,
    Trial,
    TrialOutcome,
    Upstream,
    neighbours,
)
from .wording import Wordings

# Measures of one ranked list against the labels: repetitions, subtopics found, their order.
#
# Sources: subtopic recall Zhai, Cohen and Lafferty, SIGIR 2003; nDCG Järvelin and Kekäläinen 2002.

NEW_SHARE = 0.5  # an item with a smaller share of unseen atoms is redundant


def redundant(atoms: Sequence[Sequence[str]]) -> int:
    """How many of the items, best first, have fewer than half of their atoms for the first time.

    An item without atoms is never redundant, because its content is unknown. An atom that an item has twice counts twice.
    """
    seen: set[str] = set()
    count = 0
    for labels in atoms:
        count += sum(atom not in seen for atom in labels) < NEW_SHARE * len(labels)
        seen.update(labels)
    return count


def strict_repeats(atoms: Sequence[Sequence[str]]) -> int:
    """How many of the items, best first, have no atom for the first time. An item without atoms is none."""
    seen: set[str] = set()
    count = 0
    for labels in atoms:
        count += bool(labels) and seen.issuperset(labels)
        seen.update(labels)
    return count


def met(rows: Collection[int], subtopics: Mapping[str, frozenset[int]]) -> frozenset[str]:
    return frozenset(name for name, satisfying in subtopics.items() if not satisfying.isdisjoint(rows))


def discounts(count: int) -> FloatVector:
    """1 / log2(rank + 1) of the ranks 1 … ``count``."""
    return 1.0 / np.log2(np.arange(2, count + 2))


def ndcg(rows: Sequence[int], relevant: frozenset[int], top_k: int) -> float:
    """Binary gain over all relevant items. Copies count again, so collapsing them lowers it: never a gate."""
    weights = discounts(top_k)
    gain = sum(float(weights[rank]) for rank, row in enumerate(rows[:top_k]) if row in relevant)
    return gain / float(weights[: min(top_k, len(relevant))].sum())


# Alpha-nDCG (Clarke et al., SIGIR 2008): every further item on a subtopic gains half of the previous one.
#
# RARE (Cho and Lee 2026, arXiv 2604.19047) groups the passages that state one fact; a question needs several facts. A subtopic is such a group here:
# Coverage is the subtopic recall, PerfRecall the share of questions whose groups are all met, and group nDCG gains only by the first item of a group.

ALPHA = 0.5
FIRST_ALONE = 1.0

Topics = tuple[str, ...]


class AlphaNdcg:
    """The measure of one query. Its divisor costs more than the list itself, and is the same for every policy. ``alpha``: the share of its gain that a
    subtopic loses with each item; with FIRST_ALONE this is the group nDCG.
    """

    __slots__ = ("_alpha", "_ideal", "_top_k", "_topics")

    def __init__(self, subtopics: Mapping[str, frozenset[int]], top_k: int, *, alpha: float = ALPHA) -> None:
        self._top_k, self._alpha = top_k, alpha
        self._topics: dict[int, Topics] = {}
        for name, satisfying in subtopics.items():
            for row in satisfying:
                self._topics[row] = (*self._topics.get(row, ()), name)
        self._ideal = _discounted(_best_gains(Counter(self._topics.values()), top_k, alpha))

    def of(self, rows: Sequence[int]) -> float:
        """The measure of a list, best first."""
        earned = _Earned(self._alpha)
        gains = [earned.take(self._topics.get(row, ())) for row in rows[: self._top_k]]
        return _discounted(gains) / self._ideal


class _Earned:
    """How often each subtopic has occurred."""

    __slots__ = ("_left", "_times")

    def __init__(self, alpha: float) -> None:
        self._left = 1.0 - alpha
        self._times: Counter[str] = Counter()

    def gain(self, topics: Topics) -> float:
        return sum(self._left ** self._times[topic] for topic in topics)

    def take(self, topics: Topics) -> float:
        gain = self.gain(topics)
        self._times.update(topics)
        return gain


def _best_gains(left: Counter[Topics], top_k: int, alpha: float) -> list[float]:
    """The gains of the ideal list, chosen greedily, because the exact one is NP-hard. Items with equal subtopics are one kind; of kinds
    with equal gain the largest comes first, so that the order of the corpus does not matter.
    """
    earned = _Earned(alpha)
    gains: list[float] = []
    while left and len(gains) < top_k:
        kind = max(left, key=lambda topics: (earned.gain(topics), topics))
        gains.append(earned.take(kind))
        left[kind] -= 1
        if not left[kind]:
            del left[kind]
    return gains


def _discounted(gains: Sequence[float]) -> float:
    return float(np.dot(gains, discounts(len(gains)))) if gains else 0.0


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures(Generic[T]):
    """Of one answer, or of an answer to each query, (queries,) float64. NaN: the measure does not apply to the query.

    ``recall``: share of the subtopics met (RARE's Coverage). ``perfect``: 1.0 if all are (PerfRecall).
    ``redundancy``: share of the returned items that repeat those above. ``collapsed``: share of the plain answer's redundant items that are
    removed, NaN if there were none. ``documents``: distinct documents / returned items. ``retained``: 1.0 if a relevant item is still
    there, NaN if the plain answer had none. ``kept``, ``lost``: of the subtopics in the plain answer. ``strict``: returned items of which
    all labels stand above. ``dropped``: items of the plain answer that were left out as copies; ``wrong_label``: those of them with fewer
    than half of their labels in the answer; ``wrong_text``: those whose words the answer does not all say (wording.py). ``walked``, and
    with ``_wrong_label`` and ``_wrong_text``: the same for all items of the pool that were left out as copies (TrialOutcome.dropped).
    """

    returned: T
    redundancy: T
    collapsed: T
    documents: T
    recall: T
    perfect: T
    group_ndcg: T
    alpha_ndcg: T
    ndcg: T
    hit: T
    retained: T
    kept: T
    lost: T
    strict: T
    dropped: T
    wrong_label: T
    wrong_text: T
    walked: T
    walked_wrong_label: T
    walked_wrong_text: T
    added_seconds: T


Judged = Measures[float]
Columns = Measures[FloatVector]


class Judge:
    """Judges the answers to one query; the first is the plain one, with which the others are compared."""

    __slots__ = (
        "_alpha_ndcg",
        "_group_ndcg",
        "_hit",
        "_labelled",
        "_met",
        "_plain",
        "_query",
        "_redundant",
        "_top_k",
        "_wordings",
    )

    def __init__(
        self, labelled: LabelledSet, wordings: Wordings, number: int, plain: TrialOutcome, *, top_k: int
    ) -> None:
        self._labelled = labelled
        self._query = labelled.queries[number]
        self._top_k = top_k
        self._alpha_ndcg = AlphaNdcg(self._query.subtopics, top_k)
        self._group_ndcg = AlphaNdcg(self._query.subtopics, top_k, alpha=FIRST_ALONE)
        self._wordings = wordings
        self._met = met(plain.rows, self._query.subtopics)
        self._plain = plain.rows
        self._hit = self._is_hit(plain)
        self._redundant = self._repeats(plain)

    def judged(self, outcome: TrialOutcome) -> Judged:
        query, rows = self._query, outcome.rows
        now, repeats, is_hit = met(rows, query.subtopics), self._repeats(outcome), self._is_hit(outcome)
        size = max(len(rows), 1)
        by_label, by_text = self._wrong(outcome)
        dropped = frozenset(self._plain).intersection(outcome.dropped)
        return Measures(
            returned=len(rows),
            redundancy=repeats / size,
            collapsed=1.0 - repeats / self._redundant if self._redundant else math.nan,
            documents=len({self._labelled.items[row].doc for row in rows}) / size,
            recall=len(now) / len(query.subtopics),
            perfect=float(len(now) == len(query.subtopics)),
            group_ndcg=self._group_ndcg.of(rows),
            alpha_ndcg=self._alpha_ndcg.of(rows),
            ndcg=ndcg(rows, query.relevant, self._top_k),
            hit=float(is_hit),
            retained=float(is_hit) if self._hit else math.nan,
            kept=len(self._met & now),
            lost=len(self._met - now),
            strict=strict_repeats(self._atoms(rows)),
            dropped=len(dropped),
            wrong_label=len(by_label & dropped),
            wrong_text=len(by_text & dropped),
            walked=len(outcome.dropped),
            walked_wrong_label=len(by_label),
            walked_wrong_text=len(by_text),
            added_seconds=outcome.added_seconds,
        )

    def _wrong(self, outcome: TrialOutcome) -> tuple[frozenset[int], frozenset[int]]:
        """Of the items that were left out as copies: those whose labels, and those whose words are not in the answer."""
        if not outcome.dropped:
            return frozenset(), frozenset()
        stand = {atom for labels in self._atoms(outcome.rows) for atom in labels}
        page = self._wordings.page(outcome.rows)
        return (
            frozenset(row for row in outcome.dropped if self._states_more(row, stand)),
            frozenset(row for row in outcome.dropped if self._wordings.missing(row, page)),
        )

    def _states_more(self, row: int, stand: Collection[str]) -> bool:
        atoms = self._labelled.items[row].atoms
        return sum(atom in stand for atom in atoms) < NEW_SHARE * len(atoms)

    def _is_hit(self, outcome: TrialOutcome) -> bool:
        return not self._query.relevant.isdisjoint(outcome.rows)

    def _repeats(self, outcome: TrialOutcome) -> int:
        return redundant(self._atoms(outcome.rows))

    def _atoms(self, rows: Sequence[int]) -> list[tuple[str, ...]]:
        return [self._labelled.items[row].atoms for row in rows]


def columns(judged: Sequence[Judged]) -> Columns:
    """The measures of all queries of a set under one policy, in the queries' order, for means and intervals."""
    names = [field.name for field in fields(Measures)]
    return Measures(**{name: np.array([getattr(one, name) for one in judged], np.float64) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOutcome:
    """``by_contender``: the plain answer first, then the contenders in their order."""

    name: str
    by_contender: Mapping[str, Columns]
    repeats: Repeats = Repeats.COPIES

    @property
    def queries(self) -> int:
        return len(self.by_contender[PLAIN].recall)


def evaluated(
    labelled: LabelledSet, contenders: Sequence[Contender], *, top_k: int, every: int, clock: Clock, advance: Advance
) -> SetOutcome:
    """The measures of every ``every``-th query. ``advance``: called after each query."""
    judged: dict[str, list[Judged]] = {name: [] for name in (PLAIN, *(contender.name for contender in contenders))}

    async def all_queries() -> None:
        async for answers in _answers(labelled, contenders, Trial(top_k=top_k, clock=clock), top_k=top_k, every=every):
            for name, answer in answers.items():
                judged[name].append(answer)
            advance(1)

    asyncio.run(all_queries())
    return SetOutcome(
        name=labelled.name, by_contender={name: columns(answers) for name, answers in judged.items()},
        repeats=labelled.repeats,
    )  # fmt: skip


async def _answers(
    labelled: LabelledSet, contenders: Sequence[Contender], trial: Trial, *, top_k: int, every: int
) -> AsyncIterator[dict[str, Judged]]:
    """Per query, every contender's answer. One query at a time: its ranking is computed once, and memory stays small."""
    points = Points(labelled)
    wordings = Wordings([item.text for item in labelled.items])
    for number, ranking in neighbours(labelled, every=every):
        await asyncio.sleep(0)  # here an interrupt ends it
        vector, upstream = labelled.query_vectors[number], Upstream(points, ranking)
        plain = await trial.plain(vector, upstream)
        judge = Judge(labelled, wordings, number, plain, top_k=top_k)
        answers = {PLAIN: judge.judged(plain)}
        for contender in contenders:
            answers[contender.name] = judge.judged(await trial.search(contender.policy, vector, upstream))
        yield answers
