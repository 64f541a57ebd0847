"""The door to the official client's messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.qdrant import grpc_messages as replies
from servers.qdrant.grpc_messages import (
    Encoding,
    decoded,
    messages,
    read_id,
    read_payload,
    read_value,
    read_vector,
    read_vectors,
    rest_models,
    said,
    to_grpc,
    to_rest,
    write_id,
    write_payload,
    write_value,
    write_vectors,
)

from vecsieve.proxy.demo.embedded.fields import RefusalError


def test_bytes_that_are_no_message_are_told_by_its_name() -> None:
    with pytest.raises(ValueError, match="failed to decode Protobuf message: QueryPoints"):
        decoded("QueryPoints", b"\x0a\x7f")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_value_error(raw: bytes) -> None:
    """Decoding raises nothing but ValueError, and what it returns is of the class asked for."""
    try:
        message = decoded("QueryPoints", raw)
    except ValueError:
        return
    assert isinstance(message, messages().QueryPoints)


def test_a_model_is_said_in_the_words_of_the_wire() -> None:
    models = rest_models()
    condition = models.FieldCondition(key="k", match=models.MatchExcept(**{"except": [1]}))
    assert said({"f": models.Filter(must=condition)}) == {"f": {"must": {"key": "k", "match": {"except": [1]}}}}


def test_a_clause_without_conditions_is_left_out_wherever_the_filter_stands() -> None:
    models = rest_models()
    inner = models.Filter(must_not=[models.HasVectorCondition(has_vector="v")])
    prefetch = models.Prefetch(query=[0.5], filter=models.Filter(must=[inner]))
    arrived: Any = to_rest().convert_prefetch_query(to_grpc().convert_prefetch_query(prefetch))
    assert said(arrived.filter) == {"must": [{"must_not": [{"has_vector": "v"}]}]}
    assert said(arrived)["filter"] == said(arrived.filter)
    assert said(models.Filter(must=[], should=[])) == {}


POINT: dict[str, Any] = {"id": 1, "version": 2, "score": np.float32(0.1)}


def filled(name: str, write: Any, value: Any) -> Any:
    reply = getattr(messages(), name)()
    write(reply, value, Encoding.ONEOF)
    return reply


def test_a_bare_list_and_an_object_with_points_fill_the_same_reply() -> None:
    bare = filled("SearchResponse", replies.ranked, [POINT, {**POINT, "id": 7}])
    wrapped = filled("QueryResponse", replies.ranked, {"points": [POINT, {**POINT, "id": 7}]})
    assert bare.SerializeToString() == wrapped.SerializeToString()
    assert [point.id.num for point in bare.result] == [1, 7]


def test_a_score_keeps_its_float32_and_absent_is_absent() -> None:
    (point,) = filled("QueryResponse", replies.ranked, {"points": [POINT]}).result
    assert np.float32(point.score) == np.float32(0.1)
    assert not point.HasField("vectors")
    assert not point.HasField("order_value")
    assert (point.version, len(point.payload)) == (2, 0)


@pytest.mark.parametrize(("order", "kind"), [(3, "int"), (0, "int"), (2.5, "float")])
def test_an_order_value_keeps_its_type(order: float, kind: str) -> None:
    (point,) = filled("GetResponse", replies.records, [{"id": 1, "order_value": order}]).result
    assert point.order_value.WhichOneof("variant") == kind
    assert getattr(point.order_value, kind) == order


def test_a_batch_has_one_result_for_each_search_even_an_empty_one() -> None:
    reply = filled("QueryBatchResponse", replies.ranked_batch, [{"points": []}, {"points": [POINT]}])
    assert [len(answer.result) for answer in reply.result] == [0, 1]


def test_groups_have_ids_of_every_kind_and_their_lookup() -> None:
    groups: list[dict[str, Any]] = [{"id": value, "hits": [POINT]} for value in ("a", 5, 2**64 - 1, -5)]
    groups[0]["lookup"] = {"id": "u", "payload": {"of": "a"}}
    shown = filled("QueryGroupsResponse", replies.groups, {"groups": groups}).result.groups
    assert [to_rest().convert_group_id(group.id) for group in shown] == ["a", 5, 2**64 - 1, -5]
    assert [group.id.WhichOneof("kind") for group in shown][2:] == ["unsigned_value", "integer_value"]
    assert shown[0].lookup.payload["of"].string_value == "a"
    assert not shown[1].HasField("lookup")
    assert filled("QueryGroupsResponse", replies.groups, {"groups": []}).HasField("result")


def test_a_page_says_where_the_next_one_starts_or_nothing() -> None:
    more = filled("ScrollResponse", replies.scroll, {"points": [{"id": 1}], "next_page_offset": 0})
    assert more.HasField("next_page_offset")
    assert more.next_page_offset.num == 0
    last = filled("ScrollResponse", replies.scroll, {"points": [], "next_page_offset": None})
    assert not last.HasField("next_page_offset")


def test_counts_and_facets() -> None:
    assert filled("CountResponse", replies.count, {"count": 0}).HasField("result")
    hits = [{"value": value, "count": 2} for value in ("a", 3, True)]
    shown = filled("FacetResponse", replies.facet, {"hits": hits}).hits
    assert [to_rest().convert_facet_value(hit.value) for hit in shown] == ["a", 3, True]


def test_a_write_was_completed_or_only_acknowledged() -> None:
    values = [{"operation_id": 0, "status": "completed"}, {"operation_id": 1, "status": "acknowledged"}]
    statuses = messages().UpdateStatus
    first = filled("PointsOperationResponse", replies.written, values[0]).result
    assert (first.operation_id, first.HasField("operation_id"), first.status) == (0, True, statuses.Completed)
    both = filled("UpdateBatchResponse", replies.written_batch, values).result
    assert [update.status for update in both] == [statuses.Completed, statuses.Acknowledged]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(st.dictionaries(TEXTS, JSON, max_size=4))
def test_a_payload_comes_back_as_it_was_written(payload: dict[str, Any]) -> None:
    """Every JSON object whose numbers a Value has is the same after the wire, in values and in their types."""
    point = messages().RetrievedPoint()
    write_payload(point.payload, payload)
    read = read_payload(messages().RetrievedPoint.FromString(point.SerializeToString()).payload)
    assert read == payload
    assert _types(read) == _types(payload)


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _types(item) for name, item in value.items()}
    return [_types(item) for item in value] if isinstance(value, list) else type(value)


def test_a_number_past_the_signed_ones_becomes_a_double_as_in_the_server() -> None:
    value = messages().Value()
    write_value(value, 2**63 + 5)
    assert value.double_value == 2.0**63
    write_value(value, -(2**63))
    assert value.integer_value == -(2**63)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_json_does_not_have_is_refused(number: float) -> None:
    with pytest.raises(RefusalError, match="cannot convert to json number"):
        read_value(messages().Value(double_value=number))


def test_a_value_that_says_nothing_is_null() -> None:
    assert read_value(messages().Value()) is None
    assert read_value(messages().Value(null_value=0)) is None


@pytest.mark.parametrize("identifier", [0, 7, 2**64 - 1, "6f2e9a34-0000-4000-8000-000000000000"])
def test_an_id_comes_back_as_it_was_written(identifier: int | str) -> None:
    point = messages().PointId()
    write_id(point, identifier)
    assert read_id(point) == identifier
    assert point.WhichOneof("point_id_options") == ("num" if isinstance(identifier, int) else "uuid")


def test_an_id_of_neither_kind_is_refused() -> None:
    with pytest.raises(RefusalError, match="No ID options provided"):
        read_id(messages().PointId())


NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
DENSE = st.lists(NUMBERS, min_size=1, max_size=5).map(lambda values: np.asarray(values, np.float32))
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=3).map(
        lambda values: np.asarray(values, np.float32)
    )
)
SPARSE = st.dictionaries(st.integers(0, 2**32 - 1), NUMBERS, max_size=4).map(
    lambda pairs: {"indices": list(pairs), "values": np.asarray(list(pairs.values()), np.float32)}
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
SHOWN = DENSE | ROWS | st.dictionaries(NAMES, DENSE | ROWS | SPARSE, max_size=3)


def listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: listed(item) for name, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("encoding", Encoding)
@given(value=SHOWN)
def test_the_official_client_reads_what_was_written(encoding: Encoding, value: Any) -> None:
    """Whatever the engine shows, the client understands in either encoding, float for float."""
    target = messages().VectorsOutput()
    write_vectors(target, value, encoding)
    arrived = messages().VectorsOutput.FromString(target.SerializeToString())
    assert said(to_rest().convert_vectors_output(arrived)) == listed(value)


@given(value=SHOWN)
def test_what_one_encoding_fills_the_other_leaves_empty(value: Any) -> None:
    """No vector stands in both the old fields and the new ones."""
    for encoding, is_new in ((Encoding.ONEOF, True), (Encoding.DATA, False)):
        target = messages().VectorsOutput()
        write_vectors(target, value, encoding)
        named = target.vectors.vectors
        for vector in [named[name] for name in named] or [target.vector]:
            old = bool(vector.data) or vector.HasField("indices") or vector.HasField("vectors_count")
            # A sparse vector of nothing has no field to stand in for the old encoding.
            assert old is not is_new or not vector.ByteSize()
            assert (vector.WhichOneof("vector") is not None) is is_new or not vector.ByteSize()


def test_no_vectors_at_all_are_an_empty_object_and_not_absent() -> None:
    point = messages().ScoredPoint()
    write_vectors(point.vectors, {}, Encoding.ONEOF)
    assert point.HasField("vectors")
    assert point.vectors.WhichOneof("vectors_options") == "vectors"


def vector(**fields: Any) -> Any:
    return messages().Vector(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"data": [1, 2]}, [1.0, 2.0]),
        ({}, []),
        ({"data": [1, 2], "indices": {"data": [7, 9]}}, {"indices": [7, 9], "values": [1.0, 2.0]}),
        ({"data": [1, 2, 3, 4], "vectors_count": 2}, [[1.0, 2.0], [3.0, 4.0]]),
        ({"dense": {"data": [1, 2]}}, [1.0, 2.0]),
        ({"sparse": {"indices": [7], "values": [0.5]}}, {"indices": [7], "values": [0.5]}),
        ({"multi_dense": {"vectors": [{"data": [1]}, {"data": [2]}]}}, [[1.0], [2.0]]),
    ],
)
def test_every_spelling_of_a_vector_is_read(fields: dict[str, Any], expected: object) -> None:
    assert read_vector(vector(**fields)) == expected


@pytest.mark.parametrize("count", [0, 2])
def test_numbers_that_cannot_be_so_many_vectors_are_refused(count: int) -> None:
    with pytest.raises(RefusalError, match=f"3 numbers cannot be {count} vectors") as caught:
        read_vector(vector(data=[1, 2, 3], vectors_count=count))
    assert caught.value.status == 400


def test_what_must_be_embedded_first_is_not_served() -> None:
    with pytest.raises(RefusalError, match="inference") as caught:
        read_vector(vector(document={"text": "words", "model": "m"}))
    assert caught.value.status == 501


def test_the_vectors_of_a_point_are_one_or_named() -> None:
    kinds = messages()
    assert read_vectors(kinds.Vectors(vector=vector(data=[1]))) == [1.0]
    assert read_vectors(kinds.Vectors(vectors={"vectors": {"a": vector(dense={"data": [2]})}})) == {"a": [2.0]}
    with pytest.raises(RefusalError, match="Expected some vectors"):
        read_vectors(kinds.Vectors())
