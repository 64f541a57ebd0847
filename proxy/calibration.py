"""The profiles of one process: loaded at its start, looked at again every few seconds; drift is logged and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from vecsieve.config.schema import ProfileSettings
from vecsieve.proxy.drift import Event
from vecsieve.proxy.labels import Drifted
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.profiles import Profile, Profiles
from vecsieve.proxy.scales import Scales
from vecsieve.proxy.scaling import Scaling

LOGGER = logging.getLogger("vecsieve.calibration")
KINDS = {Event.DIMENSION: Drifted.DIMENSION, Event.MEDIANS: Drifted.DISTANCES}


class Calibration:
    """Owns what thresholds are read at. ``scaling`` answers for pools; ``look`` is called often and acts rarely."""

    def __init__(self, settings: ProfileSettings, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._profiles = None if settings.directory is None else Profiles(Path(settings.directory))
        self._every_seconds = settings.reload_seconds
        self._metrics = metrics
        self._clock = clock
        self._next = clock()
        self.scaling = Scaling(self._profiles, Scales() if settings.online else None, self._told)
        self.look()

    def look(self) -> None:
        """Read the directory again when it is time; a file that cannot be taken is told of and changes nothing."""
        if self._profiles is None or self._clock() < self._next:
            return
        self._next = self._clock() + self._every_seconds
        reload = self._profiles.reload_if_changed()
        if reload is None:
            return
        for problem in reload.problems:
            self._metrics.profile_reload_failures_total.inc()
            LOGGER.warning("profile not taken: %s", problem)
        LOGGER.info("profiles read", extra={"fields": {"profiles": reload.profiles}})

    def _told(self, profile: Profile, event: Event) -> None:
        # The collection's name is the operator's own: it stands in the profile file. Names from requests are not logged.
        where = {"collection": profile.collection, "vector": profile.vector_name}
        if event is Event.RECOVERED:
            LOGGER.info("pools look like their profile again", extra={"fields": where})
            return
        self._metrics.profile_drift_total.labels(KINDS[event].value).inc()
        LOGGER.warning(
            "pools no longer look like their profile, which does not count until they do: was the embedding model"
            " changed? Run `vecsieve calibrate` again",
            extra={"fields": {**where, "kind": event.value}},
        )
