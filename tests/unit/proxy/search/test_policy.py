"""Rules are read from the top, whole names are matched, and the answer is the same object every time."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from support.selection.policies import ONE_A_CLUSTER
from vecsieve.config import values as written
from vecsieve.config.backends import KNOWN_TEXTS
from vecsieve.config.policy import FetchSettings, MetadataSettings, SessionSettings, WriteSettings
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.context.overrides import parse
from vecsieve.proxy.search.context.tokens import TextBudget, estimated
from vecsieve.proxy.search.policy import MOST_REMEMBERED, Policies, ResolvedPolicy, Rules, RulesInForce
from vecsieve.proxy.selection.diversifiers.dpp import Dpp
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import (
    Distance,
    Fixed,
    Linkage,
    Order,
    Overlap,
    Policy,
    Short,
    Strategy,
    Tie,
    Tier,
    When,
)
from vecsieve.proxy.telemetry.labels import RuleLabel

INSIDE = ("metadata", "meta", "metadatas", "payload")  # where loaders keep what they know of a document
SOURCES, TIMES = (
    [name for name in names if "." not in name] for names in (MetadataSettings().source, MetadataSettings().updated)
)


def policies(**settings: object) -> Policies:
    return Policies(Settings.model_validate(settings))


def resolve(collection: str = "docs", **settings: object) -> ResolvedPolicy:
    return policies(**settings).resolve("qdrant", collection)


def test_a_policy_knows_the_name_of_its_rule_or_that_it_has_none() -> None:
    rules = ({"collection": "docs-*", "name": "manuals"}, {"collection": "x"})
    labels = [resolve(collection, rules=rules).rule for collection in ("docs-eu", "x", "y")]
    assert labels == ["manuals", RuleLabel.UNNAMED, RuleLabel.DEFAULT]
    overridden = parse([("x-vecsieve-certainty", "0.9")], (), resolve("docs-eu", rules=rules))
    assert overridden.rule == "manuals"


def test_the_default_policy_reaches_selection_number_for_number() -> None:
    assert resolve() == ResolvedPolicy(
        mode="on",
        fetch=FetchSettings(),
        selection=Policy(
            texts=Tier.EDITED,
            rewordings=None,
            linkage=Linkage.LEADER,
            threshold=None,
            chance=2.5e-6,
            when=When.REDUNDANT,
            representative=Strategy.RANK,
            diversifier=None,
            order=Order.BACKEND,
            short=Short.GROW_THEN_FILL,
            overlap=Overlap.KEEP,
            distance=Distance.AUTO,
            keep_sources=(),
            chain=tuple(Tie),
            authority=(),
            caps=ONE_A_CLUSTER,
        ),
        tenant_keys=(),
        text_fields=(),
        guesses=KNOWN_TEXTS,
        metadata=MetadataSettings(),
        vector=None,
        write=WriteSettings(),
        session=SessionSettings(),
        budget=TextBudget(None, (), estimated),
    )


def test_classical_reaches_selection_number_for_number() -> None:
    resolved = resolve(rules=({"preset": "classical"},))
    assert resolved.fetch == FetchSettings(factor=1.0, floor=50)
    assert resolved.selection == Policy(
        texts=None,
        rewordings=None,
        linkage=Linkage.AVERAGE,
        threshold=Fixed(value=0.15),
        chance=2.5e-6,
        when=When.ALWAYS,
        representative=Strategy.RANK,
        diversifier=Mmr(weight=0.5, is_scaled=False),
        order=Order.MMR,
        short=Short.FILL,
        overlap=Overlap.KEEP,
        distance=Distance.COSINE,
        keep_sources=(),
        chain=tuple(Tie),
        authority=(),
        caps=ONE_A_CLUSTER,
    )


@pytest.mark.parametrize(
    ("literal", "enumeration"), [(written.Linkage, Linkage), (written.Representative, Strategy), (written.Tie, Tie)]
)
def test_the_words_of_the_settings_are_the_words_of_selection(literal: object, enumeration: type[StrEnum]) -> None:
    """`newest` is another word for a chain of one step."""
    assert [word for word in get_args(literal) if word != "newest"] == [member.value for member in enumeration]


def test_mmr_none_and_zero_are_different_things() -> None:
    assert resolve(policy={"mmr": None}).selection.diversifier is None
    assert resolve(policy={"mmr": {}}).selection.diversifier == Mmr(weight=0.7, is_scaled=True)
    switched = resolve(policy={"mmr": {"lambda": 0.0}, "threshold": {"fixed": 0.0}}).selection
    assert isinstance(switched.diversifier, Mmr)
    assert switched.diversifier.weight == 0.0
    assert switched.threshold == Fixed(value=0.0)


RULES = (
    {"collection": "docs-eu", "policy": {"vector": "first"}},
    {"collection": "docs-*", "policy": {"vector": "second"}},
    {"backend": "other*", "policy": {"vector": "third"}},
    {"collection": "[ab]?", "policy": {"vector": "fourth"}},
)


@pytest.mark.parametrize(
    ("backend", "collection", "vector"),
    [
        ("qdrant", "docs-eu", "first"),
        ("qdrant", "docs-us", "second"),
        ("qdrant", "docs-", "second"),
        ("qdrant", "my-docs-us", None),
        ("qdrant", "Docs-us", None),
        ("other-one", "anything", "third"),
        ("qdrant", "b1", "fourth"),
        ("qdrant", "b12", None),
        ("qdrant", "b\n", "fourth"),
        ("qdrant", "docs-eu\n", "second"),
        ("qdrant", "", None),
    ],
)
def test_the_first_rule_that_matches_both_names_whole_decides(
    backend: str, collection: str, vector: str | None
) -> None:
    assert policies(rules=RULES).resolve(backend, collection).vector == vector


def test_the_settings_mode_beats_every_policys() -> None:
    settings = {"policy": {"mode": "off"}, "rules": ({"collection": "a", "policy": {"mode": "shadow"}},)}
    assert [resolve(name, **settings).mode for name in ("a", "b")] == ["shadow", "off"]
    assert [resolve(name, mode="on", **settings).mode for name in ("a", "b")] == ["on", "on"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"texts": "none"}, ()),
        ({"texts": "none", "representative": "longest"}, ("t",)),
        ({}, ("t",)),
        ({"texts": "none", "caps": {"per_document": 1}}, ("doc_id", "document_id", *INSIDE)),
        ({"texts": "none", "caps": {"per_source": 1}}, (*SOURCES, *INSIDE)),
        ({"texts": "none", "keep_sources": ("a",)}, (*SOURCES, *INSIDE)),
        ({"texts": "none", "representative": "chain", "chain": ("recency",)}, (*TIMES, *INSIDE)),
        ({"texts": "none", "representative": "newest"}, (*TIMES, *INSIDE)),
        ({"texts": "none", "collapsed": "payload"}, (*SOURCES, *INSIDE)),
        ({"texts": "none", "collapsed": "header"}, ()),
        ({"texts": "none", "representative": "chain", "chain": ("authority",)}, ()),
        (
            {"texts": "none", "representative": "chain", "chain": ("authority",), "authority": ("a",)},
            (*SOURCES, *INSIDE),
        ),
        ({"texts": "none", "representative": "chain", "chain": ("citations",)}, ("citations", "url", "title")),
        ({"texts": "none", "chain": ("citations",)}, ()),
        (
            {"texts": "none", "representative": "chain", "chain": ("shorter",)},
            ("t", "token_start", "token_end", "chunk_index"),
        ),
        (
            {
                "texts": "none",
                "metadata": {"source": ("metadata.source", "metadata.origin")},
                "caps": {"per_source": 2},
            },
            ("metadata",),
        ),
    ],
)
def test_only_what_a_policy_looks_at_is_fetched(policy: dict[str, object], expected: tuple[str, ...]) -> None:
    assert resolve(policy={"text_fields": ("t",), **policy}).with_texts(()).fields.heads == expected


def test_a_determinantal_point_process_takes_the_place_of_mmr() -> None:
    assert resolve(policy={"dpp": 0.0}).selection.diversifier == Dpp(diversity=0.0)
    assert isinstance(resolve(policy={"mmr": {}}).selection.diversifier, Mmr)


def test_a_collection_gets_the_same_object_every_time() -> None:
    made = policies(rules=RULES)
    assert made.resolve("qdrant", "docs-us") is made.resolve("qdrant", "docs-us")
    assert made.resolve("qdrant", "docs-us") is made.resolve("qdrant", "docs-uk")
    assert policies().resolve("qdrant", "a") == policies().resolve("qdrant", "b")


def test_what_is_remembered_is_bounded_and_forgetting_changes_no_answer() -> None:
    made = policies(rules=RULES)
    first = made.resolve("qdrant", "docs-us")
    for number in range(2 * MOST_REMEMBERED):
        made.resolve("qdrant", f"invented-{number}")
    assert len(made._remembered) == MOST_REMEMBERED
    assert made.resolve("qdrant", "docs-us") is first


def test_a_resolved_policy_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve().mode = "off"  # type: ignore[misc]  # - that it is refused is the point


def test_a_wrong_rule_that_no_loader_has_seen_is_refused_when_it_is_needed() -> None:
    made = policies(rules=({"policy": {"linkage": "ward"}},))
    with pytest.raises(ValidationError):
        made.resolve("qdrant", "docs")


@given(
    patterns=st.lists(st.text(alphabet="ab*?[]!-\n", min_size=1, max_size=6), min_size=1, max_size=4),
    name=st.text(alphabet="ab*?[]!-\n", max_size=6),
)
def test_any_globs_decide_as_fnmatchcase_does(patterns: list[str], name: str) -> None:
    """Invariant: the policy is that of the first pattern that fnmatchcase accepts, else the default."""
    rules = tuple({"collection": pattern, "policy": {"vector": str(n)}} for n, pattern in enumerate(patterns))
    expected = next((str(n) for n, pattern in enumerate(patterns) if fnmatchcase(name, pattern)), None)
    made = policies(rules=rules)
    assert made.resolve("qdrant", name).vector == expected
    assert made.resolve("qdrant", name).vector == expected


def test_vectors_are_looked_up_only_where_a_policy_says_so() -> None:
    made = policies(backend="pinecone", rules=({"collection": "texts", "policy": {"fetch": {"integrated": "fetch"}}},))
    assert [made.resolve("pinecone", name).fetch.integrated == "fetch" for name in ("texts", "other")] == [True, False]


def test_pools_begin_smaller_where_reply_bytes_are_billed_unless_said_otherwise() -> None:
    def factor(**members: object) -> float:
        made = Policies(Settings.model_validate(members))
        return made.resolve(str(members.get("backend", "qdrant")), "c").fetch.factor

    assert factor() == 5.0
    assert factor(backend="pinecone") == 2.0
    assert factor(backend="pinecone", policy={"fetch": {"factor": 3.0}}) == 3.0
    assert factor(backend="pinecone", rules=({"policy": {"fetch": {"factor": 4.0}}},)) == 4.0


# The rules of settings, and their exchange as a whole.


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
