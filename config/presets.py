"""Presets, and how a rule's policy is composed: defaults < policy < preset < the rule's own members."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .policy import CertaintySettings, PolicySettings
from .schema import RuleSettings
from .values import PresetName

Tree = Mapping[str, object]

# Members of two kinds of threshold do not combine: a fixed cut with inherited relative bounds would be contradictory.
_REPLACED_WHOLE = frozenset({"threshold"})


# What every preset decides, so that a preset replaces all of it.
_DECIDERS: dict[str, object] = {"texts": None, "rewordings": None, "certainty": None, "threshold": None}

PRESETS: Mapping[PresetName, Tree] = MappingProxyType(
    {
        # A result leaves only if the results that stay say all of it.
        "default": MappingProxyType(_DECIDERS | {"texts": "edited"}),
        # The rule of final deletions: the whole text is one piece of one result that stays.
        "exact": MappingProxyType(_DECIDERS | {"texts": "exact"}),
        # Also what says the same in other words: for interchangeable items, such as utterances and opinions.
        "meaning": MappingProxyType(
            _DECIDERS | {"texts": "edited", "rewordings": 0.36, "certainty": CertaintySettings().model_dump()}
        ),
        # Reads no text: for collections without texts, or with texts that the proxy must not see.
        "vectors": MappingProxyType(_DECIDERS | {"texts": None, "certainty": CertaintySettings().model_dump()}),
        # The recipe of most articles, exactly, for comparison.
        "classical": MappingProxyType(
            {
                "fetch": {"factor": 1.0, "floor": 50},
                "linkage": "average",
                "threshold": {"fixed": 0.15},
                "when": "always",
                "representative": "rank",
                "mmr": {"lambda": 0.5, "scaled": False},
                "order": "mmr",
                "short": "fill",
                "distance": "cosine",
                "texts": None,
                "rewordings": None,
                "certainty": None,
                "dpp": None,
            }
        ),
    }
)


def rule_members(rule: RuleSettings) -> dict[str, object]:
    return merged({} if rule.preset is None else PRESETS[rule.preset], rule.policy)


def composed(base: PolicySettings, rule: RuleSettings) -> dict[str, object]:
    """The members of the rule's policy, not yet validated."""
    return merged(base.model_dump(by_alias=True), rule_members(rule))


def policy_of(base: PolicySettings, rule: RuleSettings) -> PolicySettings:
    """Raises pydantic's ValidationError, but never for a rule of loaded settings."""
    return PolicySettings.model_validate(composed(base, rule))


def merged(base: Tree, over: Tree) -> dict[str, object]:
    """``over`` overlaid on ``base``: mappings member by member, thresholds and other values as a whole."""
    tree = dict(base)
    for key, value in over.items():
        beneath = tree.get(key)
        if isinstance(value, Mapping) and isinstance(beneath, Mapping) and key not in _REPLACED_WHOLE:
            tree[key] = merged(beneath, value)
        else:
            tree[key] = dict(value) if isinstance(value, Mapping) else value
    return tree
