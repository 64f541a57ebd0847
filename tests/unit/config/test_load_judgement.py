"""Everything is judged as far as it can be: one slip neither hides another nor is told twice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from vecsieve.config.contradictions import of_rules, of_settings
from vecsieve.config.load import judged
from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import Finding, dotted
from vecsieve.config.schema import RuleSettings, Settings


def paths(tree: dict[str, object], *known: Finding) -> list[str]:
    return [dotted(finding.path) for finding in judged(tree, known)[1]]


def rules(*policies: Mapping[str, object]) -> tuple[dict[str, object], ...]:
    return tuple({"collection": f"c{number}", "policy": policy} for number, policy in enumerate(policies))


def test_a_sound_tree_has_no_findings_and_gives_its_settings() -> None:
    settings, findings = judged({"workers": 2, "policy": {"when": "always"}}, ())
    assert findings == ()
    assert settings == Settings(workers=2, policy=PolicySettings(when="always"))


FLOOR = {"fetch": {"floor": 300}}
JUDGED: dict[str, tuple[dict[str, object], list[str]]] = {
    "a contradiction although something else is wrong": (
        {"workers": 0, "policy": FLOOR},
        ["workers", "policy.fetch.floor"],
    ),
    "none with a wrong value": ({"policy": {"fetch": {"floor": 300, "cap": "many"}}}, ["policy.fetch.cap"]),
    "none with a wrong address": ({"listen": "nowhere", "admin": "127.0.0.1:6343"}, ["listen"]),
    "one of the policy once, not for every rule": (
        {"policy": FLOOR, "rules": rules({}, {"linkage": "single"})},
        ["policy.fetch.floor"],
    ),
    "a rule heals it, but does not hide it": (
        {"policy": FLOOR, "rules": rules({"fetch": {"floor": 30}})},
        ["policy.fetch.floor"],
    ),
    "a rule against the policy, at the rule": (
        {"policy": {"mmr": None}, "rules": rules({"order": "mmr"}, {})},
        ["rules[0].policy.order"],
    ),
    "a rule that leans on a wrong value is not accused": (
        {"policy": {"fetch": {"cap": "many"}}, "rules": rules(FLOOR)},
        ["policy.fetch.cap"],
    ),
    "a rule that decides all itself is": (
        {"policy": {"mmr": {"lambda": 7}}, "rules": rules({"order": "mmr", "mmr": "none"})},
        ["policy.mmr.lambda", "rules[0].policy.order"],
    ),
    "wrong rules keep the numbers of those behind them": (
        {"rules": (5, {"collection": "a", "policy": {"when": "never"}}, {"colection": "b"}, {"policy": {"short": 1}})},
        ["rules[0]", "rules[2].colection", "rules[1].policy.when", "rules[3].policy.short"],
    ),
    "an upstream that is the admin port": ({"upstream": {"url": "http://127.0.0.1:9464"}}, ["upstream.url"]),
    "an API on a port that is taken": ({"api": {"listen": "127.0.0.1:9464"}}, ["api.listen"]),
    "an API that is the database": ({"api": {"listen": "127.0.0.1:6333"}}, ["upstream.url"]),
    "ports picked by the system": ({"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"}, []),
    "bounds that meet": ({"policy": {"threshold": {"min": 0.1, "max": 0.1}}}, []),
    "a cut at nought": ({"policy": {"threshold": {"fixed": 0.0}}}, []),
    "bounds at their ends": ({"policy": {"threshold": {"min": 0.0, "max": 2.0}}}, []),
    "rewordings of texts": ({"policy": {"rewordings": 0.3}}, []),
    "presets beside a cut of the policy": (
        {
            "policy": {"threshold": {"fixed": 0.1}},
            "rules": tuple(
                {"collection": preset, "preset": preset} for preset in ("default", "exact", "meaning", "vectors")
            ),
        },
        [],
    ),
}


@pytest.mark.parametrize(("tree", "expected"), JUDGED.values(), ids=JUDGED)
def test_each_slip_is_told_once_and_hides_no_other(tree: dict[str, object], expected: list[str]) -> None:
    assert paths(tree) == expected


def test_what_is_known_to_be_wrong_is_not_told_again() -> None:
    known = Finding(("workers",), "x", "y")
    assert paths({"workers": "x"}, known) == ["workers"]
    standing = Finding(("workers",), "it again", "the key once", stands=True)
    assert paths({"workers": "x"}, standing) == ["workers", "workers"]


@pytest.mark.parametrize(
    ("earlier", "later", "hidden"),
    [
        ("*", "docs", True),
        ("docs", "docs", True),
        ("docs-*", "docs-*", True),
        ("docs-*", "docs-eu", True),
        ("docs-*", "docs-e*", False),  # true, but not provable by looking
        ("docs", "*", False),
        ("Docs", "docs", False),
    ],
)
def test_a_rule_is_hidden_when_that_is_certain(earlier: str, later: str, hidden: bool) -> None:
    slips = list(of_rules((RuleSettings(collection=earlier), RuleSettings(collection=later))))
    assert bool(slips) is hidden


def test_a_rule_is_hidden_only_when_its_backend_is_too() -> None:
    hidden = (RuleSettings(backend="q*"), RuleSettings(backend="qdrant", collection="a"))
    open_to_others = (RuleSettings(backend="qdrant"), RuleSettings(backend="*", collection="a"))
    assert list(of_rules(hidden))
    assert not list(of_rules(open_to_others))


def test_the_first_rule_that_hides_another_is_named() -> None:
    rules = (RuleSettings(collection="a"), RuleSettings(), RuleSettings(collection="a"))
    assert [slip.finding.expected.split(" matches")[0][-8:] for slip in of_rules(rules)] == ["rules[0]"]


def test_the_first_is_named_whether_it_is_a_pattern_or_a_name() -> None:
    patterns = ("a*", "b", "ab", "b*", "b", "ab", "bc")
    slips = of_rules(tuple(RuleSettings(collection=pattern) for pattern in patterns))
    named = [(dotted(slip.finding.path), slip.finding.expected.split(": ")[1].split(" ")[0]) for slip in slips]
    assert named == [
        ("rules[2]", "rules[0]"),
        ("rules[4]", "rules[1]"),
        ("rules[5]", "rules[0]"),
        ("rules[6]", "rules[3]"),
    ]


@pytest.mark.parametrize("listen", ["0.0.0.0:9466", "[::]:9466", "10.0.0.1:9466", "api.example.com:9466"])
def test_an_api_that_others_can_reach_needs_a_token(listen: str) -> None:
    open_to_all = Settings.model_validate({"api": {"listen": listen}})
    slips = list(of_settings(open_to_all))
    assert [dotted(slip.finding.path) for slip in slips] == ["api.listen"]
    assert slips[0].finding.expected == "an address on loopback, because api.token_file is none"
    with_token = Settings.model_validate({"api": {"listen": listen, "token_file": "/run/token"}})
    assert not list(of_settings(with_token))


def test_a_tokenizer_whose_library_is_missing_is_told_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecsieve.config.contradictions.find_spec", lambda _name: None)
    _, findings = judged({"policy": {"budget": {"tokenizer": "o200k_base"}}}, ())
    assert [(dotted(finding.path), finding.expected) for finding in findings] == [
        (
            "policy.budget.tokenizer",
            "none: tiktoken is not installed; it comes with the extra tokens: in a checkout, pip install -e '.[tokens]'",
        )
    ]
    assert judged({"policy": {"budget": {"tokens": 100}}}, ())[1] == ()
