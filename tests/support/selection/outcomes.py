"""Judged answers and outcomes of whole sets, with what a test says in place of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vecsieve.proxy.jobs.evaluate.judging import Columns, Judged, Measures, SetOutcome, columns
from vecsieve.proxy.jobs.evaluate.reading import Repeats
from vecsieve.proxy.jobs.evaluate.searching import PLAIN

JUDGED: Judged = Measures(
    returned=8.0,
    redundancy=0.0,
    collapsed=0.0,
    documents=1.0,
    recall=0.5,
    perfect=0.0,
    group_ndcg=0.5,
    alpha_ndcg=0.5,
    ndcg=0.5,
    hit=1.0,
    retained=1.0,
    kept=1.0,
    lost=0.0,
    strict=0.0,
    dropped=0.0,
    wrong_label=0.0,
    wrong_text=0.0,
    walked=0.0,
    walked_wrong_label=0.0,
    walked_wrong_text=0.0,
    added_seconds=0.002,
)


def of(**measures: Sequence[float]) -> Columns:
    """Columns of as many queries as the measures have values."""
    count = len(next(iter(measures.values())))
    return columns(
        [replace(JUDGED, **{name: values[query] for name, values in measures.items()}) for query in range(count)]
    )


def outcome(name: str, plain: Columns, *, repeats: Repeats = Repeats.COPIES, **others: Columns) -> SetOutcome:
    by_contender: Mapping[str, Columns] = {PLAIN: plain, **others}
    return SetOutcome(name=name, by_contender=by_contender, repeats=repeats)
