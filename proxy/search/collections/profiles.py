"""Collection profiles: the files that `vecsieve calibrate` writes, learned distance scales, and drift.

A file that cannot be read is reported by name and field; its last valid content stays in force, so a typing error does
not change the decisions of a running proxy.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from vecsieve.config.fields import validated
from vecsieve.config.load import content_of
from vecsieve.config.problems import Problem, SettingsError, dotted
from vecsieve.config.schema import ProfileSettings
from vecsieve.config.values import Count, Name

from ...runtime.files import FILES_LOGGER
from ...runtime.loop import in_thread
from ...selection.policy import Fixed, Policy
from ...telemetry.labels import ProfileFailure
from ...telemetry.metrics import Metrics
from .learned import Lru, is_of

VERSION: Literal[2] = 2
LARGEST_FILE_BYTES = 64 * 1024  # a profile is under 1 kB

Signature = tuple[int, int, int]  # modified (ns), size (bytes), inode: a rename into place changes at least one


Typical = Annotated[float, Field(ge=0.0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PoolMedians(_Model):
    """Quantiles of the pools' typical distances: 1 - cosine, or half the squared distance."""

    percentile_1: Typical
    percentile_50: Typical
    percentile_99: Typical


class Profile(_Model):
    """One collection by one of its vectors. The policy's own cut of vectors is evaluated at ``pool_median``."""

    version: Literal[2]
    collection: Name
    vector_name: str
    dimension: Count
    distance: Literal["Cosine", "Dot", "Euclid", "Manhattan"]
    mean_unrelated_similarity: Annotated[float, Field(ge=-1.0, le=1.0)]
    pool_median: PoolMedians
    pools: Count
    sample: Count
    created_by: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """The result of reading the directory again. ``profiles``: how many are in force."""

    profiles: int
    problems: tuple[Problem, ...]


def encoded(profile: Profile) -> bytes:
    """JSON, one member per line."""
    return orjson.dumps(profile.model_dump(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decoded(content: bytes, *, name: str) -> Profile:
    """Read a profile. ``name``: the file's. Raises SettingsError with every wrong field."""
    try:
        tree = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise SettingsError([Problem(f"{name}, line {error.lineno}", error.msg, "JSON")]) from error
    if not isinstance(tree, dict):
        raise SettingsError([Problem(name, "no JSON object", "a profile as `vecsieve calibrate` writes it")])
    profile, findings = validated(Profile, tree)
    if profile is None:
        raise SettingsError(
            Problem(f"{name}: {dotted(finding.path)}", finding.seen, finding.expected) for finding in findings
        )
    return profile


class Profiles:
    """All profiles of a directory by collection and vector name. Empty until ``reload_if_changed`` is called."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: tuple[dict[str, Signature], tuple[Problem, ...]] | None = None
        self._files: dict[str, Profile | None] = {}
        self._profiles: dict[tuple[str, str], Profile] = {}

    def reload_if_changed(self) -> Reload | None:
        """Read the files again if one has changed; None when nothing has. Never raises: problems are part of the result.

        Costs one `stat` per file, so it can run every few seconds.
        """
        seen = self._look()
        if seen == self._seen:
            return None
        self._seen = signatures, unreadable = seen
        problems = [*unreadable]
        self._files = {name: self._read(name, problems) for name in signatures}
        self._profiles = self._by_vector(problems)  # at once: searches read it meanwhile
        return Reload(profiles=len(self._profiles), problems=tuple(problems))

    def profile(self, collection: str, vector_name: str) -> Profile | None:
        return self._profiles.get((collection, vector_name))

    def _read(self, name: str, problems: list[Problem]) -> Profile | None:
        """A file's profile; of an invalid one its last valid content, None if there was none."""
        try:
            return decoded(_content(self._directory / name), name=name)
        except SettingsError as error:
            problems += error.problems
            return self._files.get(name)

    def _by_vector(self, problems: list[Problem]) -> dict[tuple[str, str], Profile]:
        """The profiles by collection and vector. If two files are for one vector, the first by file name is used."""
        owners: dict[tuple[str, str], str] = {}
        profiles: dict[tuple[str, str], Profile] = {}
        for name, profile in self._files.items():
            if profile is None:
                continue
            key = (profile.collection, profile.vector_name)
            owner = owners.setdefault(key, name)
            if owner == name:
                profiles[key] = profile
            else:
                problems.append(Problem(name, f"the vector that {owner} is for", "one file for each vector"))
        return profiles

    def _look(self) -> tuple[dict[str, Signature], tuple[Problem, ...]]:
        """Signatures by file name. A directory that cannot be listed, as during a remount, counts as unchanged."""
        try:
            paths = sorted(path for path in self._directory.iterdir() if path.suffix == ".json")
        except OSError as error:
            seen = (error.strerror or "an error").lower()
            before = {} if self._seen is None else self._seen[0]
            return before, (Problem(str(self._directory), seen, "a directory of profiles"),)
        return {path.name: _signature(path) for path in paths}, ()


def _signature(path: Path) -> Signature:
    """Zeros for a file that cannot be examined, such as a dangling link: reading it then reports the reason."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


def _content(path: Path) -> bytes:
    """Raises SettingsError."""
    try:
        content = content_of(path, LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError([Problem(path.name, (error.strerror or "an error").lower(), "a readable file")]) from error
    if len(content) > LARGEST_FILE_BYTES:
        raise SettingsError([Problem(path.name, "a larger one", f"a file of at most {LARGEST_FILE_BYTES} bytes")])
    return content


Key = tuple[str, str]  # collection, vector name

ENTRIES = 1024  # collections remembered: about 300 kB
ENOUGH_POOLS = 50  # with fewer pools, a pool's own median is the better scale
MEMORY_POOLS = 1000  # older pools lose weight, so that a refilled collection is learned again


@dataclass(slots=True)
class _Mean:
    pools: int = 0
    value: float = 0.0

    def add(self, median: float) -> None:
        self.pools += 1
        self.value += (median - self.value) / min(self.pools, MEMORY_POOLS)


class Scales:
    """The mean of each collection's pool medians, learned from traffic (`profiles.online`).

    The mean over fifty pools works as well as each pool's own median (0.460 of the redundancy removed against 0.461, and the answer kept as
    often, on eleven labelled sets), and it is stable between searches. Each process learns from its own traffic. It uses no clock: the same
    traffic gives the same numbers.
    """

    __slots__ = ("_entries",)

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries = Lru[Key, _Mean](entries)

    def observe(self, key: Key, median: float) -> None:
        """Learn from one pool. A median <= 0 is ignored."""
        if not (median > 0.0 and math.isfinite(median)):
            return
        self._entries.use(key, _Mean).add(median)

    def forget(self, collection: str | None) -> None:
        """Forget this collection, or all for None."""
        for key in [key for key in self._entries if is_of(collection, key[0])]:
            del self._entries[key]

    def scale(self, key: Key) -> float | None:
        """The learned scale; None before ENOUGH_POOLS."""
        mean = self._entries.get(key)
        return None if mean is None or mean.pools < ENOUGH_POOLS else mean.value

    def __len__(self) -> int:
        return len(self._entries)


WINDOW = 200  # pools
WIDENED = 1.25  # live pools are drawn around queries, the profile's around points: a moderate difference is no drift
# The nearest ten candidates are closer to each other than the nearest fifty. On eight labelled sets without any change, up to 62 % of pools
# of 10 are outside the widened range, 14 % of pools of 24 and 4 % of pools of 40.
SMALLEST_POOL = 20
DRIFTED_SHARE = 0.5
FITTING_SHARE = 0.25  # below the share above, so that pools near the limit do not report alternately


class Event(StrEnum):
    DIMENSION = "dimension"  # the vectors have another dimension than the profile
    MEDIANS = "medians"  # most pools are wider or narrower than any pool of the profile
    RECOVERED = "recovered"  # the pools match the profile again


@dataclass(slots=True)
class _Watch:
    profile: Profile
    outside: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    drifted: Event | None = None


class Drift:
    """Detects pools that no longer look like their profile, as after a change of the embedding model.

    Another dimension is detected at once. A new model of the same dimension is detected by the pools' median distances, which differ
    between models by a factor of three and more (0.12 to 0.96 over eleven sets and three models).
    """

    __slots__ = ("_watched",)

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._watched = Lru[Key, _Watch](entries)

    def observe(self, profile: Profile, *, dimension: int, median: float, size: int) -> Event | None:
        """Examine one pool; return each change of state once. A new profile resets the state.

        ``median``: of the pairwise distances; <= 0 is ignored. ``size``: number of candidates; small pools are ignored.
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
        """DIMENSION or MEDIANS while the pools do not match their profile; None while they match or nothing is known."""
        watch = self._watched.get((collection, vector_name))
        return None if watch is None else watch.drifted

    def __len__(self) -> int:
        return len(self._watched)

    def _watch(self, profile: Profile) -> _Watch:
        key = (profile.collection, profile.vector_name)
        watch = self._watched.get(key)
        if watch is None or watch.profile != profile:
            watch = _Watch(profile)
        self._watched.hold(key, watch)
        return watch


def _became(watch: _Watch, event: Event) -> Event | None:
    if watch.drifted is event:
        return None
    watch.drifted = event
    return event


def _fits(profile: Profile, median: float) -> bool:
    seen = profile.pool_median
    return seen.percentile_1 / WIDENED <= median <= seen.percentile_99 * WIDENED


class Scaling:
    """Decides at which distance a pool's threshold is evaluated: the profile's, the learned scale, or the pool's own median.

    A fixed threshold of the settings never changes, and a profile that has drifted is ignored. ``profiles``, ``scales``: None if disabled. ``drifted``: called when a profile stops
    matching, and when it matches again.
    """

    __slots__ = ("_drift", "_drifted", "_profiles", "_scales")

    def __init__(
        self, profiles: Profiles | None, scales: Scales | None, drifted: Callable[[Profile, Event], None]
    ) -> None:
        self._profiles = profiles
        self._scales = scales
        self._drift = Drift()
        self._drifted = drifted

    def of(self, collection: str, vector_name: str | None, policy: Policy, *, dimension: int) -> float | None:
        """The typical distance at which a policy's threshold is evaluated; None: the pool's own median."""
        if vector_name is None or isinstance(policy.threshold, Fixed):
            return None
        profile = None if self._profiles is None else self._profiles.profile(collection, vector_name)
        if profile is not None and profile.dimension == dimension and not self._drift.drifted(collection, vector_name):
            return profile.pool_median.percentile_50
        return None if self._scales is None else self._scales.scale((collection, vector_name))

    def forget(self, collection: str | None) -> None:
        """Forget learned scales. Profiles stay: they are written by an operator and checked for drift."""
        if self._scales is not None:
            self._scales.forget(collection)

    def observe(self, collection: str, vector_name: str | None, *, dimension: int, median: float, size: int) -> None:
        """Learn from a pool of ``size`` candidates with this median distance; 0.0 without vectors, which have no dimension then either."""
        if vector_name is None or not median > 0.0:
            return
        if self._scales is not None:
            self._scales.observe((collection, vector_name), median)
        profile = None if self._profiles is None else self._profiles.profile(collection, vector_name)
        if profile is not None:
            event = self._drift.observe(profile, dimension=dimension, median=median, size=size)
            if event is not None:
                self._drifted(profile, event)


LOGGER = logging.getLogger("vecsieve.calibration")
CHECK_SECONDS = 10.0  # a ConfigMap takes about a minute to arrive
KINDS = {Event.DIMENSION: ProfileFailure.DIMENSION, Event.MEDIANS: ProfileFailure.DISTANCES}


class Calibration:
    """The profiles of one process, loaded at start and checked every few seconds. Drift is logged and counted."""

    def __init__(self, settings: ProfileSettings, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._profiles = None if settings.directory is None else Profiles(Path(settings.directory))
        self._metrics = metrics
        self._clock = clock
        self._next = clock() + CHECK_SECONDS
        self._reading: asyncio.Task[None] | None = None
        self.scaling = Scaling(self._profiles, Scales() if settings.online else None, self._drifted)
        if self._profiles is not None:
            self._publish(self._profiles.reload_if_changed())

    def look(self) -> None:
        """Read the directory again, beside the loop, when it is time. An invalid file is logged and changes nothing."""
        is_reading = self._reading is not None and not self._reading.done()
        if self._profiles is None or is_reading or self._clock() < self._next:
            return
        self._next = self._clock() + CHECK_SECONDS
        self._reading = asyncio.create_task(self._read(self._profiles), name="vecsieve-profiles")

    def close(self) -> None:
        """Read no more."""
        self._profiles = None
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, profiles: Profiles) -> None:
        self._publish(await in_thread(profiles.reload_if_changed))

    def _publish(self, reload: Reload | None) -> None:
        if reload is None:
            return
        for problem in reload.problems:
            self._metrics.profile_failures_total.labels(ProfileFailure.UNREADABLE).inc()
            FILES_LOGGER.warning("profile ignored: %s", problem)
        FILES_LOGGER.info("profiles read", extra={"fields": {"profiles": reload.profiles}})

    def _drifted(self, profile: Profile, event: Event) -> None:
        # The name comes from the operator's profile file. Names from requests are never logged.
        where = {"collection": profile.collection, "vector": profile.vector_name}
        if event is Event.RECOVERED:
            LOGGER.info("pools match their profile again", extra={"fields": where})
            return
        self._metrics.profile_failures_total.labels(KINDS[event]).inc()
        LOGGER.warning(
            "pools no longer match their profile, which is ignored until they do: was the embedding model"
            " changed? Run `vecsieve calibrate` again",
            extra={"fields": {**where, "kind": event.value}},
        )
