"""What `vecsieve calibrate` found out about a collection: one JSON file each, loaded from a directory and reloaded.

A file that cannot be used is told of by name and field; what it said before stays in force, so that a slip of the
editor does not change how a running proxy decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from vecsieve.config.findings import validated
from vecsieve.config.problems import Problem, SettingsError, dotted
from vecsieve.config.values import CosineDistance, Count, Name

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
    ``pool_median`` says at which distance the policy's own threshold is read (scaling.py).
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
