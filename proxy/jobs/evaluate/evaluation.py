"""Every contender on every query of a set, through the proxy's own code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from vecsieve.proxy.jobs.evaluate.contenders import PLAIN, Contender
from vecsieve.proxy.jobs.evaluate.judging import Judge, Judged
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet
from vecsieve.proxy.jobs.evaluate.searching import Points, Trial, Upstream, neighbours
from vecsieve.proxy.jobs.files import Advance
from vecsieve.proxy.selection.values import FloatVector
from vecsieve.proxy.telemetry.tracing import Clock

# The measures of all queries of a set under one policy, a number per query: what means and intervals are made of.


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Each (queries,) float64, in the queries' order; NaN and meaning as in Judged."""

    returned: FloatVector
    redundancy: FloatVector
    collapsed: FloatVector
    documents: FloatVector
    recall: FloatVector
    alpha_ndcg: FloatVector
    ndcg: FloatVector
    hit: FloatVector
    retained: FloatVector
    kept: FloatVector
    lost: FloatVector
    dropped: FloatVector
    wrong: FloatVector
    same_text: FloatVector
    same_text_wrong: FloatVector
    contained: FloatVector
    contained_wrong: FloatVector
    near: FloatVector
    near_wrong: FloatVector
    choosing_seconds: FloatVector
    added_seconds: FloatVector


def columns(judged: Sequence[Judged]) -> Columns:
    """The rows turned into columns."""
    return Columns(
        **{field.name: np.array([getattr(one, field.name) for one in judged], np.float64) for field in fields(Columns)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOutcome:
    """``by_contender``: the plain answer first, then the contenders in their order."""

    name: str
    by_contender: Mapping[str, Columns]

    @property
    def queries(self) -> int:
        """How many were asked."""
        return len(self.by_contender[PLAIN].recall)


def evaluated(
    labelled: LabelledSet, contenders: Sequence[Contender], *, top_k: int, every: int, clock: Clock, advance: Advance
) -> SetOutcome:
    """The measures of every ``every``-th query. ``advance`` is told of each query that is done."""
    judged: dict[str, list[Judged]] = {name: [] for name in (PLAIN, *(each.name for each in contenders))}
    for answers in _answers(labelled, contenders, Trial(top_k=top_k, clock=clock), top_k=top_k, every=every):
        for name, answer in answers.items():
            judged[name].append(answer)
        advance(1)
    return SetOutcome(
        name=labelled.name, by_contender={name: columns(answers) for name, answers in judged.items()}
    )  # fmt: skip


def _answers(
    labelled: LabelledSet, contenders: Sequence[Contender], trial: Trial, *, top_k: int, every: int
) -> Iterator[dict[str, Judged]]:
    """Per query, every contender's answer. A query at a time: its ranking is made once, and memory stays small."""
    points = Points(labelled)
    with asyncio.Runner() as runner:
        for number, ranking in neighbours(labelled, every=every):
            vector, upstream = labelled.query_vectors[number], Upstream(points, ranking)
            plain = runner.run(trial.plain(vector, upstream))
            judge = Judge(labelled, number, plain, top_k=top_k)
            answers = {PLAIN: judge.judged(plain)}
            for contender in contenders:
                found = runner.run(trial.search(contender.policy, vector, upstream))
                answers[contender.name] = judge.judged(found)
            yield answers
