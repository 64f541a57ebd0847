"""What an analysis found, as one frozen value; its JSON has the members of these classes under their own names.

Members may be added; one that is renamed, or means something else, raises FORMAT. Counts are of points unless they say
otherwise. What is not known is null, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from vecsieve.proxy.jobs.analyze.families import Density
from vecsieve.proxy.jobs.analyze.pools import Saving
from vecsieve.proxy.jobs.analyze.sources import Sources
from vecsieve.proxy.jobs.source import PointId

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which collection, and how much of it. ``points``: when its ids were listed. ``examined``: equal to it, or a sample's.

    ``with_text``, ``with_vector``: of those examined. ``gone``: listed, but deleted before they were read.
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
    """Up to which distance points are copies. ``origin``: "option", "profile" or "relative".

    ``relative``: the cut that the default policy's rule gives this collection, and ``median``, what the rule scales: the median
    distance in pools around ``pools`` points spread over the collection; null where no pool has two vectors.
    """

    value: float
    origin: str
    relative: float | None
    median: float | None
    pools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """``with_copy``: examined points that have a copy. ``redundant``: those that could go if one of each family stayed; null for a sample."""

    with_copy: int
    redundant: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A point of a family. ``distance`` to its leader, null where one has no vector. ``exact``: an exact copy of the leader.

    ``text``: shortened; null without one.
    """

    id: PointId
    source: str | None
    distance: float | None
    exact: bool
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``size``: points, the leader included. ``exact``: those of them that are the leader's exact copies, it included. ``members``: the first few."""

    size: int
    exact: int
    leader: Member
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """``families`` of ``smallest`` to ``largest`` members, which hold ``points``. ``largest``: null for no upper end."""

    smallest: int
    largest: int | None
    families: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Families of two and more. ``saturated``: points whose listed neighbours are all copies, so that their family may be larger."""

    count: int
    largest: int
    saturated: int
    sizes: tuple[Sizes, ...]
    examples: tuple[Family, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything. ``density``: at rising cuts, the relative one and the chosen one among them. ``version``: VecSieve's."""

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

    @property
    def sampled(self) -> bool:
        """Whether only a part of the collection was looked at."""
        return self.about.examined + self.about.gone < self.about.points


def as_json(report: Report) -> bytes:
    """The report as indented JSON, keys in the order of the classes, a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
