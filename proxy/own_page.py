"""The client's own page out of a pool: results as the backend ranked them, nothing chosen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Pool, Search
from vecsieve.proxy.selection.single import unlinked
from vecsieve.proxy.selection.values import Fate, Selection


def untouched(pool: Pool) -> Selection:
    """A pool that is the page itself, as a selection that did nothing."""
    each = whole(pool)
    return Selection(
        keep=each,
        labels=each,
        representative=each,
        fates=np.full(pool.size, Fate.KEPT, dtype=np.int8),
        distinct=pool.size,
        wanting=0,
        acted=False,
        threshold=0.0,
        **unlinked(pool.size),
    )


def whole(pool: Pool) -> npt.NDArray[np.intp]:
    """(n,) every candidate."""
    return np.arange(pool.size, dtype=np.intp)


def window(search: Search, pool: Pool) -> npt.NDArray[np.intp]:
    """(top_k,) the candidates at the ranks that were asked for, as far as there are any."""
    return np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size), dtype=np.intp)
