from __future__ import annotations

from servers.pinecone.namespaces import create, delete, describe, list_namespaces, stats
from servers.pinecone.store import Index
from servers.pinecone.vectors import upsert

from support.emulated import call, index, refused, said


def filled() -> Index:
    target = index(3, "euclidean")
    for namespace in ("", "b", "a"):
        call(upsert, target, {"vectors": [{"id": "x", "values": [1, 1, 1]}], "namespace": namespace})
    return target


def test_statistics_count_by_namespace() -> None:
    assert call(stats, filled(), {}).body == (
        b'{"namespaces":{"__default__":{"vectorCount":1},"b":{"vectorCount":1},"a":{"vectorCount":1}},'
        b'"dimension":3,"indexFullness":0,"totalVectorCount":3,"metric":"euclidean","vectorType":"dense"}'
    )


def test_statistics_of_old_versions_call_the_default_namespace_nothing() -> None:
    found = said(stats, filled(), version="2024-07")
    assert list(found["namespaces"]) == ["", "b", "a"]
    assert "metric" not in found
    assert "metric" in said(stats, filled(), version="2025-01")


def test_a_sparse_index_has_no_dimension() -> None:
    found = said(stats, index(None), {})
    assert "dimension" not in found
    assert (found["metric"], found["vectorType"]) == ("dotproduct", "sparse")


def test_statistics_take_no_filter() -> None:
    assert "do not support" in refused(stats, filled(), {"filter": {"a": 1}}).message
    assert said(stats, filled(), {"filter": {}})["totalVectorCount"] == 3


def test_counts_of_records_are_text_as_64_bit_integers_are() -> None:
    assert call(describe, filled(), namespace="a").body == b'{"name":"a","record_count":"1"}'


def test_namespaces_are_listed_in_order_page_by_page() -> None:
    first = said(list_namespaces, filled(), query=(("limit", "2"),))
    assert [one["name"] for one in first["namespaces"]] == ["__default__", "a"]
    assert first["total_count"] == 3
    second = said(list_namespaces, filled(), query=(("limit", "2"), ("paginationToken", first["pagination"]["next"])))
    assert [one["name"] for one in second["namespaces"]] == ["b"]
    assert "total_count" not in said(list_namespaces, filled(), version="2025-04")
    assert said(list_namespaces, filled(), query=(("prefix", "b"),))["total_count"] == 1


def test_a_namespace_is_made_empty_and_once() -> None:
    target = index()
    schema = {"fields": {"year": {"filterable": True}, "genre": {"filterable": True}}}
    assert said(create, target, {"name": "n", "schema": schema}) == {
        "name": "n",
        "record_count": "0",
        "schema": schema,
        "indexed_fields": {"fields": ["genre", "year"]},
    }
    assert refused(create, target, {"name": "n"}).code.status == 409
    assert refused(create, target, {}).code.status == 400
    assert refused(create, target, {"name": "m", "schema": {}}).code.status == 400


def test_a_deleted_namespace_is_gone() -> None:
    target = filled()
    answer = call(delete, target, namespace="a")
    assert answer.body == b"{}"
    assert answer.headers["x-pinecone-request-lsn"] == "4"
    assert refused(describe, target, namespace="a").code.status == 404
    assert refused(delete, target, namespace="a").code.status == 404
    assert said(delete, target, namespace="__default__") == {}
