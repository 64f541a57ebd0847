"""Points in reply messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from servers.qdrant import grpc_messages as replies
from servers.qdrant.grpc_messages import Encoding, messages, to_rest

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
