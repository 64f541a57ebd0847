"""Which policies are compared, and that what cannot be one is told where the user wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.evaluate.searching import Contender, contenders
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Fixed, Short, Tier, When


def names(found: tuple[Contender, ...]) -> list[str]:
    return [each.name for each in found]


def told(*given: str, config: Path | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        contenders(given=given, config=config)
    return str(caught.value)


PRESETS = ["exact", "meaning", "vectors", "classical"]


def test_the_usual_ones_are_the_presets() -> None:
    found = contenders()
    assert names(found) == ["default", *PRESETS]
    default, exact, meaning, vectors, classical = (each.policy.selection for each in found)
    assert default == resolved(PolicySettings(), mode=None).selection
    assert [each.texts for each in (default, exact, meaning, vectors)] == [Tier.EDITED, Tier.EXACT, Tier.EDITED, None]
    assert (default.rewordings, meaning.rewordings is None) == (None, False)
    assert (classical.threshold, classical.when) == (Fixed(value=0.15), When.ALWAYS)
    assert isinstance(classical.diversifier, Mmr)


def test_a_configured_policy_is_compared_with_the_default_and_each_preset_over_it(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {threshold: {fixed: 0.07}, when: always, caps: {per_document: 3}}\n")
    found = contenders(config=config)
    assert names(found) == ["default", "configured", *PRESETS]
    default, configured, exact, meaning, *_ = (each.policy.selection for each in found)
    assert (default.threshold, default.caps.per_document) == (None, None)
    assert (configured.threshold, configured.caps.per_document) == (Fixed(value=0.07), 3)
    assert [each.policy.selection.caps.per_document for each in found[1:]] == [3] * 5
    assert (exact.threshold, exact.texts, meaning.texts) == (None, Tier.EXACT, Tier.EDITED)


def test_given_policies_are_laid_on_the_base_in_their_order(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {short: allow, when: always}\n")
    found = contenders(given=["old=classical", "now={}", "b = {when: redundant}"], config=config)
    assert names(found) == ["old", "now", "b"]
    assert [each.policy.selection.short for each in found] == [Short.FILL, Short.ALLOW, Short.ALLOW]
    assert [each.policy.selection.when for each in found] == [When.ALWAYS, When.ALWAYS, When.REDUNDANT]


def test_a_pool_is_exact_beyond_the_policy_s_own_bounds() -> None:
    made = contenders(given=["own={fetch: {cap: 50}}"], pool=300)[0].policy
    assert (made.exact_fetch, made.fetch.cap) == (300, 300)
    assert contenders(given=["own={}"])[0].policy.exact_fetch is None


@pytest.mark.parametrize("given_", ["", "classical", "=classical", " ={}"])
def test_what_has_no_name_is_told(given_: str) -> None:
    assert told(given_).startswith("--policy: wanted NAME=VALUE")


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("a=clasical", "--policy a: wanted a preset (default, exact, meaning, "),
        ("a={texts: equal}", "--policy a, texts: wanted "),
        ("a={certainty: 2}", "--policy a, certainty: wanted none, a number from 0 to 1, or {first: …, last: …}; saw 2"),
        ("a=[1]", "; saw [1]"),
        ("a=", "; saw null"),
        ("a=7", "; saw 7"),
        ("a={threshold: {fixed: 3}}", "--policy a, threshold.fixed: wanted "),
        ("a={treshold: {fixed: 0.1}}", "--policy a, treshold: "),
        ("a={when: sometimes, linkage: none}", "--policy a, when: "),
        ("a={when: [", "--policy a: wanted a preset"),
        ("a={when: always, when: always}", "--policy a, when: wanted the key once; saw it again"),
    ],
)
def test_what_is_no_policy_is_told_in_the_user_s_own_place(given_: str, expected: str) -> None:
    assert expected in told(given_)
    assert "rules" not in told(given_)


def test_every_fault_of_a_policy_is_told() -> None:
    assert told("a={when: sometimes, linkage: tight}").count("--policy a, ") == 2


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (("a={}", "b={}", "a=classical"), "--policy: wanted a name of its own for each; saw a twice"),
        (("plain={}",), "--policy: wanted another name: the plain answer is always included; saw plain"),
    ],
)
def test_two_of_one_name_are_told(given_: tuple[str, ...], expected: str) -> None:
    assert told(*given_) == expected


def test_a_settings_file_that_is_wrong_is_told_as_ever(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {when: sometimes}\n")
    assert told(config=config).startswith(f"{config}:1: policy.when: wanted ")


def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VECSIEVE_POLICY_WHEN", "always")
    monkeypatch.setenv("VECSIEVE_EVAL_DATA", str(tmp_path))
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {when: redundant}\n")
    assert contenders(config=config)[1].policy.selection.when is When.REDUNDANT


@given(st.text(max_size=40))
def test_any_text_is_a_policy_or_told(text: str) -> None:
    """Invariant: a contender of that name, or a SettingsError of printable lines."""
    try:
        found = names(contenders(given=[f"own={text}"]))
    except SettingsError as error:
        found = ["own"]
        lines = str(error).split("\n")
        assert all(line.isprintable() for line in lines), lines
    assert found == ["own"]
