"""Rows to columns, in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from support.selection.outcomes import JUDGED
from vecsieve.proxy.jobs.evaluate.judging import columns


def test_queries_keep_their_order_and_what_does_not_arise() -> None:
    made = columns([replace(JUDGED, returned=8), replace(JUDGED, returned=3, retained=float("nan"))])
    assert made.returned.tolist() == [8.0, 3.0]
    assert np.isnan(made.retained).tolist() == [False, True]
    assert made.kept.dtype == np.float64
