"""Do the live pools still look like the profile? When the embedding model was changed, its cut means nothing any more.

The dimension tells at once. A new model of the same dimension tells by the pools' median distances, which differ by a
factor of three between models (0.12 to 0.96 over eleven sets and three models).
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum

from vecsieve.proxy.profiles import Profile

ENTRIES = 1024  # collections watched: about 2 MB when all windows are full
WINDOW = 200  # pools
WIDENED = 1.25  # live pools are drawn around queries, the profile's around points: some play is no drift
# The nearest ten lie nearer to each other than the nearest fifty: over eight labelled sets up to 62 % of pools of 10 lie
# outside the widened range although nothing has changed, 14 % of pools of 24, and 4 % of pools of 40.
SMALLEST_POOL = 20
DRIFTED_SHARE = 0.5
FITTING_SHARE = 0.25  # less than the share above, so that pools on the border do not report in turns


class Event(StrEnum):
    """What changed with this pool."""

    DIMENSION = "dimension"  # the vectors have another dimension than the profile says
    MEDIANS = "medians"  # most pools are wider or narrower than any the profile has seen
    RECOVERED = "recovered"  # the pools look like the profile again


@dataclass(slots=True)
class _Watch:
    profile: Profile
    outside: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    drifted: Event | None = None


class Drift:
    """Watches every profile in use; the collection whose last pool is longest ago is forgotten first."""

    __slots__ = ("_entries", "_watched")

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._watched: OrderedDict[tuple[str, str], _Watch] = OrderedDict()

    def observe(self, profile: Profile, *, dimension: int, median: float, size: int) -> Event | None:
        """Look at one live pool; what it changed, once each time. A new profile starts anew.

        ``median``: the pool's median pairwise distance; one that is not above zero says nothing and is not counted.
        ``size``: of how many candidates; the median of few says nothing either.
        """
        watch = self._watch(profile)
        if dimension != profile.dimension:
            watch.outside.clear()
            return _became(watch, Event.DIMENSION)
        if size < SMALLEST_POOL or not (median > 0.0 and math.isfinite(median)):
            return None
        watch.outside.append(not _fits(profile, median))
        if len(watch.outside) < WINDOW:
            return None
        share = sum(watch.outside) / WINDOW
        if share > DRIFTED_SHARE:
            return _became(watch, Event.MEDIANS)
        if share <= FITTING_SHARE and watch.drifted is not None:
            watch.drifted = None
            return Event.RECOVERED
        return None

    def drifted(self, collection: str, vector_name: str) -> Event | None:
        """DIMENSION or MEDIANS while the pools do not fit their profile, None while they do or nothing is known."""
        watch = self._watched.get((collection, vector_name))
        return None if watch is None else watch.drifted

    def __len__(self) -> int:
        return len(self._watched)

    def _watch(self, profile: Profile) -> _Watch:
        key = (profile.collection, profile.vector_name)
        watch = self._watched.get(key)
        if watch is None or watch.profile != profile:
            watch = self._watched[key] = _Watch(profile)
        self._watched.move_to_end(key)
        while len(self._watched) > self._entries:
            self._watched.popitem(last=False)
        return watch


def _became(watch: _Watch, event: Event) -> Event | None:
    if watch.drifted is event:
        return None
    watch.drifted = event
    return event


def _fits(profile: Profile, median: float) -> bool:
    seen = profile.pool_median
    return seen.percentile_1 / WIDENED <= median <= seen.percentile_99 * WIDENED
