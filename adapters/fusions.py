"""Requests that fuse the results of several searches: divided into these searches, and one reply made from their lists.

The searches are built from the widened request, so they fetch the vectors and payload keys for comparison. They are one batch if the
database has batches, else one request each. The reply has the form of the database's own reply to that request, so the same code reads and
cuts both.

A request is divided only if its lists, fused again, equal the database's answer. Each reason against it is a member of ``Undivided``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from .contract import Reply, SearchCall

Fused = Sequence[tuple[int, int, np.float32]]
"""Results in order: the list, the place in it, and the fused score."""


class Undivided(StrEnum):
    """Why a fusion is not divided. A closed set: every member is a metric label."""

    NESTED = "nested"  # a list is made of other lists
    FORMULA = "formula"  # the scores are computed from payloads
    POINTS = "points"  # a list is based on stored points, which the database then excludes from all lists
    UNRANKED = "unranked"  # a list has no ranking: a sample, an order by payload, ids
    MEMBER = "member"  # a member whose effect on the fusion, or on its errors, is missing in the batch
    INEXACT = "inexact"  # the scores or ids of the lists are less exact than those that the database fuses
    MANY = "many"  # more lists than one request may have, or lists of several queries
    WITHHELD = (
        "withheld"  # the lists cost more reads than the fusion, and the database recently refused for lack of quota
    )


class UndividedError(Exception):
    """A fusion that the database must compute."""

    def __init__(self, reason: Undivided) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Method(StrEnum):
    """How lists are fused; fused_scores.py has the formulas."""

    RRF = "rrf"
    DBSF = "dbsf"
    WEIGHTED = "weighted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """``weights``: one for each list, finite, from 0; None: all 1. ``metrics``: of ``WEIGHTED`` the metric of each list, and ``is_normed``
    whether its scores are brought to one scale. ``is_double``: the database sums in 64 bits. ``is_by_id``: it ranks equal scores by their
    ids. ``threshold``: the lowest score of a result; None without one. ``limit``: the most results.
    """

    method: Method
    limit: int
    k: int = 0
    weights: tuple[float, ...] | None = None
    metrics: tuple[str, ...] = ()
    is_normed: bool = False
    is_double: bool = False
    is_by_id: bool = False
    threshold: float | None = None


class Ending(NamedTuple):
    """The difference between the path of an additional request and the client's path: at its end, ``old`` is replaced by ``new``."""

    old: str = ""
    new: str = ""

    def of(self, path: str) -> str:
        """The path with the new ending."""
        return path.removesuffix(self.old) + self.new


SAME = Ending()


class Part(NamedTuple):
    """One request for lists. ``call``: for reading its reply with ``Adapter.parse_reply``; its pools are the lists."""

    body: bytes
    call: SearchCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """The requests that replace a fusion, to the path with this ending. The lists of all parts are in the order of the fusion."""

    ending: Ending
    parts: tuple[Part, ...]
    fusion: Fusion


@runtime_checkable
class DividesFusions(Protocol):
    """Both verbs are pure."""

    def divided(self, call: SearchCall, body: bytes) -> Divided | None:
        """The lists of a widened request ``body``, made by ``widen`` from ``call``; None if it is no single fusion. Raises UndividedError,
        nothing else.
        """

    def fused(self, divided: Divided, replies: Sequence[Reply], ranked: Fused) -> bytes:
        """The reply to the undivided request, with these results of the parts' ``replies``, in upstream's bytes except for their scores.
        Raises MalformedReplyError, nothing else.
        """
