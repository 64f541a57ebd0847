"""Families to look at: the largest, with what is nearest to and farthest from their leaders, so that the cut can be judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.jobs.analyze.report import Family, Member
from vecsieve.proxy.jobs.source import Point, Vectors
from vecsieve.proxy.selection.geometry import across, rows_of
from vecsieve.proxy.selection.values import Indices

FAMILIES = 12
CONSIDERED = 24  # members of a family that are read again to choose from
MEMBERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A family whose points are to be read. ``places``: its first members', the leader's first. ``size``: of all of it."""

    size: int
    exact: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A point that was read again. ``first``: the first point that it is an exact copy of. ``text``: shortened."""

    point: Point
    first: int
    source: str | None
    text: str | None


def choose(heads: Indices, firsts: Indices) -> tuple[Chosen, ...]:
    """The largest families, of equally large ones the first. ``heads``, ``firsts``: (n,), as families.py gives them."""
    sizes = np.bincount(heads, minlength=len(heads))
    order = np.lexsort((np.arange(len(heads)), -sizes))[:FAMILIES]
    return tuple(_chosen(leader, heads, firsts) for leader in order[sizes[order] > 1].tolist())


def family(chosen: Chosen, read: Mapping[int, Read], *, magnitude: bool) -> Family | None:
    """The family in words; None when its leader is gone. ``read``: by place, without what has gone since."""
    leader = read.get(chosen.places[0])
    if leader is None:
        return None
    members = [_member(read[place], leader, magnitude=magnitude) for place in chosen.places[1:] if place in read]
    members.sort(key=lambda each: (each.distance is None, each.distance or 0.0))
    shown = np.unique(np.linspace(0, len(members) - 1, MEMBERS).astype(np.intp)) if members else ()
    return Family(
        size=chosen.size,
        exact=chosen.exact,
        leader=_member(leader, leader, magnitude=magnitude),
        members=tuple(members[each] for each in shown),
    )


def _chosen(leader: int, heads: Indices, firsts: Indices) -> Chosen:
    members = np.flatnonzero(heads == leader)
    others = members[members != leader]
    spread = others[np.linspace(0, len(others) - 1, min(len(others), CONSIDERED)).astype(np.intp)]
    same = int((firsts[members] == firsts[leader]).sum())
    return Chosen(size=len(members), exact=same, places=(leader, *spread.tolist()))


def _member(read: Read, leader: Read, *, magnitude: bool) -> Member:
    distance = _distance(read.point.vector, leader.point.vector, magnitude=magnitude)
    exact = read.first == leader.first
    return Member(id=read.point.id, source=read.source, distance=distance, exact=exact, text=read.text)


def _distance(left: Vectors | None, right: Vectors | None, *, magnitude: bool) -> float | None:
    if left is None or right is None:
        return None
    distance = float(across(rows_of(left[None]), rows_of(right[None]), magnitude=magnitude)[0, 0])
    return distance if math.isfinite(distance) else None
