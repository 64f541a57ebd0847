"""The policies that are compared: the usual ones, or those of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vecsieve.config.load import judged, load
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import PRESETS, instead_of, policy_of
from vecsieve.config.problems import Finding, Problem, SettingsError, dotted, one_line, shown
from vecsieve.config.schema import RuleSettings
from vecsieve.config.yaml_core import NotYamlError, read
from vecsieve.proxy.search.policy import ResolvedPolicy, resolved

PLAIN = "plain"  # the database's own answer, which every other is held against
DEFAULT = "default"
CONFIGURED = "configured"
WANTED = f"a preset ({', '.join(PRESETS)}) or members of a policy as YAML, such as {{threshold: {{fixed: 0.1}}}}"

# What each of the usual contenders changes: a preset's name, or members. A page that is filled up says what a client gets,
# one that is not what selection chose: where a closed list holds fewer distinct items than a page, the two differ.
USUAL: Mapping[str, object] = {
    "": {},
    ", not filled": {"short": "allow"},
    ", vectors only, not filled": {"text": None, "short": "allow"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """``settings``: what was asked for. ``policy``: the same as a search needs it."""

    name: str
    settings: PolicySettings
    policy: ResolvedPolicy


def contenders(
    *, given: Sequence[str] = (), config: Path | None = None, pool: int | None = None
) -> tuple[Contender, ...]:
    """Those ``given`` as NAME=PRESET or NAME=YAML, over the policy of ``config``; without any the usual ones.

    ``pool``: the exact number of candidates that each fetches, None for its own. Raises SettingsError.
    """
    base = PolicySettings() if config is None else load(file=config, environment={}, flags={}).policy
    if given:
        chosen = [_read(each, base) for each in given]
        _check_names([name for name, _ in chosen])
    else:
        chosen = _usual(base, DEFAULT if config is None else CONFIGURED)
    return tuple(_contender(name, settings, pool) for name, settings in chosen)


def _usual(base: PolicySettings, name: str) -> list[tuple[str, PolicySettings]]:
    found = [] if name == DEFAULT else [(DEFAULT, PolicySettings())]
    found += [(name + suffix, _laid(base, change, place=name)) for suffix, change in USUAL.items()]
    return [*found, ("classical", _laid(base, "classical", place="classical"))]


def _contender(name: str, settings: PolicySettings, pool: int | None) -> Contender:
    policy = resolved(settings, mode=None)
    fetch = replace(policy.fetch, exact=pool, cap=max(pool, policy.fetch.cap)) if pool else policy.fetch
    # A labelled set has one vector per item, and it has no name.
    return Contender(name=name, settings=settings, policy=replace(policy, fetch=fetch, vector=None))


def _read(given: str, base: PolicySettings) -> tuple[str, PolicySettings]:
    name, equals, text = given.partition("=")
    name = name.strip()
    if not equals or not name:
        raise SettingsError([Problem("--policy", one_line(repr(given)), f"NAME=VALUE, the value {WANTED}")])
    place = f"--policy {one_line(name)}"
    try:
        document = read(text)
    except NotYamlError as error:
        raise SettingsError([Problem(place, f"{error.seen} at {error.place or 'its start'}", WANTED)]) from error
    _raise(place, document.findings)
    return name, _laid(base, document.value, place=place)


def _laid(base: PolicySettings, change: object, *, place: str) -> PolicySettings:
    """``change`` over ``base``, judged as a rule of the settings file is. Raises SettingsError."""
    if isinstance(change, str):
        if change not in PRESETS:
            raise SettingsError([Problem(place, shown(change), instead_of(change) or WANTED)])
        rule: dict[str, object] = {"preset": change}
    elif isinstance(change, Mapping):
        rule = {"policy": dict(change)}
    else:
        raise SettingsError([Problem(place, shown(change), WANTED)])
    settings, findings = judged({"policy": base.model_dump(by_alias=True), "rules": (rule,)}, ())
    _raise(place, findings)
    return policy_of(settings.policy, RuleSettings.model_validate(rule))


def _raise(place: str, findings: Sequence[Finding]) -> None:
    if findings:
        raise SettingsError(
            Problem(f"{place}, {where}" if (where := _within(finding)) else place, finding.seen, finding.wanted)
            for finding in findings
        )


def _within(finding: Finding) -> str:
    """Its place inside what the user wrote, not inside the settings it was judged in."""
    path = finding.path
    return dotted(path[3:] if path[:1] == ("rules",) else path)


def _check_names(names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name == PLAIN:
            raise SettingsError([Problem("--policy", PLAIN, "another name: the plain answer is always there")])
        if name in names[:number]:
            raise SettingsError([Problem("--policy", f"{one_line(name)} twice", "a name of its own for each")])
