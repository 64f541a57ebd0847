"""The settings as a table, and guesses at what a name was meant to be."""

from __future__ import annotations

import pytest

from vecsieve.config.fields import closest, expected_of, is_mapping, leaves, members, model_in, suggestion
from vecsieve.config.policy import (
    CertaintySettings,
    FetchSettings,
    MmrSettings,
    PolicySettings,
    ThresholdSettings,
)
from vecsieve.config.schema import LimitSettings, PineconeSettings, RuleSettings, Settings, UpstreamSettings


def test_leaves_are_scalars_with_their_kinds() -> None:
    kinds = {".".join(leaf.path): (leaf.kind, leaf.nullable) for leaf in leaves()}
    assert kinds["listen"] == ("text", False)
    assert kinds["workers"] == ("int", False)
    assert kinds["mode"] == ("text", True)
    assert kinds["report_header"] == ("bool", False)
    assert kinds["limits.drain_seconds"] == ("float", False)
    assert kinds["policy.mmr"] == ("none", True)
    assert kinds["policy.mmr.lambda"] == ("float", False)
    assert kinds["policy.threshold.fixed"] == ("float", True)
    assert kinds["policy.threshold"] == ("none", True)
    assert kinds["policy.certainty"] == ("none", True)
    assert kinds["policy.certainty.first"] == kinds["policy.certainty.last"] == ("float", False)
    assert kinds["policy.vector"] == ("text", True)
    assert not {"rules", "policy.tenant_keys", "policy.text_fields", "policy.fetch"} & kinds.keys()


def test_members_have_the_names_that_users_write() -> None:
    assert list(members(MmrSettings)) == ["lambda", "scaled"]


def test_the_model_of_a_choice_is_found() -> None:
    threshold = members(PolicySettings)["threshold"].annotation
    assert model_in(threshold) is ThresholdSettings
    assert model_in(members(PolicySettings)["certainty"].annotation) is CertaintySettings
    assert model_in(members(Settings)["rules"].annotation) is RuleSettings
    assert model_in(members(PolicySettings)["mmr"].annotation) is MmrSettings
    assert model_in(members(Settings)["mode"].annotation) is None


@pytest.mark.parametrize(
    ("model", "name", "phrase"),
    [
        (Settings, "mode", "on, shadow, off or none"),
        (Settings, "backend", "qdrant, pinecone, chroma, milvus, weaviate, opensearch or elasticsearch"),
        (Settings, "workers", "a whole number from 1 to 256"),
        (Settings, "rules", "a list"),
        (Settings, "limits", "a mapping"),
        (FetchSettings, "factor", "a number from 1 to 50"),
        (UpstreamSettings, "pool_idle_seconds", "a number above 0, at most 86400"),
        (LimitSettings, "drain_seconds", "a number from 0 to 86400"),
        (PolicySettings, "when", "redundant or always"),
        (PolicySettings, "vector", "text or none"),
        (PolicySettings, "certainty", "none, a number from 0 to 1, or {first: …, last: …}"),
        (PolicySettings, "threshold", "{fixed: …} or {relative: …, min: …, max: …} or none"),
        (CertaintySettings, "first", "a number from 0 to 1"),
        (RuleSettings, "policy", "a mapping"),
    ],
)
def test_what_is_requested_follows_from_the_type(model: type[Settings], name: str, phrase: str) -> None:
    assert expected_of(members(model)[name]) == phrase


@pytest.mark.parametrize(
    ("key", "guess"),
    [
        ("conections", "connections"),
        ("connection", "connections"),
        ("drain_seconds", "drain_seconds"),
        ("factor", "policy.fetch.factor"),
        ("lambda", "policy.mmr.lambda"),
        ("stream_idle_timeout_seconds", "stream_idle_timeout_seconds"),
        ("zzz", None),
        ("", None),
        ("x" * 100_000, None),
    ],
)
def test_a_sibling_that_looks_alike_or_the_same_name_elsewhere_is_suggested(key: str, guess: str | None) -> None:
    assert suggestion(key, list(members(LimitSettings))) == guess


@pytest.mark.parametrize(("name", "is_one"), [("index_ports", True), ("allowed_hosts", False), ("index_host", False)])
def test_a_mapping_whose_keys_are_the_users_own_is_told_from_a_list(name: str, is_one: bool) -> None:
    assert is_mapping(members(PineconeSettings)[name]) is is_one


def test_a_name_that_exists_in_two_other_places_is_not_guessed() -> None:
    assert suggestion("in_flight", ["listen"]) is None


def test_the_closest_name_wins() -> None:
    assert closest("VECSIEVE_LISTN", ["VECSIEVE_ADMIN", "VECSIEVE_LISTEN"]) == "VECSIEVE_LISTEN"
