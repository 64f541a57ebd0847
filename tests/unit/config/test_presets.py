"""Presets, and how a rule's policy is put together."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from vecsieve.config.policy import (
    FetchSettings,
    FixedThreshold,
    GrowingThreshold,
    MmrSettings,
    PolicySettings,
    RelativeThreshold,
)
from vecsieve.config.presets import PRESETS, merged, own_members, policy_of
from vecsieve.config.schema import RuleSettings
from vecsieve.config.values import PresetName


def rule(**members: object) -> RuleSettings:
    return RuleSettings.model_validate(members)


def base(**members: object) -> PolicySettings:
    return PolicySettings.model_validate(members)


def test_the_names_that_the_schema_takes_are_the_presets() -> None:
    assert tuple(PRESETS) == get_args(PresetName)


@pytest.mark.parametrize(
    ("name", "distance"), [("conservative", 0.10), ("balanced", 0.15), ("aggressive", 0.20), ("heavy", 0.25)]
)
def test_a_classical_cut_changes_the_threshold_and_nothing_else(name: str, distance: float) -> None:
    policy = policy_of(PolicySettings(), rule(preset=name))
    assert policy.threshold == FixedThreshold(fixed=distance)
    assert policy.model_copy(update={"threshold": GrowingThreshold()}) == PolicySettings()


def test_classical_is_the_whole_classical_recipe() -> None:
    policy = policy_of(PolicySettings(), rule(preset="classical"))
    assert policy == base(
        fetch={"factor": 1.0, "floor": 50},
        linkage="average",
        threshold={"fixed": 0.15},
        when="always",
        representative="rank",
        mmr={"lambda": 0.5, "relevance": "raw", "similarity": "raw"},
        order="mmr",
        short="fill",
        distance="cosine",
        text=None,
        diversify=None,
    )


def test_a_rule_that_says_nothing_uses_the_policy() -> None:
    policy = base(linkage="single", mmr=None, fetch={"floor": 30})
    assert policy_of(policy, rule()) == policy


def test_the_policy_beats_defaults_the_preset_the_policy_and_the_rule_the_preset() -> None:
    policy = base(linkage="single", order="backend", short="allow", fetch={"floor": 30, "cap": 100})
    made = policy_of(policy, rule(preset="classical", policy={"order": "backend", "fetch": {"factor": 2.0}}))
    assert (made.linkage, made.order, made.short) == ("average", "backend", "fill")
    assert made.fetch == FetchSettings(factor=2.0, floor=50, cap=100, page_cap=1000)


def test_members_of_mmr_and_fetch_are_laid_on_one_by_one() -> None:
    made = policy_of(base(mmr={"relevance": "raw"}), rule(policy={"mmr": {"lambda": 0.1}, "fetch": {"cap": 99}}))
    assert made.mmr == MmrSettings.model_validate({"lambda": 0.1, "relevance": "raw", "similarity": "scaled"})
    assert made.fetch == FetchSettings(cap=99)


def test_a_threshold_is_replaced_whole() -> None:
    policy = base(threshold={"relative": 0.5, "min": 0.1, "max": 0.2})
    assert policy_of(policy, rule(policy={"threshold": {"max": 0.4}})).threshold == RelativeThreshold(max=0.4)
    assert policy_of(policy, rule(policy={"threshold": {"fixed": 0.4}})).threshold == FixedThreshold(fixed=0.4)


@pytest.mark.parametrize("none", [None, "none"])
def test_mmr_is_switched_off_by_a_rule_and_on_again_over_a_policy_without(none: object) -> None:
    assert policy_of(PolicySettings(), rule(policy={"mmr": none})).mmr is None
    assert policy_of(PolicySettings(), rule(preset="classical", policy={"mmr": none, "order": "backend"})).mmr is None
    assert policy_of(base(mmr=none), rule(policy={"mmr": {}})).mmr == MmrSettings()


def test_a_list_replaces_a_list() -> None:
    assert policy_of(base(text_fields=("a", "b")), rule(policy={"text_fields": ("c",)})).text_fields == ("c",)


def test_own_members_are_the_presets_under_the_rules() -> None:
    assert own_members(rule(preset="heavy", policy={"when": "always"})) == {
        "threshold": {"fixed": 0.25},
        "when": "always",
    }


def test_a_rule_that_no_loader_has_seen_is_refused_when_it_is_wrong() -> None:
    with pytest.raises(ValidationError):
        policy_of(PolicySettings(), rule(policy={"linkage": "ward"}))


def test_merging_leaves_both_sides_as_they_were() -> None:
    below: dict[str, object] = {"a": {"x": 1}, "b": 1}
    over: dict[str, object] = {"a": {"y": 2}, "c": {"z": 3}}
    result = merged(below, over)
    assert result == {"a": {"x": 1, "y": 2}, "b": 1, "c": {"z": 3}}
    assert (below, over) == ({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "c": {"z": 3}})
    assert result["c"] is not over["c"]
