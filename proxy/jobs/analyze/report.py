"""The result of an analysis as one frozen value. Its JSON has the members of these classes by name.

Members may be added; renaming one, or changing its meaning, increases FORMAT. Counts are of points unless stated otherwise.
Unknown values are null, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from vecsieve.proxy.jobs.analyze.families import Density, Sources
from vecsieve.proxy.jobs.analyze.pools import Saving
from vecsieve.proxy.jobs.analyze.spans import Overlap
from vecsieve.proxy.jobs.source import PointId

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """``points``: when the ids were listed. ``examined``: all of them, or a sample. ``with_text``, ``with_vector``: of the
    examined points. ``gone``: deleted before they were read.
    """

    collection: str
    vector_name: str
    dimension: int
    distance: str
    points: int
    examined: int
    with_vector: int
    with_text: int
    gone: int
    text_fields: tuple[str, ...]
    source_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The largest distance of a copy. ``origin``: "option", "profile" or "relative".

    ``relative``: the cut of the relative rule for this collection, from ``median``: the median distance in pools around
    ``pools`` points spread over the collection; null if no pool has two vectors.
    """

    value: float
    origin: str
    relative: float | None
    median: float | None
    pools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """``with_copy``: examined points with a copy. ``redundant``: to remove if each family keeps one; null for a sample."""

    with_copy: int
    redundant: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """``distance``: to the leader, null without a vector. ``exact``: an exact copy of the leader. ``text``: shortened."""

    id: PointId
    source: str | None
    distance: float | None
    exact: bool
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``size``: points, the leader included. ``exact``: its exact copies, the leader included. ``members``: a few of them."""

    size: int
    exact: int
    leader: Member
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """``families`` of ``smallest`` to ``largest`` members, with ``points`` in all. ``largest``: null for no limit."""

    smallest: int
    largest: int | None
    families: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Families of at least two. ``saturated``: points whose listed neighbours are all copies: their family may be larger."""

    count: int
    largest: int
    saturated: int
    sizes: tuple[Sizes, ...]
    examples: tuple[Family, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``overlap``: of neighbouring chunks, null where spans tell too little. ``density``: at increasing cuts, with the relative and the chosen one. ``version``: VecSieve's."""

    format: int
    version: str
    about: About
    cut: Cut
    exact: Share
    near: Share
    families: Families
    sources: Sources | None
    density: tuple[Density, ...]
    saving: Saving
    overlap: Overlap | None = None

    @property
    def sampled(self) -> bool:
        return self.about.examined + self.about.gone < self.about.points


def as_json(report: Report) -> bytes:
    """Indented, keys in the order of the classes, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
