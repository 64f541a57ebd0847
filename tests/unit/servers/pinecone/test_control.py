""""""

from __future__ import annotations

from typing import Any

from servers.pinecone.control import (
    configure,
    create,
    create_for_model,
    delete,
    describe,
    list_collections,
    list_indexes,
)
from servers.pinecone.store import Place, Project

from support.emulated import ARTICLES, EMBED, SERVERLESS, call, refused, said

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
