"""What `vecsieve calibrate` found out about a collection: one JSON file each, loaded from a directory and reloaded.

A file that cannot be used is told of by name and field; what it said before stays in force, so that a slip of the
editor does not change how a running proxy decides.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from vecsieve.config.findings import validated
from vecsieve.config.problems import Problem, SettingsError, dotted
from vecsieve.config.schema import ProfileSettings
from vecsieve.config.values import CosineDistance, Count, Name
from vecsieve.proxy.search.collections import is_of
from vecsieve.proxy.selection.policy import Fixed, Policy
from vecsieve.proxy.telemetry.labels import Drifted
from vecsieve.proxy.telemetry.metrics import Metrics

VERSION: Literal[1] = 1
LARGEST_FILE_BYTES = 64 * 1024  # a profile is under 1 kB

Signature = tuple[int, int, int]  # modified (ns), size (bytes), inode: a rename into place changes at least one


Typical = Annotated[float, Field(ge=0.0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PoolMedians(_Model):
    """How wide the pools are: quantiles of their typical distances, 1 - cosine or else half the squared distance."""

    percentile_1: Typical
    percentile_50: Typical
    percentile_99: Typical


class Profile(_Model):
    """One collection, by one of its vectors.

    ``cut``: candidates at distance <= cut merge, when it was fitted to labelled pairs; one by rule is for the record, and
    ``pool_median`` says at which distance the policy's own threshold is read.
    """

    version: Literal[1]
    collection: Name
    vector_name: str
    dimension: Count
    distance: Literal["Cosine", "Dot", "Euclid", "Manhattan"]
    cut: CosineDistance
    how: Literal["rule", "labelled"]
    mean_unrelated_similarity: Annotated[float, Field(ge=-1.0, le=1.0)]
    pool_median: PoolMedians
    pools: Count
    sample: Count
    created_by: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """A directory that was read again. ``profiles``: how many are in force. ``problems``: of all its files."""

    profiles: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    signature: Signature
    profile: Profile | None
    problems: tuple[Problem, ...]


def encoded(profile: Profile) -> bytes:
    """The file of a profile: JSON, one member a line."""
    return orjson.dumps(profile.model_dump(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decoded(content: bytes, *, name: str) -> Profile:
    """The profile in a file. ``name``: what the file is called. Raises SettingsError with every wrong field."""
    try:
        tree = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise SettingsError([Problem(f"{name}, line {error.lineno}", error.msg, "JSON")]) from error
    if not isinstance(tree, dict):
        raise SettingsError([Problem(name, "no JSON object", "a profile as `vecsieve calibrate` writes it")])
    profile, findings = validated(Profile, tree)
    if profile is None:
        raise SettingsError(Problem(f"{name}: {dotted(each.path)}", each.seen, each.wanted) for each in findings)
    return profile


class Profiles:
    """Every profile of a directory, by collection and vector name. Nothing is read before ``reload_if_changed``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, _Held] = {}
        self._unreadable: tuple[Problem, ...] | None = None
        self._profiles: dict[tuple[str, str], Profile] = {}

    def reload_if_changed(self) -> Reload | None:
        """Read what changed since the last call; None when nothing did. Raises nothing: problems are in the answer.

        Costs one `stat` a file: a process can afford it every few seconds.
        """
        seen, unreadable = self._look()
        if unreadable == self._unreadable and seen == {name: held.signature for name, held in self._files.items()}:
            return None
        self._files = {name: self._current(name, signature) for name, signature in seen.items()}
        self._unreadable = unreadable
        problems = (*unreadable, *self._rebuild())
        return Reload(profiles=len(self._profiles), problems=problems)

    def profile(self, collection: str, vector_name: str) -> Profile | None:
        """The profile in force for this vector."""
        return self._profiles.get((collection, vector_name))

    def _current(self, name: str, signature: Signature) -> _Held:
        before = self._files.get(name)
        if before is not None and before.signature == signature:
            return before
        try:
            return _Held(signature, decoded(_content(self._directory / name), name=name), ())
        except SettingsError as error:
            return _Held(signature, None if before is None else before.profile, error.problems)

    def _rebuild(self) -> tuple[Problem, ...]:
        """Key the profiles anew, in order of file names; of two for one vector the first counts. Problems of all files."""
        problems: list[Problem] = []
        owners: dict[tuple[str, str], str] = {}
        self._profiles = {}
        for name, held in self._files.items():
            problems.extend(held.problems)
            if held.profile is None:
                continue
            key = (held.profile.collection, held.profile.vector_name)
            owner = owners.setdefault(key, name)
            if owner == name:
                self._profiles[key] = held.profile
            else:
                problems.append(Problem(name, f"the vector that {owner} is for", "one file for each vector"))
        return tuple(problems)

    def _look(self) -> tuple[dict[str, Signature], tuple[Problem, ...]]:
        """Signatures by file name. A directory that cannot be listed, as while a volume is remounted, changes nothing."""
        try:
            paths = sorted(path for path in self._directory.iterdir() if path.suffix == ".json")
        except OSError as error:
            seen = (error.strerror or "an error").lower()
            before = {name: held.signature for name, held in self._files.items()}
            return before, (Problem(str(self._directory), seen, "a directory of profiles"),)
        return {path.name: _signature(path) for path in paths}, ()


def _signature(path: Path) -> Signature:
    """Zeros for what cannot be looked at, such as a link to nowhere: reading it will say why."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _content(path: Path) -> bytes:
    """The file's bytes. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError([Problem(path.name, (error.strerror or "an error").lower(), "a readable file")]) from error
    if len(content) > LARGEST_FILE_BYTES:
        raise SettingsError([Problem(path.name, "a larger one", f"a file of at most {LARGEST_FILE_BYTES} bytes")])
    return content


# What the traffic teaches about a collection's distances: the mean of its pools' medians, for `--online`.
#
# The mean over fifty pools carries over as well as each pool's own median does (0.460 of the redundancy cut against
# 0.461, the answer kept as often, on eleven labelled sets) and it does not swing from one search to the next.
# Each process learns from its own share of the traffic. No clock: the same traffic teaches the same numbers.

Key = tuple[str, str]  # collection, vector name

ENTRIES = 1024  # collections remembered: about 300 kB
ENOUGH_POOLS = 50  # before so many, a pool's own median is the better scale
MEMORY_POOLS = 1000  # older pools fade, so that a collection that was filled anew is learned anew


@dataclass(slots=True)
class _Mean:
    pools: int = 0
    value: float = 0.0

    def add(self, median: float) -> None:
        self.pools += 1
        self.value += (median - self.value) / min(self.pools, MEMORY_POOLS)


class Scales:
    """At most ``entries`` collections; the one whose last pool is longest ago leaves first."""

    __slots__ = ("_entries", "_held")

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._held: OrderedDict[Key, _Mean] = OrderedDict()

    def observe(self, key: Key, median: float) -> None:
        """Learn from one pool. A median that is not above zero comes from a pool with nothing to measure."""
        if not (median > 0.0 and math.isfinite(median)):
            return
        self._held.setdefault(key, _Mean()).add(median)
        self._held.move_to_end(key)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)

    def forget(self, collection: str | None) -> None:
        """Unlearn this collection, or all."""
        for key in [key for key in self._held if is_of(collection, key[0])]:
            del self._held[key]

    def scale(self, key: Key) -> float | None:
        """The learned scale; None before it is worth more than the pool's own."""
        mean = self._held.get(key)
        return None if mean is None or mean.pools < ENOUGH_POOLS else mean.value

    def __len__(self) -> int:
        return len(self._held)


# Do the live pools still look like the profile? When the embedding model was changed, its cut means nothing any more.
#
# The dimension tells at once. A new model of the same dimension tells by the pools' median distances, which differ by a
# factor of three between models (0.12 to 0.96 over eleven sets and three models).

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


# Where a threshold's scale comes from: the collection's profile, what its traffic taught, or the pool itself.
#
# A profile that was fitted to labelled pairs is a cut; one that was measured by rule is a typical distance, and the
# policy's own threshold is read at it. A fixed threshold is nobody's business but the operator's. While the live pools do
# not look like the profile, it does not count: a cut of another embedding model would merge anything, or nothing.


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


# The profiles of one process: loaded at its start, looked at again every few seconds; drift is logged and counted.

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
