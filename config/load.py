"""The one way from file, environment and flags to Settings: flags beat environment, environment file, file defaults.

Everything wrong is reported at once, in a SettingsError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as File

from vecsieve.config.environment import CONFIG_VARIABLE, from_environment, variable
from vecsieve.config.fields import leaves
from vecsieve.config.judgement import judged
from vecsieve.config.presets import merged
from vecsieve.config.problems import Finding, Path, Problem, SettingsError, dotted
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import NotYaml, read

LARGEST_FILE_BYTES = 1024 * 1024  # a ConfigMap's own limit


def load(*, file: File | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Settings from all sources. ``flags``: values by dotted path, such as ``upstream.url``; only those given.

    Without ``file`` the variable VECSIEVE_CONFIG may name one. Raises SettingsError, nothing else.
    """
    document, unread = _read(file, environment)
    variables, misread = from_environment(environment)
    given: dict[Path, object] = {tuple(path.split(".")): value for path, value in flags.items()}
    tree = _overlaid(_overlaid(document.value, variables), given)
    settings, wrong = judged(tree, (*document.findings, *misread))
    sources: dict[Path, str] = {
        leaf.path: variable(leaf.path) for leaf in leaves() if variable(leaf.path) in environment
    }
    sources |= dict.fromkeys(given, "command line")
    problems = (*unread, *(_problem(finding, sources) for finding in wrong))
    if problems:
        raise SettingsError(problems)
    return settings


def _problem(finding: Finding, sources: Mapping[Path, str]) -> Problem:
    place, source = dotted(finding.path) or "the file", sources.get(finding.path)
    return Problem(place if source is None else f"{place} ({source})", finding.seen, finding.wanted)


@dataclass(frozen=True, slots=True)
class _Content:
    value: dict[str, object]
    findings: tuple[Finding, ...]


def _read(file: File | None, environment: Mapping[str, str]) -> tuple[_Content, tuple[Problem, ...]]:
    """What the file holds; nothing, and why, when it cannot be read at all."""
    if file is None and environment.get(CONFIG_VARIABLE):
        file = File(environment[CONFIG_VARIABLE])
    if file is None:
        return _Content({}, ()), ()
    try:
        return _from_file(file), ()
    except SettingsError as error:
        return _Content({}, ()), error.problems


def _from_file(file: File) -> _Content:
    """The file's tree. Raises SettingsError when there is none in it; an empty file is an empty tree."""
    try:
        document = read(_text(file))
    except NotYaml as error:
        place = f"{file}, {error.place}" if error.place else str(file)
        raise SettingsError([Problem(place, error.seen, "YAML")]) from error
    if document.value is None:
        return _Content({}, document.findings)
    if not isinstance(document.value, dict):
        kind = "a list" if isinstance(document.value, tuple) else "a single value"
        raise SettingsError([Problem(str(file), kind, "a mapping of settings")])
    return _Content(document.value, document.findings)


def _text(file: File) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        seen = error.strerror if isinstance(error, OSError) and error.strerror else "no file of that name"
        raise SettingsError([Problem(str(file), seen.lower(), "a readable file")]) from error
    if len(content) > LARGEST_FILE_BYTES:
        raise SettingsError([Problem(str(file), "a larger one", f"a file of at most {LARGEST_FILE_BYTES} bytes")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError([Problem(str(file), f"something else at byte {error.start}", "UTF-8")]) from error


def _overlaid(tree: Mapping[str, object], values: Mapping[Path, object]) -> dict[str, object]:
    """The tree with values by path laid over it, as one: two halves of a threshold make one threshold."""
    over: dict[str, object] = {}
    for path, value in values.items():
        if _is_free(tree, path):
            _put(over, path, value)
    return merged(tree, over)


def _is_free(tree: Mapping[str, object], path: Path) -> bool:
    """Whether nothing but mappings stands above ``path``. Something else must stay, so that it is reported."""
    above: object = tree
    for part in path[:-1]:
        above = above.get(str(part)) if isinstance(above, Mapping) else None
        if above is None or above == "none":
            return True
        if not isinstance(above, Mapping):
            return False
    return True


def _put(tree: dict[str, object], path: Path, value: object) -> None:
    """Set a value in a tree of this module's own making. A scalar on the way gives place: the longer path says more."""
    for part in path[:-1]:
        below = tree.get(str(part))
        if not isinstance(below, dict):
            below = tree[str(part)] = {}
        tree = below
    tree[str(path[-1])] = value
