"""Requests that fuse the results of several searches: divided into one batch of these searches, and one reply made of their lists.

The batch is built from the request as it was widened, so it fetches the vectors and payload keys that are compared by. The reply has
the form of the database's own reply to that request: what reads and cuts the one reads and cuts the other.

A request is divided only where the batch, fused again, is what the database would have answered. Each reason why it is not is a
member of ``Undivided``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np

from vecsieve.adapters.contract import Reply, SearchCall

Fused = Sequence[tuple[int, int, np.float32]]
"""Results in order: the list, the place in it, and the fused score."""


class Undivided(StrEnum):
    """Why a fusion is not divided. A closed set: every member is a metric label."""

    NESTED = "nested"  # a list is made of other lists
    FORMULA = "formula"  # the scores are computed from payloads
    POINTS = "points"  # a list is made by stored points, which the database then leaves out of all lists
    UNRANKED = "unranked"  # a list has no ranking: a sample, an order by payload, ids
    MEMBER = "member"  # a member whose effect on the fusion, or on its errors, the batch would not have
    MANY = "many"  # more lists than one request may have


class UndividedError(Exception):
    """A fusion that the database must compute."""

    def __init__(self, reason: Undivided) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Method(StrEnum):
    """How lists are fused; proxy/selection/fusion.py has the formulas."""

    RRF = "rrf"
    DBSF = "dbsf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """``weights``: one for each list, finite, from 0; None: all 1. ``threshold``: the least score of a result; None without one.
    ``limit``: the most results.
    """

    method: Method
    limit: int
    k: int
    weights: tuple[float, ...] | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """One batch with a search for each list. ``suffix``: what makes the path of the batch of the request's path. ``call``: reads the
    reply with ``Adapter.parse_reply``; its pools are the lists.
    """

    suffix: str
    body: bytes
    call: SearchCall
    fusion: Fusion


@runtime_checkable
class DividesFusions(Protocol):
    """Both verbs are pure."""

    def divided(self, call: SearchCall, body: bytes) -> Divided | None:
        """The batch of a widened request ``body``, which ``widen`` made of ``call``; None where it is no single fusion. Raises
        UndividedError, nothing else.
        """
        ...

    def fused(self, reply: Reply, ranked: Fused) -> bytes:
        """The reply to the undivided request with these results of the batch's ``reply``, in upstream's bytes but for their scores."""
        ...
