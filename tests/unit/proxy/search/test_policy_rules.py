"""The rules of settings, and their exchange as a whole."""

from __future__ import annotations

from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Rules, RulesInForce


def rules(**settings: object) -> Rules:
    return Rules.of(Settings.model_validate(settings))


def test_they_say_what_the_settings_say() -> None:
    made = rules(
        report_header=False,
        shadow={"sample": 0.25},
        forbidden_overrides=("mode",),
        rules=({"collection": "c", "policy": {"mode": "off"}},),
    )
    assert (made.report_header, made.shadow_sample, made.forbidden_overrides) == (False, 0.25, ("mode",))
    assert made.policies.resolve("qdrant", "c").mode == "off"
    assert made.policies.resolve("qdrant", "d").mode == "on"


def test_a_reload_replaces_them_whole_and_who_began_with_the_old_ones_keeps_them() -> None:
    in_force = RulesInForce(rules(mode="off", shadow={"sample": 0.5}))
    begun = in_force.now
    in_force.now = rules(mode="shadow", shadow={"sample": 0.75})
    assert (begun.policies.resolve("qdrant", "c").mode, begun.shadow_sample) == ("off", 0.5)
    assert (in_force.now.policies.resolve("qdrant", "c").mode, in_force.now.shadow_sample) == ("shadow", 0.75)
