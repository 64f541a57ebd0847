from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.calls import Limits
from servers.pinecone.errors import RefusalError
from servers.pinecone.store import Index
from servers.pinecone.vectors import delete, fetch, fetch_by_metadata, metadata, read_units, update, upsert

from support.emulated import articles, call, index, refused, said

A = {"id": "a", "values": [0.1, 0.2], "metadata": {"t": 1}}
NS = ("namespace", "ns")


def filled() -> Index:
    target = index()
    vectors = [{"id": f"v{number:02}", "values": [1, number], "metadata": {"n": number}} for number in range(12)]
    call(upsert, target, {"vectors": vectors, "namespace": "ns"})
    return target


def ids(target: Index) -> list[str]:
    return list(target.namespaces["ns"].records)


def test_an_upsert_says_how_many_and_which_write_it_was() -> None:
    answer = call(upsert, index(), {"vectors": [A], "namespace": "ns1"})
    assert answer.body == b'{"upsertedCount":1}'
    assert answer.headers == {"grpc-status": "0", "x-pinecone-request-lsn": "1"}


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ({"id": "a", "values": [1, 2, 3]}, "Vector dimension 3 does not match the dimension of the index 2"),
        ({"id": "", "values": [1, 2]}, "vectors[1].id"),
        ({"values": [1, 2]}, "vectors[1].id"),
        ({"id": "a"}, "dense values are wanted"),
        ({"id": "a", "values": [0, 0]}, "at least one non-zero value"),
        ({"id": "a", "values": [1, 2], "sparseValues": {"indices": [1], "values": [1]}}, "does not support sparse"),
        ({"id": "a", "values": [1, 2], "metadata": {"x": None}}, "Metadata value must be"),
        ({"id": "a", "values": [1, 2], "metadata": {"x": {"y": 1}}}, "Metadata value must be"),
        ({"id": "a", "values": [1, 2], "metadata": {"x": [1]}}, "Metadata value must be"),
        ({"id": "a", "values": [1, 2], "metadata": {"x": "y" * 41_000}}, "exceeds the limit of 40960"),
        ({"id": "a", "values": [1, 2], "vector": [1]}, "vectors[1].vector: Cannot find field"),
        ("a", "expected an object"),
    ],
)
def test_one_wrong_vector_refuses_all(vector: Any, words: str) -> None:
    target = index()
    assert words in refused(upsert, target, {"vectors": [A, vector]}).message
    assert target.namespaces == {}
    assert target.lsn == 0


@pytest.mark.parametrize("vectors", [[], None, "x", [{"id": str(n), "values": [1, 1]} for n in range(1001)]])
def test_an_upsert_is_of_one_to_a_thousand(vectors: object) -> None:
    assert "1 to 1000" in refused(upsert, index(), {"vectors": vectors}).message


def test_an_upsert_of_two_megabytes_works_and_one_more_byte_does_not() -> None:
    body = b'{"vectors":[{"id":"a","values":[1,2]}]}'
    assert call(upsert, index(), body + b" " * (2 * 1024 * 1024 - len(body))).status == 200
    refusal = refused(upsert, index(), body + b" " * (2 * 1024 * 1024 - len(body) + 1))
    assert refusal.message == "Error, message length too large: found 2097153 bytes, the limit is: 2097152 bytes"
    assert refused(upsert, index(), body, limits=Limits(upsert=5)).code.number == 11


def test_a_sparse_index_wants_sparse_values_and_no_dense_ones() -> None:
    sparse = {"sparseValues": {"indices": [1], "values": [1]}}
    assert said(upsert, index(None), {"vectors": [{"id": "a", **sparse}]}) == {"upsertedCount": 1}
    assert (
        "no dense values" in refused(upsert, index(None), {"vectors": [{"id": "a", "values": [1], **sparse}]}).message
    )
    assert "sparse values are wanted" in refused(upsert, index(None), {"vectors": [{"id": "a"}]}).message


def test_an_index_of_documents_takes_no_vectors() -> None:
    assert "documents" in refused(upsert, articles(), {"vectors": [A]}).message


def test_metadata_may_be_any_flat_value() -> None:
    given = {"s": "x", "n": 1.5, "b": True, "l": ["a", "b"], "e": []}
    assert metadata(given, "x") == given
    assert metadata(None, "x") == {}
    with pytest.raises(RefusalError):
        metadata([], "x")


def test_a_fetch_shows_whole_records_and_leaves_out_what_is_not_there() -> None:
    target = index(2, "dotproduct")
    sparse = {"id": "s", "values": [1, 0], "sparseValues": {"indices": [2], "values": [0.5]}}
    call(upsert, target, {"vectors": [A, sparse], "namespace": "ns"})
    query = (("ids", "a"), ("ids", "none"), ("ids", "s"), ("ids", "a"), NS)
    assert call(fetch, target, query=query).body == (
        b'{"vectors":{"a":{"id":"a","values":[0.1,0.2],"metadata":{"t":1}},'
        b'"s":{"id":"s","values":[1,0],"sparseValues":{"indices":[2],"values":[0.5]}}},'
        b'"namespace":"ns","usage":{"readUnits":1}}'
    )


def test_a_fetch_tells_no_position_of_the_index() -> None:
    assert call(fetch, filled(), query=(("ids", "v01"), NS)).headers == {"grpc-status": "0"}


def test_a_fetch_is_of_one_to_a_thousand_ids() -> None:
    assert refused(fetch, index()).code.status == 400
    thousand = tuple(("ids", str(number)) for number in range(1000))
    assert said(fetch, index(), query=thousand)["vectors"] == {}
    assert refused(fetch, index(), query=(*thousand, ("ids", "x"))).code.status == 400


@pytest.mark.parametrize(("count", "units"), [(0, 1), (1, 1), (10, 1), (11, 2), (100, 10)])
def test_ten_records_cost_a_unit(count: int, units: int) -> None:
    assert read_units(count) == {"readUnits": units}


def test_fetching_by_metadata_goes_page_by_page() -> None:
    target = filled()
    body: dict[str, Any] = {"namespace": "ns", "filter": {"n": {"$gte": 7}}, "limit": 3}
    first = said(fetch_by_metadata, target, body)
    second = said(fetch_by_metadata, target, {**body, "pagination_token": first["pagination"]["next"]})
    assert list(first["vectors"]) == ["v07", "v08", "v09"]
    assert list(second["vectors"]) == ["v10", "v11"]
    assert "pagination" not in second
    assert "filter" in refused(fetch_by_metadata, target, {"namespace": "ns"}).message


def test_an_update_lays_what_it_has_over_the_record() -> None:
    target = filled()
    body = {"id": "v01", "values": [5, 5], "setMetadata": {"x": "y"}, "namespace": "ns"}
    answer = call(update, target, body)
    assert answer.body == b"{}"
    assert answer.headers["x-pinecone-request-lsn"] == "2"
    record = target.namespaces["ns"].records["v01"]
    assert record.dense["_values"].tolist() == [5, 5]
    assert record.metadata == {"n": 1, "x": "y"}
    assert ids(target)[1] == "v01"


def test_an_update_of_a_record_that_is_not_there_changes_nothing() -> None:
    target = filled()
    assert said(update, target, {"id": "zz", "values": [5, 5], "namespace": "ns"}) == {}
    assert "zz" not in ids(target)
    assert "dimension" in refused(update, target, {"id": "zz", "values": [5], "namespace": "ns"}).message


def test_an_update_by_filter_counts_and_a_dry_run_only_counts() -> None:
    target = filled()
    body = {"filter": {"n": {"$lt": 2}}, "setMetadata": {"old": True}, "namespace": "ns"}
    assert said(update, target, {**body, "dryRun": True}) == {"matchedRecords": 2}
    assert "old" not in target.namespaces["ns"].records["v00"].metadata
    assert said(update, target, body) == {"matchedRecords": 2}
    assert target.namespaces["ns"].records["v00"].metadata == {"n": 0, "old": True}
    assert refused(update, target, body, version="2025-04").message == "filter: Cannot find field."


@pytest.mark.parametrize("body", [{}, {"id": "a", "filter": {"n": 1}}])
def test_an_update_names_an_id_or_a_filter(body: dict[str, Any]) -> None:
    assert refused(update, filled(), body).code.status == 400


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"ids": ["v00", "zz"]}, 11),
        ({"filter": {"n": {"$gte": 2}}}, 2),
        ({"deleteAll": True}, 0),
        ({"delete_all": True}, 0),
    ],
)
def test_a_delete_forgets_what_it_names(body: dict[str, Any], left: int) -> None:
    target = filled()
    assert said(delete, target, {**body, "namespace": "ns"}) == {}
    assert len(ids(target)) == left


@pytest.mark.parametrize(
    "body",
    [{}, {"ids": []}, {"ids": ["a"], "deleteAll": True}, {"ids": ["a"], "filter": {"n": 1}}, {"deleteAll": False}],
)
def test_a_delete_names_exactly_one_thing(body: dict[str, Any]) -> None:
    assert refused(delete, filled(), {**body, "namespace": "ns"}).code.status == 400


def test_nothing_can_be_deleted_from_a_namespace_that_is_not_there() -> None:
    refusal = refused(delete, filled(), {"ids": ["a"], "namespace": "none"})
    assert refusal.as_status() == b'{"code":5,"message":"Namespace not found","details":[]}'
    assert refusal.code.status == 404
