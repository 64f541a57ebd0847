"""Everything is judged as far as it can be: one slip neither hides another nor is told twice."""

from __future__ import annotations

import pytest

from vecsieve.config.contradictions import of_policy, of_rules, of_settings
from vecsieve.config.load import judged
from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import Finding, dotted
from vecsieve.config.schema import RuleSettings, Settings


def paths(tree: dict[str, object], *known: Finding) -> list[str]:
    return [dotted(finding.path) for finding in judged(tree, known)[1]]


def test_a_sound_tree_has_no_findings_and_gives_its_settings() -> None:
    settings, findings = judged({"workers": 2, "policy": {"when": "always"}}, ())
    assert findings == ()
    assert settings == Settings(workers=2, policy=PolicySettings(when="always"))


def test_a_contradiction_is_told_although_something_else_is_wrong() -> None:
    assert paths({"workers": 0, "policy": {"fetch": {"floor": 300}}}) == ["workers", "policy.fetch.floor"]


def test_a_contradiction_with_a_wrong_value_is_not_told() -> None:
    assert paths({"policy": {"fetch": {"floor": 300, "cap": "many"}}}) == ["policy.fetch.cap"]
    assert paths({"listen": "nowhere", "admin": "127.0.0.1:6343"}) == ["listen"]


def test_a_contradiction_of_the_policy_is_told_once_and_not_for_every_rule() -> None:
    rules = ({"collection": "a"}, {"collection": "b", "policy": {"linkage": "single"}})
    assert paths({"policy": {"fetch": {"floor": 300}}, "rules": rules}) == ["policy.fetch.floor"]


def test_a_rule_may_heal_a_contradiction_but_not_hide_it() -> None:
    rules = ({"collection": "a", "policy": {"fetch": {"floor": 30}}},)
    assert paths({"policy": {"fetch": {"floor": 300}}, "rules": rules}) == ["policy.fetch.floor"]


def test_a_rule_that_contradicts_the_policy_is_told_at_the_rule() -> None:
    rules = ({"collection": "a", "policy": {"order": "mmr"}}, {"collection": "b"})
    assert paths({"policy": {"mmr": None}, "rules": rules}) == ["rules[0].policy.order"]


def test_a_rule_that_leans_on_a_wrong_value_of_the_policy_is_not_accused() -> None:
    rules = ({"collection": "a", "policy": {"fetch": {"floor": 300}}},)
    assert paths({"policy": {"fetch": {"cap": "many"}}, "rules": rules}) == ["policy.fetch.cap"]


def test_a_rule_that_decides_all_itself_is_judged_although_the_policy_is_wrong() -> None:
    rules = ({"collection": "a", "policy": {"order": "mmr", "mmr": "none"}},)
    tree: dict[str, object] = {"policy": {"mmr": {"lambda": 7}}, "rules": rules}
    assert paths(tree) == ["policy.mmr.lambda", "rules[0].policy.order"]


def test_wrong_rules_keep_the_numbers_of_those_behind_them() -> None:
    rules = (5, {"collection": "a", "policy": {"when": "never"}}, {"colection": "b"}, {"policy": {"short": 1}})
    assert paths({"rules": rules}) == [
        "rules[0]",
        "rules[2].colection",
        "rules[1].policy.when",
        "rules[3].policy.short",
    ]


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
    found = list(of_rules((RuleSettings(collection=earlier), RuleSettings(collection=later))))
    assert bool(found) is hidden


def test_a_rule_is_hidden_only_when_its_backend_is_too() -> None:
    hidden = (RuleSettings(backend="q*"), RuleSettings(backend="qdrant", collection="a"))
    open_to_others = (RuleSettings(backend="qdrant"), RuleSettings(backend="*", collection="a"))
    assert list(of_rules(hidden))
    assert not list(of_rules(open_to_others))


def test_the_first_rule_that_hides_another_is_named() -> None:
    rules = (RuleSettings(collection="a"), RuleSettings(), RuleSettings(collection="a"))
    assert [found.finding.expected.split(" matches")[0][-8:] for found in of_rules(rules)] == ["rules[0]"]


def test_the_first_is_named_whether_it_is_a_pattern_or_a_name() -> None:
    patterns = ("a*", "b", "ab", "b*", "b", "ab", "bc")
    found = of_rules(tuple(RuleSettings(collection=each) for each in patterns))
    named = [(dotted(each.finding.path), each.finding.expected.split(": ")[1].split(" ")[0]) for each in found]
    assert named == [
        ("rules[2]", "rules[0]"),
        ("rules[4]", "rules[1]"),
        ("rules[5]", "rules[0]"),
        ("rules[6]", "rules[3]"),
    ]


@pytest.mark.parametrize("bounds", [{"min": 0.1, "max": 0.1}, {"fixed": 0.0}, {"min": 0.0, "max": 2.0}])
def test_bounds_that_meet_are_no_contradiction(bounds: dict[str, float]) -> None:
    assert not list(of_policy(PolicySettings.model_validate({"threshold": bounds})))


def test_ports_picked_by_the_system_are_no_contradiction() -> None:
    assert not list(of_settings(Settings(listen="127.0.0.1:0", admin="127.0.0.1:0")))


def test_an_upstream_that_is_the_admin_port_is_a_contradiction() -> None:
    tree = {"upstream": {"url": "http://127.0.0.1:9464"}}
    assert [dotted(found.finding.path) for found in of_settings(Settings.model_validate(tree))] == ["upstream.url"]


@pytest.mark.parametrize("listen", ["0.0.0.0:9466", "[::]:9466", "10.0.0.1:9466", "api.example.com:9466"])
def test_an_api_that_others_can_reach_needs_a_token(listen: str) -> None:
    open_to_all = Settings.model_validate({"api": {"listen": listen}})
    found = list(of_settings(open_to_all))
    assert [dotted(each.finding.path) for each in found] == ["api.listen"]
    assert found[0].finding.expected == "an address on loopback, because api.token_file is none"
    with_token = Settings.model_validate({"api": {"listen": listen, "token_file": "/run/token"}})
    assert not list(of_settings(with_token))


def test_an_api_on_a_port_that_is_taken_or_is_the_database_is_a_contradiction() -> None:
    for tree, path in (
        ({"api": {"listen": "127.0.0.1:9464"}}, "api.listen"),
        ({"api": {"listen": "127.0.0.1:6333"}}, "upstream.url"),
    ):
        assert [dotted(each.finding.path) for each in of_settings(Settings.model_validate(tree))] == [path]


@pytest.mark.parametrize("name", ["listen", "upstream"])
def test_a_backend_without_grpc_has_no_address_for_it(name: str) -> None:
    (found,) = of_settings(Settings.model_validate({"backend": "chroma", "grpc": {name: "127.0.0.1:50051"}}))
    assert found.finding.path == ("grpc", name)
    assert found.finding.expected == "none, because chroma has no gRPC"


def test_a_tokenizer_whose_library_is_missing_is_told_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecsieve.config.contradictions.find_spec", lambda _name: None)
    _, findings = judged({"policy": {"budget": {"tokenizer": "o200k_base"}}}, ())
    assert [(dotted(finding.path), finding.expected) for finding in findings] == [
        (
            "policy.budget.tokenizer",
            "none: tiktoken is not installed; it comes with the extra tokens: in a checkout, pip install '.[tokens]'",
        )
    ]
    assert judged({"policy": {"budget": {"tokens": 100}}}, ())[1] == ()


def test_rewordings_without_texts_are_a_contradiction() -> None:
    _, findings = judged({"policy": {"rewordings": 0.3, "texts": None}}, ())
    assert [(dotted(finding.path), finding.expected) for finding in findings] == [
        ("policy.rewordings", "none, because texts is none and rewordings are read in texts")
    ]
    assert judged({"policy": {"rewordings": 0.3}}, ())[1] == ()


def test_a_certainty_beside_a_threshold_is_a_contradiction_in_a_rule_that_inherits_it_too() -> None:
    rules = ({"collection": "a", "policy": {"certainty": 0.9}},)
    _, findings = judged({"policy": {"threshold": {"fixed": 0.1}}, "rules": rules}, ())
    assert [(dotted(finding.path), finding.expected) for finding in findings] == [
        (
            "rules[0].policy.certainty",
            "none, because threshold decides where there are no texts: leave one of the two out",
        )
    ]
    for preset in ("default", "exact", "meaning", "vectors"):
        assert judged({"policy": {"threshold": {"fixed": 0.1}}, "rules": ({"preset": preset},)}, ())[1] == ()
