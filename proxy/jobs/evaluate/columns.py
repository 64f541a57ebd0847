"""The measures of all queries of a set under one policy, a number per query: what means and intervals are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from vecsieve.proxy.jobs.evaluate.judging import Judged
from vecsieve.proxy.selection.values import FloatVector


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
    choosing_seconds: FloatVector
    added_seconds: FloatVector


def columns(judged: Sequence[Judged]) -> Columns:
    """The rows turned into columns."""
    return Columns(
        **{field.name: np.array([getattr(one, field.name) for one in judged], np.float64) for field in fields(Columns)}
    )
