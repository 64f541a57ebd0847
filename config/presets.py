"""Recipes by name, and how a rule's policy is put together: defaults < policy < preset < the rule's own members."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vecsieve.config.policy import PolicySettings
from vecsieve.config.schema import RuleSettings
from vecsieve.config.values import PresetName

Tree = Mapping[str, object]

# Half of a threshold means nothing beside half of another: a fixed cut over inherited relative bounds is a contradiction.
_REPLACED_WHOLE = frozenset({"threshold"})


def _fixed_cut(distance: float) -> Tree:
    return MappingProxyType({"threshold": {"fixed": distance}})


PRESETS: Mapping[PresetName, Tree] = MappingProxyType(
    {
        "conservative": _fixed_cut(0.10),
        "balanced": _fixed_cut(0.15),
        "aggressive": _fixed_cut(0.20),
        "heavy": _fixed_cut(0.25),
        # The recipe that most write-ups give, exactly, so that anyone can compare.
        "classical": MappingProxyType(
            {
                "fetch": {"factor": 1.0, "floor": 50},
                "linkage": "average",
                "threshold": {"fixed": 0.15},
                "when": "always",
                "representative": "rank",
                "mmr": {"lambda": 0.5, "relevance": "raw", "similarity": "raw"},
                "order": "mmr",
                "short": "fill",
                "distance": "cosine",
                "text": None,
                "diversify": None,
            }
        ),
        # No payload is read: for collections whose texts the proxy may not see, or that hold none.
        "vectors": MappingProxyType({"text": None}),
        # Short questions, opinions, tickets: many ways to say one thing, and no harm in a generous cut.
        "tickets": MappingProxyType({"threshold": {"relative": 0.40}, "diversify": "dpp", "diversity": 0.4}),
    }
)


def own_members(rule: RuleSettings) -> dict[str, object]:
    """What the rule decides itself: its preset's members under its own."""
    return merged({} if rule.preset is None else PRESETS[rule.preset], rule.policy)


def composed(base: PolicySettings, rule: RuleSettings) -> dict[str, object]:
    """The members of the rule's policy, not yet validated."""
    return merged(base.model_dump(by_alias=True), own_members(rule))


def policy_of(base: PolicySettings, rule: RuleSettings) -> PolicySettings:
    """The rule's policy. Raises pydantic's ValidationError; never for a rule of settings that were loaded."""
    return PolicySettings.model_validate(composed(base, rule))


def merged(base: Tree, over: Tree) -> dict[str, object]:
    """``over`` laid on ``base``: mappings member by member, thresholds and everything else whole."""
    tree = dict(base)
    for key, value in over.items():
        beneath = tree.get(key)
        if isinstance(value, Mapping) and isinstance(beneath, Mapping) and key not in _REPLACED_WHOLE:
            tree[key] = merged(beneath, value)
        else:
            tree[key] = dict(value) if isinstance(value, Mapping) else value
    return tree
