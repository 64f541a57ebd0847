""""""

from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.control import configured, for_model, from_schema, from_spec
from servers.pinecone.errors import RefusalError

from support.emulated import ARTICLES, EMBED, SERVERLESS

POD = {"pod": {"environment": "us-east1-gcp", "pod_type": "p1.x2", "replicas": 2}}
MODEL = {"name": "e", "cloud": "aws", "region": "us-east-1", "embed": EMBED}


def test_a_dense_index_by_its_dimension_is_one_by_the_reserved_field() -> None:
    found = from_spec({"name": "a", "dimension": 3, "spec": SERVERLESS})
    assert found.fields == {"_values": {"type": "dense_vector", "dimension": 3, "metric": "cosine"}}
    assert found.deployment == {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}
    assert (found.deletion_protection, found.tags) == ("disabled", None)


def test_pods_and_own_clouds_are_deployments_too() -> None:
    assert from_spec({"name": "a", "dimension": 3, "spec": POD}).deployment == {
        "deployment_type": "pod",
        "environment": "us-east1-gcp",
        "pod_type": "p1.x2",
        "replicas": 2,
        "shards": 1,
    }
    byoc = from_spec({"name": "a", "dimension": 3, "spec": {"byoc": {"environment": "aws-x"}}})
    assert byoc.deployment == {"deployment_type": "byoc", "environment": "aws-x"}


def test_a_schema_keeps_its_fields_and_gets_the_default_place() -> None:
    found = from_schema({"schema": ARTICLES}, "index-1")
    assert found.name == "index-1"
    assert found.deployment == {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}
    assert found.fields["vec"] == {"type": "dense_vector", "dimension": 2, "metric": "cosine"}
    assert found.fields["summary"]["embed"]["metric"] == "cosine"


def test_an_integrated_index_fills_in_its_models_settings() -> None:
    found = for_model({**MODEL, "embed": {"model": "llama-text-embed-v2", "field_map": {"text": "t"}}})
    assert found.embed == {
        "model": "llama-text-embed-v2",
        "metric": "cosine",
        "dimension": 1024,
        "vector_type": "dense",
        "field_map": {"text": "t"},
        "read_parameters": {"input_type": "query", "truncate": "END"},
        "write_parameters": {"input_type": "passage", "truncate": "END"},
    }
    assert found.fields == {"t": {"type": "semantic_text", "model": "llama-text-embed-v2", "metric": "cosine"}}


def test_configuring_merges_tags_and_leaves_what_is_not_named() -> None:
    old = from_spec({"name": "a", "dimension": 3, "spec": POD, "tags": {"x": "1", "y": "2"}})
    new = configured(old, {"tags": {"x": "", "z": "3"}, "deletion_protection": "enabled"})
    assert new.tags == {"y": "2", "z": "3"}
    assert new.deletion_protection == "enabled"
    assert configured(new, {"spec": {"pod": {"replicas": 4}}}).deployment["replicas"] == 4
    assert configured(new, {"deployment": {"pod_type": "p1.x8"}}).deployment["pod_type"] == "p1.x8"
    assert configured(new, {}) == new
    assert configured(new, {"spec": {"serverless": {"read_capacity": {"mode": "OnDemand"}}}}) == new
    assert configured(new, {"tags": {"y": "", "z": ""}}).tags is None


def test_configuring_changes_embedding_parameters_only_where_there_is_a_model() -> None:
    integrated = configured(for_model(MODEL), {"embed": {"read_parameters": {"truncate": "NONE"}}})
    assert integrated.embed is not None
    assert integrated.embed["read_parameters"] == {"truncate": "NONE"}
    plain = from_spec({"name": "a", "dimension": 3, "spec": SERVERLESS})
    assert configured(plain, {"embed": {"model": "x"}}).embed is None


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a" * 46, "a.b", None, 7])
def test_a_name_is_lower_case_letters_digits_and_hyphens(name: object) -> None:
    with pytest.raises(RefusalError):
        from_spec({"name": name, "dimension": 3, "spec": SERVERLESS})
    assert from_spec({"name": "a" * 45, "dimension": 3, "spec": SERVERLESS}).name == "a" * 45


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dimension": None}, "dimension"),
        ({"dimension": 0}, "dimension must be from 1 to 20000"),
        ({"dimension": 20_001}, "dimension must be from 1 to 20000"),
        ({"metric": "manhattan"}, "metric"),
        ({"vector_type": "sparse"}, "a sparse index has none"),
        ({"vector_type": "sparse", "dimension": None, "metric": "cosine"}, "metric dotproduct"),
        ({"spec": None}, "spec"),
        ({"spec": {}}, "spec.serverless"),
        ({"spec": {**SERVERLESS, "pod": 1}}, "spec.pod"),
        ({"spec": {"serverless": {"read_capacity": 1}}}, "read_capacity"),
        ({"deletion_protection": "maybe"}, "deletion_protection"),
        ({"tags": {"a": 1}}, "tags"),
        ({"tags": "a"}, "tags"),
    ],
)
def test_a_wrong_spec_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusalError, match=words):
        from_spec({"name": "a", "dimension": 3, "spec": SERVERLESS, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": [1]},
        {"spec": {"pod": {"replicas": 2}}},
        {"deployment": {"replicas": 2}},
        {"embed": {"field_map": {}}},
        {"embed": "x"},
        {"tags": []},
    ],
)
def test_a_wrong_change_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RefusalError):
        configured(for_model(MODEL), changes)


@pytest.mark.parametrize("scaling", [{"replicas": 0}, {"replicas": "many"}, {"pod_type": 1}, {"shards": 1.5}])
def test_pods_scale_to_whole_numbers(scaling: dict[str, Any]) -> None:
    old = from_spec({"name": "a", "dimension": 3, "spec": POD})
    for body in ({"spec": {"pod": scaling}}, {"deployment": scaling}):
        with pytest.raises(RefusalError):
            configured(old, body)


@pytest.mark.parametrize(
    "deployment", ["x", {"deployment_type": "cloud"}, {"cloud": "aws"}, {"deployment_type": "pod", "replicas": "x"}]
)
def test_a_wrong_deployment_is_refused(deployment: object) -> None:
    with pytest.raises(RefusalError):
        from_schema({"schema": ARTICLES, "deployment": deployment}, "index-1")


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"fields": {}},
        {"fields": {"a": 1}},
        {"fields": {"a": {"type": "magic"}}},
        {"fields": {"a": {"type": "dense_vector"}}},
        {"fields": {"a": {"type": "string", "embed": {"model": "none"}}}},
    ],
)
def test_a_wrong_schema_is_refused(schema: object) -> None:
    with pytest.raises(RefusalError):
        from_schema({"schema": schema}, "index-1")


@pytest.mark.parametrize(
    "embed",
    [None, {}, {"model": "none"}, {"model": EMBED["model"]}, {"model": EMBED["model"], "field_map": {"x": "y"}}],
)
def test_a_wrong_embedding_is_refused(embed: object) -> None:
    with pytest.raises(RefusalError):
        for_model({**MODEL, "embed": embed})
