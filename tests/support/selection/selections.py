"""Selections spelled out candidate by candidate, for what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vecsieve.proxy.selection.values import Selection


def selection(keep: Sequence[int], representative: Sequence[int], fates: Sequence[int], **more: Any) -> Selection:
    """``more``: links, similarities, cuts and also, nothing of each unless given; and the other members of Selection."""
    n = len(representative)
    standing = np.array(representative, dtype=np.intp)
    nothing: dict[str, Any] = {"links": [0] * n, "similarities": [np.nan] * n, "cuts": [np.nan] * n, "also": [-1] * n}
    rows = {name: more.pop(name, value) for name, value in nothing.items()}
    others: dict[str, Any] = {
        "distinct": len(set(representative)), "wanting": 0, "acted": True, "threshold": 0.1, "median": 0.5, **more,
    }  # fmt: skip
    return Selection(
        keep=np.array(keep, dtype=np.intp),
        labels=np.unique(standing, return_inverse=True)[1].astype(np.intp),
        representative=standing,
        fates=np.array(fates, dtype=np.int8),
        links=np.array(rows["links"], dtype=np.int8),
        similarities=np.array(rows["similarities"], dtype=np.float32),
        cuts=np.array(rows["cuts"], dtype=np.float32),
        also=np.array(rows["also"], dtype=np.intp),
        **others,
    )
