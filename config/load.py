"""Settings from file, environment and flags: flags override the environment, the environment overrides the file.

All errors are reported at once, in a SettingsError.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import TypeVar

from pydantic import BaseModel

from .contradictions import of_policy, of_rules, of_settings, of_write
from .fields import Leaf, closest, leaves, pruned, validated
from .policy import PolicySettings, even
from .presets import composed, merged, rule_members
from .problems import Contradiction, Finding, Path, Places, Problem, SettingsError, dotted, excerpt
from .schema import Settings

AnyModel = TypeVar("AnyModel", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Used:
    """A rule's effective policy, and the members from the rule itself."""

    at: Path
    members: Mapping[str, object]
    policy: PolicySettings


def judged(tree: Mapping[str, object], known: tuple[Finding, ...]) -> tuple[Settings, tuple[Finding, ...]]:
    """The settings without their invalid members, and every finding, ``known`` ones first.

    Each member is checked alone, then each rule's effective policy, then all together. Invalid members are removed before
    the next step, so that one error neither hides another nor is reported twice.
    """
    settings, findings = _salvaged(Settings, pruned(tree, known))
    wrong = [*known, *findings]
    used: list[_Used] = []
    for index, rule in enumerate(settings.rules):
        at: Path = ("rules", index, "policy")
        policy, findings = _salvaged(PolicySettings, composed(settings.policy, rule), at=at)
        wrong += findings
        used.append(_Used(at, rule_members(rule), policy))
    faults = Places(finding.path for finding in wrong)
    sound = [
        contradiction.finding
        for contradiction in _contradictions(settings, used)
        if not any(map(faults.touch, contradiction.places))
    ]
    return settings, (*wrong, *sound)


def _salvaged(
    model: type[AnyModel], tree: Mapping[str, object], *, at: Path = ()
) -> tuple[AnyModel, tuple[Finding, ...]]:
    """The model of the valid members, and the findings."""
    wrong: tuple[Finding, ...] = ()
    value, findings = validated(model, tree, at=at)
    while value is None:
        wrong += findings
        within = tuple(Finding(finding.path[len(at) :], finding.seen, finding.expected) for finding in findings)
        rest = pruned(tree, within)
        # If nothing was removed: the defaults are always valid.
        tree = rest if rest != tree else {}
        value, findings = validated(model, tree, at=at)
    return value, wrong


def _contradictions(settings: Settings, used: list[_Used]) -> Iterator[Contradiction]:
    yield from of_settings(settings)
    shared = [
        *of_policy(settings.policy),
        *of_write(settings, settings.policy),
    ]
    for contradiction in shared:
        yield contradiction.within(("policy",))
    yield from of_rules(settings.rules)
    for policy_used in used:
        for contradiction in (*of_policy(policy_used.policy), *of_write(settings, policy_used.policy)):
            if contradiction not in shared:  # else inherited, and reported once at its own place
                yield contradiction.within(policy_used.at, members=policy_used.members)


# Every scalar setting has a variable: VECSIEVE_ and its path in capitals. Lists, mappings and rules are only in the file. An unknown
# variable with the prefix is an error, except those below and those that Kubernetes sets for a Service of that name.
PREFIX = "VECSIEVE_"
CONFIG_VARIABLE = "VECSIEVE_CONFIG"
# Read elsewhere: the settings file's path, and the evaluations' labelled sets.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "VECSIEVE_EVAL_DATA"})

# With enableServiceLinks (the default) a Service named vecsieve, or vecsieve-admin, sets variables in every pod of its
# namespace: VECSIEVE_SERVICE_HOST, VECSIEVE_SERVICE_PORT_HTTP, VECSIEVE_PORT=tcp://…, VECSIEVE_PORT_6343_TCP_ADDR.
_SERVICE_LINK = re.compile(
    r"VECSIEVE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://\S+")

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]{1,18}|[0-9]{1,18}(\.[0-9]{0,18})?)([eE][-+]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "false": False}
_NONE = "none"


def variable(path: Path) -> str:
    return PREFIX + "_".join(str(part) for part in path).upper()


def from_environment(environment: Mapping[str, str]) -> tuple[dict[Path, object], tuple[Finding, ...]]:
    """Values by path, and findings, whose path is the setting's or the unknown variable's name."""
    known = {variable(leaf.path): leaf for leaf in leaves()}
    values: dict[Path, object] = {}
    findings: list[Finding] = []
    for name in [*(name for name in known if name in environment), *_unknown(environment, known)]:
        leaf = known.get(name)
        finding = _strange(name, known) if leaf is None else _setting(leaf, environment[name], values)
        if finding is not None:
            findings.append(finding)
    return values, tuple(findings)


def _setting(leaf: Leaf, text: str, values: dict[Path, object]) -> Finding | None:
    seen = excerpt(text, name=str(leaf.path[-1]))
    off = next((path for path in values if values[path] is None and leaf.path[: len(path)] == path), None)
    if off is not None:
        return Finding(leaf.path, seen, f"nothing while {variable(off)} is none")
    try:
        values[leaf.path] = _parsed(leaf, text)
    except ValueError:
        return Finding(leaf.path, seen, leaf.expected)
    return None


def _parsed(leaf: Leaf, text: str) -> object:
    """Raises ValueError for a wrong type. The models check ranges."""
    if leaf.nullable and text == _NONE:
        return None
    if leaf.kind == "text":
        return text.encode().decode()  # invalid UTF-8 arrives as lone surrogates: UnicodeEncodeError
    if leaf.kind == "bool" and text in _BOOLEANS:
        return _BOOLEANS[text]
    if leaf.kind == "int" and _INTEGER.fullmatch(text) is not None:
        return int(text)
    if leaf.kind == "float" and _NUMBER.fullmatch(text) is not None:
        return float(text)
    raise ValueError(leaf.expected)


def _unknown(environment: Mapping[str, str], known: Mapping[str, Leaf]) -> list[str]:
    return sorted(
        name
        for name, value in environment.items()
        if name.startswith(PREFIX)
        and name not in known
        and name not in OTHER_VARIABLES
        and not _is_service_link(name, value)
    )


def _is_service_link(name: str, value: str) -> bool:
    if name.endswith("_PORT") and _SERVICE_URL.fullmatch(value) is not None:
        return True
    return _SERVICE_LINK.fullmatch(name) is not None


def _strange(name: str, known: Mapping[str, Leaf]) -> Finding:
    # The value is not shown: it may be a credential.
    guess = closest(name, [*known, *sorted(OTHER_VARIABLES)])
    hint = "" if guess is None else f"Did you mean {guess}?"
    return Finding((name,), "a variable of that name", "a known variable", words=f"unknown variable {name}", hint=hint)


LARGEST_FILE_BYTES = 1024 * 1024  # a ConfigMap's own limit


def load(*, file: File | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """``flags``: by dotted path such as ``upstream.url``; None: not given. ``file``: None for that of VECSIEVE_CONFIG, if set.

    Raises SettingsError, nothing else.
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = File(environment[CONFIG_VARIABLE])
    written = _Written({}, (), {})
    unread: tuple[Problem, ...] = ()
    try:
        if file is not None:
            written = _read(file)
    except SettingsError as error:
        unread = error.problems  # the other sources are checked nevertheless
    variables, misread = from_environment(environment)
    given: dict[Path, object] = {tuple(path.split(".")): value for path, value in flags.items() if value is not None}
    tree = _overlaid(_overlaid(written.tree, variables), given)
    settings, wrong = judged(tree, (*written.findings, *misread))
    sources: dict[Path, str] = {
        leaf.path: variable(leaf.path) for leaf in leaves() if variable(leaf.path) in environment
    }
    sources |= dict.fromkeys(given, "command line")
    problems = (*unread, *(_problem(finding, sources, file, written.lines) for finding in wrong))
    if problems:
        raise SettingsError(problems)
    return settings


def _problem(finding: Finding, sources: Mapping[Path, str], file: File | None, lines: Mapping[Path, int]) -> Problem:
    place, source = dotted(finding.path) or "the file", sources.get(finding.path)
    if source is not None:
        place = f"{place} ({source})"
    above = (finding.path[:length] for length in range(len(finding.path), 0, -1))
    line = finding.line or next((lines[path] for path in above if path in lines), 0)
    at = f"{file}:{line}" if line and source is None else ""
    return Problem(place, finding.seen, finding.expected, at, finding.words, finding.hint)


@dataclass(frozen=True, slots=True)
class _Written:
    """A file's tree, empty for an empty file, its findings, and the line of each path."""

    tree: Mapping[str, object]
    findings: tuple[Finding, ...]
    lines: Mapping[Path, int]


def _read(file: File) -> _Written:
    """Raises SettingsError for a file without a mapping."""
    from .yaml_core import NotYamlError, read  # loads PyYAML, which nobody needs without a file

    try:
        document = read(_text(file))
    except NotYamlError as error:
        place = ":".join(str(part) for part in (file, error.line, error.column) if part)
        raise SettingsError([Problem(place, error.seen, "YAML")]) from error
    if document.value is None:
        return _Written({}, document.findings, {})
    if not isinstance(document.value, dict):
        kind = "a list" if isinstance(document.value, tuple) else "a single value"
        raise SettingsError([Problem(str(file), kind, "a mapping of settings")])
    tree, upstream = document.value, document.value.get("upstream")
    if isinstance(upstream, str):  # the only section that everybody sets: a URL may replace it
        tree = {**tree, "upstream": {"url": upstream}}
    return _Written(tree, document.findings, document.lines)


def content_of(file: File, most: int) -> bytes:
    """Up to ``most`` bytes of a regular file. A pipe would be waited for, perhaps for ever. Raises OSError or ValueError."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        return stream.read(most)


def _text(file: File) -> str:
    try:
        content = content_of(file, LARGEST_FILE_BYTES + 1)
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
    """The tree overlaid with values by path. Two members of a threshold make one threshold."""
    tree = _spread(tree)
    over: dict[str, object] = {}
    for path, value in values.items():
        if _is_free(tree, path):
            _put(over, path, value)
    return merged(tree, over)


def _spread(tree: Mapping[str, object]) -> Mapping[str, object]:
    """The tree with a single-number certainty as its two members, so that one of them can be overlaid."""
    policy = tree.get("policy")
    if not isinstance(policy, Mapping) or "certainty" not in policy:
        return tree
    return {**tree, "policy": {**policy, "certainty": even(policy["certainty"])}}


def _is_free(tree: Mapping[str, object], path: Path) -> bool:
    """Whether only mappings are above ``path``. Other values are kept, so that they are reported."""
    above: object = tree
    for part in path[:-1]:
        above = above.get(str(part)) if isinstance(above, Mapping) else None
        if above is None or above == "none":
            return True
        if not isinstance(above, Mapping):
            return False
    return True


def _put(tree: dict[str, object], path: Path, value: object) -> None:
    """Set a value in a tree of this module. A scalar on the path is replaced, because the longer path is more specific."""
    for part in path[:-1]:
        below = tree.get(str(part))
        if not isinstance(below, dict):
            below = tree[str(part)] = {}
        tree = below
    tree[str(path[-1])] = value
