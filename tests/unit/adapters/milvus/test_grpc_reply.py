"""Milvus replies over gRPC: every column is cut row by row, and what nobody here knows is malformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.milvus.bodies import request
from support.milvus.messages import message_type
from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, Needs, Operation, Reply, SearchCall
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.search import Schema

ADAPTER = MilvusGrpc()
SCHEMA = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"text", "big"}), is_dynamic=True)


def call(
    *, listed: tuple[str, ...] = ("text",), needs: Needs | None = None, queries: int = 1, top_k: int = 2
) -> SearchCall:
    operation = Operation(backend="milvus", name="search", collection="default/docs")
    body = request("vec", queries, list(listed), top_k, None)
    return ADAPTER.parse_request(operation, body, Needs(known=SCHEMA) if needs is None else needs)


def results(rows: int = 3) -> Any:
    """A reply with a text and a vector for each row, as the widened search brings it."""
    message = message_type("SearchResults")(collection_name="docs", session_ts=7)
    message.status.SetInParent()
    data = message.results
    data.num_queries, data.top_k = 1, rows
    text = data.fields_data.add(type=21, field_name="text", field_id=102)
    text.scalars.string_data.data.extend(f"t{row}" for row in range(rows))
    vectors = data.fields_data.add(type=101, field_name="vec", field_id=101).vectors
    vectors.dim = 2
    vectors.float_vector.data.extend(range(2 * rows))
    data.scores.extend(1 - row / 10 for row in range(rows))
    data.ids.int_id.data.extend([2**62, -1, 300][:rows])
    data.topks.append(rows)
    data.output_fields.extend(["text", "vec"])
    return message


def read(message: Any, search: SearchCall | None = None) -> Reply:
    return ADAPTER.parse_reply(call() if search is None else search, message.SerializeToString())


def kept(message: Any, *rows: int, search: SearchCall | None = None) -> Any:
    search = call() if search is None else search
    answer = ADAPTER.trim(search, read(message, search), [np.array(rows, dtype=np.intp)])
    return message_type("SearchResults").FromString(answer)


def test_top_k_is_what_the_server_would_have_said() -> None:
    """Milvus counts the rows of its longest list and leaves out a zero; Lite repeats what it was asked for."""
    assert kept(results(), 0).results.top_k == 1
    assert b"\x10" not in kept(results()).results.SerializeToString()[:3]
    lite = results()
    lite.results.top_k = 10
    assert kept(lite, 0).results.top_k == 2


def test_a_reply_without_rows_is_a_pool_without_candidates() -> None:
    message = message_type("SearchResults")()
    message.results.num_queries = 1
    message.results.ids.int_id.SetInParent()
    message.results.topks.append(0)
    message.results.output_fields.extend(["text", "vec"])
    assert read(message).pools[0].size == 0
    assert list(kept(message).results.output_fields) == ["text"]


def test_structures_of_fields_are_cut_inside() -> None:
    message = results()
    column = message.results.fields_data.add(type=200, field_name="chunks")
    inner = column.struct_arrays.fields.add(type=22, field_name="part").scalars.array_data
    inner.element_type = 5
    for row in range(3):
        inner.data.add().long_data.data.extend([row, row])
    found = kept(message, 2, search=call(listed=("text", "chunks"))).results.fields_data[-1]
    assert [list(each.long_data.data) for each in found.struct_arrays.fields[0].scalars.array_data.data] == [[2, 2]]
    assert found.struct_arrays.fields[0].scalars.array_data.element_type == 5


def test_payloads_leave_out_texts_that_are_no_utf8() -> None:
    message = results()
    message.results.fields_data.add(type=21, field_name="other").scalars.string_data.data.extend(["a", "b", "c"])
    message.results.fields_data.add(type=1, field_name="passed").scalars.bool_data.data.extend([True, False, True])
    [pool] = ADAPTER.parse_reply(call(), message.SerializeToString().replace(b"\x02t1", b"\x02\xff1")).pools
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == (b'{"other":"a","passed":true}', b'{"other":"b","passed":false}')


def test_structures_in_structures_are_malformed() -> None:
    message = results()
    column = message.results.fields_data.add(field_name="chunks")
    for _ in range(40):
        column = column.struct_arrays.fields.add()
    column.scalars.long_data.data.extend([1, 2, 3])
    with pytest.raises(MalformedReplyError):
        read(message)


@pytest.mark.parametrize("where", ["column", "content"])
@pytest.mark.parametrize("is_compact", [True, False], ids=["compact", "full"])
def test_a_null_among_vectors_is_a_candidate_without_one(where: str, is_compact: bool) -> None:
    message = results()
    column = message.results.fields_data[1]
    (column if where == "column" else column.vectors).valid_data.extend([True, False, True])
    if is_compact:
        del column.vectors.float_vector.data[2:4]
    [pool] = read(message).pools
    assert np.isnan(pool.vectors).any(axis=1).tolist() == [False, True, False]
    assert pool.vectors[2].tolist() == [4, 5]
    assert pool.unusable == 1
    search = call(listed=("text", "vec"))
    found = kept(message, 1, 2, search=search).results.fields_data[1]
    assert list((found if where == "column" else found.vectors).valid_data) == [False, True]
    assert list(found.vectors.float_vector.data) == ([4, 5] if is_compact else [2, 3, 4, 5])


def test_a_key_that_has_become_a_field_is_gone_as_well() -> None:
    search = call(needs=Needs(known=SCHEMA, optional_fields=("page",)))
    message = results()
    message.results.fields_data.add(type=5, field_name="page").scalars.long_data.data.extend([1, 2, 3])
    assert [column.field_name for column in kept(message, 0, search=search).results.fields_data] == ["text"]


def test_a_refusal_inside_a_success_is_told_with_its_words() -> None:
    for field in ("code", "error_code"):
        message = message_type("SearchResults")()
        setattr(message.status, field, 65535)
        message.status.reason = "no such field"
        with pytest.raises(DeclinedError, match="65535") as caught:
            read(message)
        assert caught.value.words == b"no such field"


def twice(message: Any) -> None:
    message.results.fields_data.append(message.results.fields_data[0])


def two_metas(message: Any) -> None:
    for name in ("$meta", "$more"):
        message.results.fields_data.add(field_name=name, is_dynamic=True).scalars.json_data.data.extend([b"{}"] * 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.ClearField("results"),
        lambda message: message.results.group_by_field_value.scalars.long_data.data.extend([1, 2, 3]),
        lambda message: message.results.highlight_results.add(),
        lambda message: message.results.element_indices.data.extend([1, 2, 3]),
        lambda message: setattr(message.results.fields_data[0], "unknown", "x"),
        lambda message: message.results.fields_data[0].scalars.unknown_data.data.extend([1, 2, 3]),
        lambda message: message.results.fields_data[0].ClearField("scalars"),
        lambda message: message.results.fields_data[0].vectors.SetInParent(),
        lambda message: message.results.fields_data[0].scalars.string_data.data.append("one more"),
        lambda message: message.results.fields_data[0].valid_data.extend([True]),
        lambda message: message.results.fields_data[1].vectors.float_vector.data.__delitem__(slice(4, 6)),
        lambda message: (
            message.results.fields_data[1].valid_data.extend([True, True, True]),
            message.results.fields_data[1].vectors.valid_data.extend([True, True, False]),
        ),
        lambda message: setattr(message.results.fields_data[1].vectors, "dim", 4),
        lambda message: message.results.fields_data[1].vectors.ClearField("dim"),
        lambda message: message.results.fields_data.pop(),
        twice,
        two_metas,
        lambda message: message.results.scores.pop(),
        lambda message: message.results.ClearField("scores"),
        lambda message: message.results.ClearField("ids"),
        lambda message: message.results.ids.uuid_id.data.extend([b"a", b"b", b"c"]),
        lambda message: message.results.ids.MergeFromString(b"\x0a\x00\x1a\x03\x0a\x01a"),
        lambda message: message.results.ids.int_id.data.pop(),
        lambda message: message.results.ids.int_id.ClearField("data"),
        lambda message: message.results.ClearField("topks"),
        lambda message: message.results.topks.append(0),
        lambda message: message.results.topks.__setitem__(0, 2**40),
        lambda message: message.results.ClearField("num_queries"),
        lambda message: setattr(message.results, "num_queries", 2),
        lambda message: message.results.distances.append(0.5),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_with_certainty_is_malformed(change: Callable[[Any], object]) -> None:
    message = results()
    change(message)
    with pytest.raises(MalformedReplyError):
        read(message)


def test_a_vector_that_is_no_list_of_numbers_leaves_every_candidate_without_one() -> None:
    message = results()
    vectors = message.results.fields_data[1].vectors
    vectors.ClearField("float_vector")
    vectors.dim = 8
    vectors.binary_vector = b"abc"
    [pool] = read(message).pools
    assert (pool.vectors.shape, pool.unusable, pool.compared_by) == ((3, 0), 3, None)


def test_without_a_need_for_vectors_none_is_asked_for_and_the_pool_names_the_one_that_would_be() -> None:
    lean = call(needs=Needs(known=SCHEMA, vectors=False, optional_fields=("big",)))
    asked = message_type("SearchRequest").FromString(ADAPTER.widen(lean, [24]))
    assert list(asked.output_fields) == ["text", "big"]
    lean = call(needs=Needs(known=SCHEMA, vectors=False))
    message = results()
    del message.results.fields_data[1:]
    (pool,) = read(message, lean).pools
    assert (pool.compared_by, pool.vectors.shape, pool.unusable) == ("vec", (3, 0), 3)
    assert pool.ids == (b"4611686018427387904", b"-1", b"300")


def test_the_partitions_of_a_search_are_its_part_of_the_collection() -> None:
    def partition(*names: str) -> bytes:
        message = message_type("SearchRequest").FromString(request("vec", 1, ["text"], 2, None))
        message.partition_names.extend(names)
        operation = Operation(backend="milvus", name="search", collection="default/docs")
        parsed = ADAPTER.parse_request(operation, message.SerializeToString(), Needs(known=SCHEMA))
        return parsed.searches[0].partition

    assert partition() == b""
    assert partition("a", "b") == b"a\0b"
