"""Where a threshold's scale comes from: the collection's profile, what its traffic taught, or the pool itself.

A profile that was fitted to labelled pairs is a cut; one that was measured by rule is a typical distance, and the
policy's own threshold is read at it. A fixed threshold is nobody's business but the operator's. While the live pools do
not look like the profile, it does not count: a cut of another embedding model would merge anything, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from vecsieve.proxy.drift import Drift, Event
from vecsieve.proxy.profiles import Profile, Profiles
from vecsieve.proxy.scales import Scales
from vecsieve.proxy.selection.policy import Fixed, Policy


class Origin(StrEnum):
    """Who said what the scale is."""

    POOL = "pool"
    LEARNED = "learned"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A policy to select by, and the typical distance to read its threshold at; None: the pool's own."""

    policy: Policy
    scale: float | None
    origin: Origin


class Scaling:
    """Answers for every pool, and learns from it afterwards.

    ``profiles``, ``scales``: None where the settings do not want them. ``told``: hears once when pools no longer look like
    their profile, and when they do again.
    """

    __slots__ = ("_drift", "_profiles", "_scales", "_told")

    def __init__(
        self, profiles: Profiles | None, scales: Scales | None, told: Callable[[Profile, Event], None]
    ) -> None:
        self._profiles = profiles
        self._scales = scales
        self._drift = Drift()
        self._told = told

    def of(self, collection: str, vector_name: str | None, policy: Policy, *, dimension: int) -> Scaled:
        """What to select by in a pool of this collection, compared by this vector."""
        if vector_name is None or isinstance(policy.threshold, Fixed):
            return Scaled(policy, None, Origin.POOL)
        profile = None if self._profiles is None else self._profiles.profile(collection, vector_name)
        if profile is not None and profile.dimension == dimension and not self._drift.drifted(collection, vector_name):
            if profile.how == "labelled":
                return Scaled(replace(policy, threshold=Fixed(value=profile.cut)), None, Origin.PROFILE)
            return Scaled(policy, profile.pool_median.percentile_50, Origin.PROFILE)
        learned = None if self._scales is None else self._scales.scale((collection, vector_name))
        return Scaled(policy, learned, Origin.POOL if learned is None else Origin.LEARNED)

    def forget(self, collection: str | None) -> None:
        """What traffic taught of this collection, or of any, may be over. A profile is somebody's word, and drift watches it."""
        if self._scales is not None:
            self._scales.forget(collection)

    def saw(self, collection: str, vector_name: str | None, *, dimension: int, median: float, size: int) -> None:
        """Learn from a pool of ``size`` candidates, ``median`` apart."""
        if vector_name is None:
            return
        if self._scales is not None:
            self._scales.observe((collection, vector_name), median)
        profile = None if self._profiles is None else self._profiles.profile(collection, vector_name)
        if profile is not None:
            event = self._drift.observe(profile, dimension=dimension, median=median, size=size)
            if event is not None:
                self._told(profile, event)
