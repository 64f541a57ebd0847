"""One search as a chain of values: its plan, the pools that came of it, and what was selected from them.

    Planned ─► PoolSet ─► Selected ─► the answer

``Source`` (sources) makes pools of a plan, ``Searcher`` selects from them, and ``Depths`` learns from the selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.adapters.contract import Reply, SearchCall

from ...selection.values import Selection
from ...telemetry.tracing import Stopwatch
from ..governor import Grant
from ..memory.points import Repeat, Rows
from ..policy import ResolvedPolicy

Plan = tuple[int | None, ...]
"""The first pool's size for each search; None for a search that cannot be widened and is sent unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A parsed call, and how many candidates it requests.

    ``grant``: None for an evaluation without a database. ``collection``: the name by which its texts are learned; "" for none. ``spare``: the
    same call with vectors, if ``call`` requests none; else None. ``is_by_texts``: texts alone decide about its pools. ``is_look``: its first
    pools show where the collection's texts are. ``first``: candidates per search that the first request asks for, where pages of the
    collection reach deeper than the plan or less deep; () for the plan. ``repeat``: the request's entry in memory. ``cap``: the largest
    limit that the backend accepts for the collection; None if unknown.
    """

    call: SearchCall
    policy: ResolvedPolicy
    plan: Plan
    watch: Stopwatch
    grant: Grant | None = None
    collection: str = ""
    spare: Callable[[], SearchCall] | None = None
    is_by_texts: bool = False
    is_look: bool = False
    first: tuple[int, ...] = ()
    repeat: Repeat | None = None
    cap: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSet:
    """The pools of one round. ``call``, ``policy``, ``is_by_texts``: as planned, corrected by what the pools have shown.

    ``sizes``: how many candidates were requested for each; ``exhausted``: whether the database has no more. ``known``: per search, the rows that
    memory has of its points, None if the reply has them; () for none. ``rounds``: the number of this round, from 1. ``reply_bytes``: of the last
    reply.
    """

    planned: Planned
    call: SearchCall
    policy: ResolvedPolicy
    is_by_texts: bool
    reply: Reply
    sizes: tuple[int, ...]
    exhausted: tuple[bool, ...]
    known: tuple[Rows | None, ...]
    rounds: int
    reply_bytes: int


@dataclass(frozen=True, slots=True)
class Selected:
    """What was selected from each pool. ``unbudgeted``: before token budgets, and with new results in front if that is requested. ``given``: digests
    of results of the session's earlier turns.
    """

    pools: PoolSet
    selections: tuple[Selection, ...]
    unbudgeted: tuple[Selection, ...]
    given: frozenset[bytes] = frozenset()
