from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.control import (
    configure,
    configured,
    create,
    create_for_model,
    delete,
    describe,
    for_model,
    from_schema,
    from_spec,
    list_collections,
    list_indexes,
    shown,
)
from servers.pinecone.errors import RefusalError
from servers.pinecone.store import Index, Place, Project

from support.emulated import ARTICLES, EMBED, SERVERLESS, SPARSE_EMBED, articles, call, index, integrated, refused, said

DENSE: dict[str, Any] = {"name": "a", "dimension": 3, "metric": "cosine", "spec": SERVERLESS}


def project() -> Project:
    return Project(lambda label: Place(f"http://{label}", f"http://private.{label}"))


def test_a_new_index_is_not_ready_and_then_is() -> None:
    found = project()
    made = call(create, found, DENSE)
    assert made.status == 201
    assert said(create, found, {**DENSE, "name": "b"})["status"] == {"ready": False, "state": "Initializing"}
    assert said(describe, found, index="a")["status"] == {"ready": True, "state": "Ready"}
    assert [one["name"] for one in said(list_indexes, found)["indexes"]] == ["a", "b"]


def test_the_version_decides_which_form_creates() -> None:
    found = project()
    assert said(create, found, {"schema": ARTICLES}, version="2026-07")["name"] == "index-1"
    assert "spec" in refused(create, found, {"name": "x", "schema": ARTICLES}, version="2026-04").message
    assert "schema" in refused(create, found, DENSE, version="2026-07").message


def test_only_the_alpha_declares_what_is_filtered_by() -> None:
    schema = {"fields": {**ARTICLES["fields"], "year": {"type": "integer", "filterable": True}}}
    assert said(create, project(), {"schema": schema}, version="2026-01.alpha")["schema"]["fields"]["year"] == {
        "type": "integer",
        "filterable": True,
    }
    assert "schema.fields.year.type" in refused(create, project(), {"schema": schema}, version="2026-07").message


def test_an_integrated_index_is_made_in_one_form_by_all() -> None:
    body = {"name": "e", "cloud": "aws", "region": "us-east-1", "embed": EMBED}
    for version in ("2025-01", "2026-07"):
        assert call(create_for_model, project(), body, version=version).status == 201


def test_configuring_answers_with_the_index_and_202() -> None:
    found = project()
    call(create, found, DENSE)
    answer = call(configure, found, {"tags": {"x": "y"}}, index="a")
    assert answer.status == 202
    assert said(describe, found, index="a")["tags"] == {"x": "y"}


def test_a_deleted_index_is_gone() -> None:
    found = project()
    call(create, found, DENSE)
    answer = call(delete, found, index="a")
    assert (answer.status, answer.body) == (202, b"")
    assert refused(describe, found, index="a").as_error() == (
        b'{"status":404,"error":{"code":"NOT_FOUND","message":"Resource a not found"}}'
    )


def test_there_are_no_collections() -> None:
    assert said(list_collections, project()) == {"collections": []}


TAGGED: dict[str, Any] = {"name": "idx", "dimension": 3, "metric": "euclidean", "tags": {"a": "b"}}


def placed(body: dict[str, Any]) -> Index:
    return Index(description=from_spec(body), host="here", private_host="there")


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2024-04", ["name", "dimension", "metric", "host", "spec", "status"]),
        ("2024-07", ["name", "dimension", "metric", "host", "deletion_protection", "spec", "status"]),
        ("2024-10", ["name", "dimension", "metric", "host", "deletion_protection", "tags", "spec", "status"]),
        (
            "2025-01",
            ["name", "dimension", "metric", "host", "deletion_protection", "tags", "spec", "status", "vector_type"],
        ),
        (
            "2026-04",
            [
                "name",
                "dimension",
                "metric",
                "host",
                "private_host",
                "deletion_protection",
                "tags",
                "spec",
                "status",
                "vector_type",
            ],
        ),
    ],
)
def test_every_version_shows_what_its_description_has(version: str, names: list[str]) -> None:
    found = shown(placed({**TAGGED, "spec": SERVERLESS}), version)
    assert list(found) == names
    assert (found["host"], found["metric"], found["dimension"]) == ("here", "euclidean", 3)


def test_serverless_says_how_it_reads_since_2025_10() -> None:
    found = placed({**TAGGED, "spec": SERVERLESS})
    assert shown(found, "2025-04")["spec"] == SERVERLESS
    capacity = {"mode": "OnDemand", "status": {"state": "Ready"}}
    assert shown(found, "2025-10")["spec"] == {"serverless": {**SERVERLESS["serverless"], "read_capacity": capacity}}


def test_a_metadata_schema_is_shown_again() -> None:
    spec = {"serverless": {**SERVERLESS["serverless"], "schema": {"fields": {"y": {"filterable": True}}}}}
    found = shown(placed({**TAGGED, "spec": spec}), "2026-04")["spec"]["serverless"]
    assert found["schema"] == {"fields": {"y": {"filterable": True}}}


def test_pods_are_counted() -> None:
    spec = {"pod": {"environment": "e", "replicas": 2, "shards": 3}}
    pod = shown(placed({**TAGGED, "spec": spec}), "2026-04")["spec"]["pod"]
    assert pod == {"environment": "e", "pod_type": "p1.x1", "replicas": 2, "shards": 3, "pods": 6}
    byoc = shown(placed({**TAGGED, "spec": {"byoc": {"environment": "e"}}}), "2025-04")["spec"]
    assert byoc == {"byoc": {"environment": "e"}}


def test_a_sparse_index_has_no_dimension() -> None:
    found = shown(index(None), "2026-04")
    assert "dimension" not in found
    assert (found["metric"], found["vector_type"]) == ("dotproduct", "sparse")


@pytest.mark.parametrize(("embed", "kind"), [(EMBED, "dense"), (SPARSE_EMBED, "sparse")])
def test_an_integrated_index_shows_its_model(embed: dict[str, Any], kind: str) -> None:
    found = shown(integrated(embed), "2025-01")
    assert found["embed"]["model"] == embed["model"]
    assert found["vector_type"] == kind
    assert shown(integrated(embed), "2026-07")["schema"]["fields"]["text"]["type"] == "semantic_text"
    assert "embed" not in shown(integrated(embed), "2024-10")


def test_the_newest_version_shows_schema_and_deployment() -> None:
    found = shown(articles(), "2026-07", is_ready=False)
    assert list(found) == [
        "name",
        "host",
        "private_host",
        "status",
        "schema",
        "deployment",
        "read_capacity",
        "deletion_protection",
    ]
    assert found["status"] == {"ready": False, "state": "Initializing"}
    assert found["deployment"] == {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}
    assert shown(placed({**TAGGED, "spec": SERVERLESS}), "2026-07")["tags"] == {"a": "b"}


def test_documents_look_like_a_dense_index_to_an_old_client() -> None:
    found = shown(articles(), "2025-10")
    assert (found["dimension"], found["metric"], found["vector_type"]) == (2, "cosine", "dense")


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
