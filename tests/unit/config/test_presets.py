"""Presets, and how a rule's policy is put together."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from vecsieve.config.policy import (
    CertaintySettings,
    FetchSettings,
    MmrSettings,
    PolicySettings,
    ThresholdSettings,
)
from vecsieve.config.presets import PRESETS, merged, policy_of, rule_members
from vecsieve.config.schema import RuleSettings
from vecsieve.config.values import PresetName


def rule(**members: object) -> RuleSettings:
    return RuleSettings.model_validate(members)


def base(**members: object) -> PolicySettings:
    return PolicySettings.model_validate(members)


def test_the_names_that_the_schema_takes_are_the_presets() -> None:
    assert tuple(PRESETS) == get_args(PresetName)


DECIDERS = {
    "default": ("edited", None, None, None),
    "exact": ("exact", None, None, None),
    "meaning": ("edited", 0.36, CertaintySettings(first=0.85, last=0.4), None),
    "vectors": (None, None, CertaintySettings(first=0.85, last=0.4), None),
    "classical": (None, None, None, ThresholdSettings(fixed=0.15)),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_replaces_all_that_decides_whatever_the_policy_says(name: str) -> None:
    for policy in (
        PolicySettings(),
        base(threshold={"fixed": 0.1}),
        base(certainty=0.5, rewordings=0.9),
        base(texts=None),
    ):
        made = policy_of(policy, rule(preset=name))
        assert (made.texts, made.rewordings, made.certainty, made.threshold) == DECIDERS[name]


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "classical"])
def test_a_preset_changes_nothing_but_what_decides(name: str) -> None:
    made = policy_of(PolicySettings(), rule(preset=name))
    deciders = {"texts": "edited", "rewordings": None, "certainty": None, "threshold": None}
    assert made.model_copy(update=deciders) == PolicySettings()


def test_the_default_is_the_policy_without_any_setting() -> None:
    assert policy_of(PolicySettings(), rule(preset="default")) == PolicySettings()


@pytest.mark.parametrize("name", PRESETS)
def test_a_rule_of_a_preset_keeps_to_the_members_that_it_gives(name: str) -> None:
    made = policy_of(PolicySettings(), rule(preset=name, policy={"certainty": 0.7, "threshold": {"fixed": 0.07}}))
    assert (made.certainty, made.threshold) == (CertaintySettings(first=0.7, last=0.7), ThresholdSettings(fixed=0.07))


@pytest.mark.parametrize("number", [0, 0.0, 0.5, 1, 1.0])
def test_a_certainty_of_one_number_is_the_same_everywhere(number: float) -> None:
    assert base(certainty=number).certainty == CertaintySettings(first=number, last=number)
    assert policy_of(PolicySettings(), rule(policy={"certainty": number})).certainty == base(certainty=number).certainty


@pytest.mark.parametrize(
    ("below", "above", "first", "last"),
    [
        ({"certainty": 0.9}, {"certainty": {"last": 0.5}}, 0.9, 0.5),
        ({"certainty": {"first": 0.8}}, {"certainty": {"last": 0.5}}, 0.8, 0.5),
        ({"certainty": {"first": 0.8, "last": 0.6}}, {"certainty": 0.7}, 0.7, 0.7),
        ({}, {"certainty": {"first": 0.3}}, 0.3, 0.4),
    ],
)
def test_members_of_certainty_are_laid_on_one_by_one(
    below: dict[str, object], above: dict[str, object], first: float, last: float
) -> None:
    assert policy_of(base(**below), rule(policy=above)).certainty == CertaintySettings(first=first, last=last)


def test_a_member_of_certainty_is_laid_on_the_preset_s() -> None:
    made = policy_of(base(certainty=0.2), rule(preset="vectors", policy={"certainty": {"last": 0.5}}))
    assert made.certainty == CertaintySettings(first=0.85, last=0.5)


@pytest.mark.parametrize("none", [None, "none"])
def test_a_rule_goes_back_from_a_threshold_to_the_calibrated_rule(none: object) -> None:
    assert policy_of(base(threshold={"fixed": 0.1}), rule(policy={"threshold": none})).threshold is None


def test_classical_is_the_whole_classical_recipe() -> None:
    policy = policy_of(PolicySettings(), rule(preset="classical"))
    assert policy == base(
        fetch={"factor": 1.0, "floor": 50},
        linkage="average",
        threshold={"fixed": 0.15},
        when="always",
        representative="rank",
        mmr={"lambda": 0.5, "scaled": False},
        order="mmr",
        short="fill",
        distance="cosine",
        texts=None,
        dpp=None,
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
    made = policy_of(base(mmr={"scaled": False}), rule(policy={"mmr": {"lambda": 0.1}, "fetch": {"cap": 99}}))
    assert made.mmr == MmrSettings.model_validate({"lambda": 0.1, "scaled": False})
    assert made.fetch == FetchSettings(cap=99)


def test_a_threshold_is_replaced_whole() -> None:
    policy = base(threshold={"relative": 0.5, "min": 0.1, "max": 0.2})
    assert policy_of(policy, rule(policy={"threshold": {"max": 0.4}})).threshold == ThresholdSettings(max=0.4)
    assert policy_of(policy, rule(policy={"threshold": {"fixed": 0.4}})).threshold == ThresholdSettings(fixed=0.4)


@pytest.mark.parametrize("none", [None, "none"])
def test_mmr_is_switched_off_by_a_rule_and_on_again_over_a_policy_without(none: object) -> None:
    assert policy_of(PolicySettings(), rule(policy={"mmr": none})).mmr is None
    assert policy_of(PolicySettings(), rule(preset="classical", policy={"mmr": none, "order": "backend"})).mmr is None
    assert policy_of(base(mmr=none), rule(policy={"mmr": {}})).mmr == MmrSettings()


def test_a_list_replaces_a_list() -> None:
    assert policy_of(base(text_fields=("a", "b")), rule(policy={"text_fields": ("c",)})).text_fields == ("c",)


def test_own_members_are_the_presets_under_the_rules() -> None:
    assert rule_members(rule(preset="exact", policy={"when": "always"})) == {
        "texts": "exact",
        "rewordings": None,
        "certainty": None,
        "threshold": None,
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
