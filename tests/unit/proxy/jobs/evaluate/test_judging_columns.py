"""Rows to columns, in order."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from support.outcomes import JUDGED
from vecsieve.proxy.jobs.evaluate.judging import Columns, Judged, columns


def test_every_measure_has_its_column() -> None:
    assert [field.name for field in fields(Columns)] == [field.name for field in fields(Judged)]


def test_queries_keep_their_order_and_what_does_not_arise() -> None:
    made = columns([replace(JUDGED, returned=8), replace(JUDGED, returned=3, retained=float("nan"))])
    assert made.returned.tolist() == [8.0, 3.0]
    assert np.isnan(made.retained).tolist() == [False, True]
    assert made.kept.dtype == np.float64
