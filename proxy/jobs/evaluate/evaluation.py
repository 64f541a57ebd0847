"""Every contender on every query of a set, through the proxy's own code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vecsieve.proxy.jobs.evaluate.columns import Columns, columns
from vecsieve.proxy.jobs.evaluate.contenders import PLAIN, Contender
from vecsieve.proxy.jobs.evaluate.judging import Judge, Judged
from vecsieve.proxy.jobs.evaluate.knn import neighbours
from vecsieve.proxy.jobs.evaluate.labelled import LabelledSet
from vecsieve.proxy.jobs.evaluate.points import Points
from vecsieve.proxy.jobs.evaluate.searching import Trial
from vecsieve.proxy.jobs.evaluate.upstream import Upstream
from vecsieve.proxy.jobs.progress import Advance
from vecsieve.proxy.stopwatch import Clock


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
