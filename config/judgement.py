"""A tree of settings judged whole: each member by itself, each rule's policy as it will be used, then all together.

What is wrong by itself is taken out before the rest is judged together: one slip neither hides another nor is told twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from vecsieve.config.contradiction import Contradiction
from vecsieve.config.contradictions import of_policy, of_rules, of_settings
from vecsieve.config.findings import pruned, validated
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import composed, own_members
from vecsieve.config.problems import Finding, Path
from vecsieve.config.schema import Settings

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
