"""The one way from file, environment and flags to Settings: flags beat environment, environment file, file defaults.

Everything wrong is reported at once, in a SettingsError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import TypeVar

from pydantic import BaseModel

from vecsieve.config.contradictions import of_policy, of_rules, of_settings
from vecsieve.config.fields import Leaf, closest, leaves
from vecsieve.config.findings import pruned, validated
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import composed, merged, own_members
from vecsieve.config.problems import Contradiction, Finding, Path, Problem, SettingsError, dotted, shown
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import NotYamlError, read

# A tree of settings judged whole: each member by itself, each rule's policy as it will be used, then all together.
#
# What is wrong by itself is taken out before the rest is judged together: one slip neither hides another nor is told twice.

AnyModel = TypeVar("AnyModel", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Used:
    """A rule's policy as it will be used, and the members that the rule itself decides."""

    at: Path
    own: Mapping[str, object]
    policy: PolicySettings


def judged(tree: Mapping[str, object], known: tuple[Finding, ...]) -> tuple[Settings, tuple[Finding, ...]]:
    """Settings of all that can be used, and every finding; ``known`` ones first, and not told again.

    The settings are whole only when there is no finding.
    """
    settings, found = _salvaged(Settings, pruned(tree, known))
    wrong = [*known, *found]
    used: list[_Used] = []
    for index, rule in enumerate(settings.rules):
        at: Path = ("rules", index, "policy")
        policy, found = _salvaged(PolicySettings, composed(settings.policy, rule), at=at)
        wrong += found
        used.append(_Used(at, own_members(rule), policy))
    sound = [
        contradiction.finding
        for contradiction in _contradictions(settings, used)
        if not any(each.touches(path) for each in wrong for path in contradiction.places)
    ]
    return settings, (*wrong, *sound)


def _salvaged(
    model: type[AnyModel], tree: Mapping[str, object], *, at: Path = ()
) -> tuple[AnyModel, tuple[Finding, ...]]:
    """The model made of all that is right in the tree, and what is wrong."""
    wrong: tuple[Finding, ...] = ()
    made, found = validated(model, tree, at=at)
    while made is None:
        wrong += found
        within = tuple(Finding(each.path[len(at) :], each.seen, each.wanted) for each in found)
        rest = pruned(tree, within)
        # Nothing left to take out: the defaults alone are always valid.
        tree = rest if rest != tree else {}
        made, found = validated(model, tree, at=at)
    return made, wrong


def _contradictions(settings: Settings, used: list[_Used]) -> Iterator[Contradiction]:
    yield from of_settings(settings)
    shared = list(of_policy(settings.policy))
    for contradiction in shared:
        yield contradiction.within(("policy",))
    yield from of_rules(settings.rules)
    for each in used:
        for contradiction in of_policy(each.policy):
            if contradiction not in shared:  # else inherited, and told once where it stands
                yield contradiction.within(each.at, own=each.own)


# Settings from the environment: VECSIEVE_ and the path in capitals, as in VECSIEVE_LIMITS_IN_FLIGHT.
#
# Every scalar setting has its variable; lists, mappings and rules live in the file alone. A variable of our name that means nothing
# is a mistake and reported, except the few below and what Kubernetes puts into every pod beside a Service of our name.

PREFIX = "VECSIEVE_"
CONFIG_VARIABLE = "VECSIEVE_CONFIG"
# Read elsewhere: the settings file's path, and the labelled sets that the evaluations use.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "VECSIEVE_EVAL_DATA"})

# With enableServiceLinks (the default) a Service named vecsieve, or vecsieve-admin, makes such variables in every pod of
# its namespace: VECSIEVE_SERVICE_HOST, VECSIEVE_SERVICE_PORT_HTTP, VECSIEVE_PORT=tcp://…, VECSIEVE_PORT_6343_TCP_ADDR.
_SERVICE_LINK = re.compile(
    r"VECSIEVE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://\S+")

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]{1,18}|[0-9]{1,18}(\.[0-9]{0,18})?)([eE][-+]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "false": False}
_NONE = "none"


def variable(path: Path) -> str:
    """The variable that sets ``path``."""
    return PREFIX + "_".join(str(part) for part in path).upper()


def from_environment(environment: Mapping[str, str]) -> tuple[dict[Path, object], tuple[Finding, ...]]:
    """Values by path, and what could not be read. A finding's path is the setting's, or the unknown variable's name."""
    known = {variable(leaf.path): leaf for leaf in leaves()}
    values: dict[Path, object] = {}
    findings: list[Finding] = []
    for name in [*(name for name in known if name in environment), *_unknown(environment, known)]:
        leaf = known.get(name)
        found = _strange(name, known) if leaf is None else _setting(leaf, environment[name], values)
        if found is not None:
            findings.append(found)
    return values, tuple(findings)


def _setting(leaf: Leaf, text: str, values: dict[Path, object]) -> Finding | None:
    seen = shown(text, name=str(leaf.path[-1]))
    off = next((path for path in values if values[path] is None and leaf.path[: len(path)] == path), None)
    if off is not None:
        return Finding(leaf.path, seen, f"nothing while {variable(off)} is none")
    try:
        values[leaf.path] = _parsed(leaf, text)
    except ValueError:
        return Finding(leaf.path, seen, leaf.wanted)
    return None


def _parsed(leaf: Leaf, text: str) -> object:
    """The text as the setting's kind. Raises ValueError; ranges are the models' business."""
    if leaf.nullable and text == _NONE:
        return None
    if leaf.kind == "text":
        return text.encode().decode()  # bytes that are no UTF-8 arrive as lone surrogates: UnicodeEncodeError
    if leaf.kind == "bool" and text in _BOOLEANS:
        return _BOOLEANS[text]
    if leaf.kind == "int" and _INTEGER.fullmatch(text) is not None:
        return int(text)
    if leaf.kind == "float" and _NUMBER.fullmatch(text) is not None:
        return float(text)
    raise ValueError(leaf.wanted)


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
    # The value stays unsaid: whatever this was meant for, it may have been a credential.
    guess = closest(name, [*known, *sorted(OTHER_VARIABLES)])
    wanted = "a known variable" if guess is None else f"a known variable (did you mean {guess}?)"
    return Finding((name,), "a variable of that name", wanted)


LARGEST_FILE_BYTES = 1024 * 1024  # a ConfigMap's own limit


def load(*, file: File | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Settings from all sources. ``flags``: values by dotted path, such as ``upstream.url``; only those given.

    Without ``file`` the variable VECSIEVE_CONFIG may name one. Raises SettingsError, nothing else.
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = File(environment[CONFIG_VARIABLE])
    written: Mapping[str, object] = {}
    unusable: tuple[Finding, ...] = ()
    unread: tuple[Problem, ...] = ()
    try:
        if file is not None:
            written, unusable = _read(file)
    except SettingsError as error:
        unread = error.problems  # the other sources are judged all the same
    variables, misread = from_environment(environment)
    given: dict[Path, object] = {tuple(path.split(".")): value for path, value in flags.items()}
    tree = _overlaid(_overlaid(written, variables), given)
    settings, wrong = judged(tree, (*unusable, *misread))
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


def _read(file: File) -> tuple[Mapping[str, object], tuple[Finding, ...]]:
    """The file's tree, and what of it could not be used. Raises SettingsError when there is none; an empty file is an empty tree."""
    try:
        document = read(_text(file))
    except NotYamlError as error:
        place = f"{file}, {error.place}" if error.place else str(file)
        raise SettingsError([Problem(place, error.seen, "YAML")]) from error
    if document.value is None:
        return {}, document.findings
    if not isinstance(document.value, dict):
        kind = "a list" if isinstance(document.value, tuple) else "a single value"
        raise SettingsError([Problem(str(file), kind, "a mapping of settings")])
    return document.value, document.findings


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
