"""Searches for the inspector to show, and an inspector over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from support.process.clocks import ManualClock
from support.selection.selections import selection
from vecsieve.adapters.contract import Operation, Pool, Search
from vecsieve.config.schema import Settings
from vecsieve.proxy.admin.inspector import InForce, Inspector
from vecsieve.proxy.admin.knowledge import Knowledge
from vecsieve.proxy.admin.pools import Pools
from vecsieve.proxy.admin.recent import Recent, Seen
from vecsieve.proxy.admin.status import FailedReload
from vecsieve.proxy.runtime.loop import LongWork
from vecsieve.proxy.search.budgets import Egress
from vecsieve.proxy.search.report import figures
from vecsieve.proxy.selection.values import Fate, Link, Selection
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.verdict import Measured

# Of three results asked for, 1 repeats 0 by its vector and 3 is contained in 2: 4 takes a place.
CHOSEN = selection(
    keep=[0, 2, 4],
    representative=[0, 0, 2, 2, 4],
    fates=[Fate.KEPT, Fate.COLLAPSED, Fate.KEPT, Fate.COLLAPSED, Fate.KEPT],
    links=[0, Link.DISTANCE, 0, Link.CONTAINED, 0],
    similarities=[np.nan, 0.91, np.nan, 0.8, np.nan],
)  # fmt: skip


def seen(chosen: Selection = CHOSEN, *ids: bytes, collection: str = "docs", **more: Any) -> Seen:
    """One search; without ``ids`` they are the ranks."""
    n = len(chosen.representative)
    pool = Pool(scores=np.linspace(1, 0, n), vectors=np.ones((n, 2), np.float32))
    search = Search(top_k=more.pop("top_k", len(chosen.keep)), offset=0, pages=False, query=None)
    return Seen(
        operation=Operation(backend="qdrant", name="query", collection=collection),
        top_k=search.top_k,
        offset=search.offset,
        ids=ids or tuple(b"%d" % row for row in range(n)),
        scores=pool.scores,
        selection=chosen,
        figures=figures(search, pool, chosen),
        added_ms=1.5,
        **more,
    )


def no_egress() -> Egress:
    return Egress(None, now=lambda: 0.0)


def no_pools() -> Pools:
    return Pools(keep=True, clock=ManualClock(), work=LongWork())


def inspector(
    recent: Recent,
    pools: Pools | None = None,
    measured: Iterable[Measured] = (),
    failed_reload: FailedReload | None = None,
    **settings: object,
) -> Inspector:
    registry = CollectorRegistry()
    Metrics(registry, backend="qdrant")
    kept = no_pools() if pools is None else pools
    return Inspector(
        Knowledge(recent, kept, no_egress(), measured=measured, failed_reload=lambda: failed_reload).ask,
        InForce(Settings.model_validate(settings)),
        registry,
    )
