"""A hybrid search divided into its searches, and their replies made one; written and read by protobuf's own library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.milvus.bodies import group, request, rows
from support.milvus.messages import message_type, pairs
from support.milvus.model import Row, Server
from vecsieve.adapters.contract import Bounds, DeclinedError, MalformedReplyError, Needs, Operation, Reply, SearchCall
from vecsieve.adapters.fusions import Divided, Ending, Fusion, Method, Undivided, UndividedError
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.search import Schema

ADAPTER = MilvusGrpc()
SCHEMA = Schema(vectors=frozenset({"vec", "other"}), scalars=frozenset({"text"}), primary="id")
HYBRID = Operation(backend="milvus", name="hybrid_search", collection="default/docs")
SEARCH = replace(HYBRID, name="search")
QUERY = np.arange(4, dtype="<f4").tobytes()


def hybrid(**rank: object) -> Any:
    message = message_type("HybridSearchRequest")(
        collection_name="docs", db_name="own", guarantee_timestamp=9, use_default_consistency=True
    )
    for field, topk in (("vec", 10), ("other", 20)):
        part = message.requests.add(collection_name="docs", dsl=f"{field} > 1", dsl_type=1, nq=1)
        part.placeholder_group = group(101, [QUERY])
        pairs(part.search_params, topk=topk, anns_field=field, metric_type="IP", params="{}", round_decimal=-1)
    message.output_fields.append("text")
    pairs(message.rank_params, **{"strategy": "rrf", "params": '{"k":60}', "limit": 5, "offset": 0, **rank})
    return message


def divide(message: Any, **needs: Any) -> Divided | None:
    call = ADAPTER.parse_request(HYBRID, message.SerializeToString(), Needs(known=SCHEMA, **needs))
    return ADAPTER.divided(call, ADAPTER.widen(call, [50]))


def searches(message: Any) -> list[Any]:
    divided = divide(message)
    assert divided is not None
    return [message_type("SearchRequest").FromString(part.body) for part in divided.parts]


def test_each_part_becomes_a_search_with_what_the_widened_request_asks_for() -> None:
    divided, message = divide(hybrid()), hybrid()
    assert divided is not None
    assert divided.ending.of("/milvus.proto.milvus.MilvusService/HybridSearch").endswith("MilvusService/Search")
    assert divided.ending == Ending("HybridSearch", "Search")
    assert divided.fusion == Fusion(method=Method.RRF, limit=50, k=61, is_by_id=True)
    for part, search in zip(message.requests, searches(message), strict=True):
        part.db_name, part.guarantee_timestamp, part.use_default_consistency = "own", 9, True
        part.output_fields.extend(["text", "vec"])
        assert search == part


def test_a_page_is_fetched_from_the_first_result_on() -> None:
    message = hybrid(offset=3)
    pairs(message.requests[0].search_params, offset=3)
    message.requests[1].search_params[3].value = '{"nprobe":4,"offset":0}'
    first, second = [{pair.key: pair.value for pair in search.search_params} for search in searches(message)]
    assert (first["offset"], first["topk"]) == ("0", "10")
    assert second["params"] == '{"nprobe":4,"offset":0}'


def test_a_list_knows_its_query_where_it_is_of_the_compared_vector() -> None:
    divided = divide(hybrid())
    assert divided is not None
    first, second = [part.call.searches[0] for part in divided.parts]
    assert first.query is not None
    assert first.query.tolist() == [0, 1, 2, 3]
    assert (second.query, first.top_k, second.top_k) == (None, 10, 20)


def of_two_queries(message: Any) -> None:
    for part in message.requests:
        part.nq, part.placeholder_group = 2, group(101, [QUERY, QUERY])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (of_two_queries, Undivided.MANY),
        (lambda message: pairs(message.rank_params, round_decimal=3), Undivided.MEMBER),
        (lambda message: message.requests[0].partition_names.append("p"), Undivided.MEMBER),
        (lambda message: message.rank_params.pop(1), Undivided.MEMBER),
    ],
)
def test_what_the_searches_could_not_answer_exactly_is_not_divided(
    change: Callable[[Any], None], expected: Undivided
) -> None:
    message = hybrid()
    change(message)
    with pytest.raises(UndividedError) as refused:
        divide(message)
    assert refused.value.reason is expected


def test_rounded_lists_are_not_divided() -> None:
    message = hybrid()
    message.requests[0].search_params[4].value = "2"
    with pytest.raises(UndividedError):
        divide(message)


def test_more_parts_than_searches_of_one_request_are_not_divided() -> None:
    with pytest.raises(UndividedError) as refused:
        divide(hybrid(), bounds=Bounds(searches=1, parts=10_000, nesting=3))
    assert refused.value.reason is Undivided.MANY


def test_partitions_of_the_request_are_those_of_each_search() -> None:
    message = hybrid()
    message.partition_names.append("p")
    message.requests[0].partition_names.append("p")
    assert [list(search.partition_names) for search in searches(message)] == [["p"], ["p"]]


def test_a_search_is_no_fusion() -> None:
    call = ADAPTER.parse_request(SEARCH, request("vec", 1, ["text"], 4, None), Needs(known=SCHEMA))
    assert ADAPTER.divided(call, ADAPTER.widen(call, [50])) is None


# Replies.

FUSION = Fusion(method=Method.RRF, limit=50, k=61)


def reply_of(server: Server, *, listed: list[str]) -> Reply:
    body = request("vec", 1, listed, 50, None)
    known = ADAPTER.parse_description(server.schema.SerializeToString())
    call = ADAPTER.parse_request(SEARCH, body, Needs(known=known))
    return ADAPTER.parse_reply(call, server.answer(ADAPTER.widen(call, [50])))


@given(data=st.data(), lite=st.booleans(), nulls=st.booleans(), text_id=st.booleans(), are_split=st.booleans())
def test_the_reply_is_what_the_server_writes_of_these_rows(
    data: st.DataObject, *, lite: bool, nulls: bool, text_id: bool, are_split: bool
) -> None:
    """Rows taken in any order from two replies give the bytes of one reply with these rows."""
    every: list[Row] = data.draw(st.lists(rows(text_id=text_id, nulls=nulls), min_size=1, max_size=7))
    validity = data.draw(st.sampled_from(["column", "content"]))
    listed = data.draw(
        st.sampled_from([["*", "vec"], ["text", "vec", "tags"], ["vec", "dyn"], ["bits", "several", "vec"]])
    )
    cut = data.draw(st.integers(0, len(every))) if are_split else 0

    def server(*those: Row) -> Server:
        return Server(lists=(those,), lite=lite, nullable=nulls, validity=validity)

    replies = [reply_of(server(*part), listed=listed) for part in (every[:cut], every[cut:])]
    order = data.draw(st.permutations(range(len(every))))
    order = order[: data.draw(st.integers(1, len(every)))]
    places = [(0, at) if at < cut else (1, at - cut) for at in order]
    divided = Divided(ending=Ending(), parts=(), fusion=replace(FUSION, is_double=lite))
    fused = ADAPTER.fused(
        divided, replies, [(*place, np.float32(every[at].score)) for place, at in zip(places, order, strict=True)]
    )
    call = ADAPTER.parse_request(
        SEARCH,
        request("vec", 1, listed, 50, None),
        Needs(known=ADAPTER.parse_description(server().schema.SerializeToString())),
    )
    assert fused == server(*[every[at] for at in order]).answer(ADAPTER.widen(call, [50]))


def of_rows(**changes: Any) -> Reply:
    row = Row(id=7, score=0.5, values={"text": "t"}, vectors={"vec": np.zeros(8, "<f4").tobytes()}, meta={})
    message = message_type("SearchResults")()
    data = message.results
    data.num_queries, data.top_k = 1, 1
    data.fields_data.add(type=21, field_name="text").scalars.string_data.data.append("t")
    vectors = data.fields_data.add(type=101, field_name="vec").vectors
    vectors.dim = 8
    vectors.float_vector.data.extend([0.0] * 8)
    data.scores.append(row.score)
    data.ids.int_id.data.append(7)
    data.topks.append(1)
    for name, value in changes.items():
        if name == "kind":
            data.fields_data[0].Clear()
            data.fields_data[0].field_name = "text"
            data.fields_data[0].scalars.long_data.data.append(value)
        elif name == "recalls":
            data.recalls.append(value)
        else:
            setattr(data, name, value)
    call = ADAPTER.parse_request(SEARCH, request("vec", 1, ["text", "vec"], 50, None), Needs(known=SCHEMA))
    return ADAPTER.parse_reply(call, message.SerializeToString())


def merged(*replies: Reply) -> Any:
    divided = Divided(ending=Ending(), parts=(), fusion=FUSION)
    ranked = [(place, 0, np.float32(1 / (place + 1))) for place in range(len(replies))]
    return message_type("SearchResults").FromString(ADAPTER.fused(divided, replies, ranked)).results


def test_what_is_about_one_list_is_left_out_and_what_is_counted_is_added() -> None:
    result = merged(of_rows(all_search_count=40, recalls=0.5), of_rows(all_search_count=2, recalls=0.75))
    assert (result.all_search_count, list(result.recalls), list(result.scores)) == (42, [], [1.0, 0.5])


def test_rows_of_structures_and_of_lists_with_nulls_alone_are_gathered() -> None:
    first, second = merged_of_two()
    column, null = first
    assert [list(element.long_data.data) for element in column.struct_arrays.fields[0].scalars.array_data.data] == [
        [2],
        [1],
    ]
    assert (list(null.valid_data), list(null.scalars.long_data.data)) == ([True, False], [5])
    assert second == [7, 7]


def merged_of_two() -> tuple[list[Any], list[int]]:
    """The structures, the nullable column and the ids of two lists, the second of which has the only value."""
    raws = []
    for place in range(2):
        message = message_type("SearchResults").FromString(of_rows().document.body)  # type: ignore[attr-defined]  # - the adapter's own
        part = message.results.fields_data.add(field_name="chunks").struct_arrays.fields.add(field_name="part")
        part.scalars.array_data.data.add().long_data.data.append(place + 1)
        null = message.results.fields_data.add(field_name="null", valid_data=[place == 1])
        null.scalars.SetInParent()
        null.scalars.long_data.data.extend([5] * place)
        raws.append(message.SerializeToString())
    call = ADAPTER.parse_request(SEARCH, request("vec", 1, ["text", "vec"], 50, None), Needs(known=SCHEMA))
    replies = [ADAPTER.parse_reply(call, raw) for raw in raws]
    divided = Divided(ending=Ending(), parts=(), fusion=FUSION)
    fused = ADAPTER.fused(divided, replies, [(1, 0, np.float32(1)), (0, 0, np.float32(0.5))])
    result = message_type("SearchResults").FromString(fused).results
    return list(result.fields_data[2:]), list(result.ids.int_id.data)


def test_lists_that_are_not_alike_are_malformed() -> None:
    with pytest.raises(MalformedReplyError, match="not alike"):
        merged(of_rows(), of_rows(kind=4))


def test_without_results_the_reply_is_the_first_lists() -> None:
    body = request("vec", 1, ["text", "vec"], 50, None)
    call = ADAPTER.parse_request(SEARCH, body, Needs(known=SCHEMA))
    raw = Server(lists=((),)).answer(ADAPTER.widen(call, [50]))
    divided = Divided(ending=Ending(), parts=(), fusion=FUSION)
    assert ADAPTER.fused(divided, [ADAPTER.parse_reply(call, raw)] * 2, []) == raw


# Milvus replies over gRPC: every column is cut row by row, and what nobody here knows is malformed.

DYNAMIC = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"text", "big"}), is_dynamic=True)


def call(
    *, listed: tuple[str, ...] = ("text",), needs: Needs | None = None, queries: int = 1, top_k: int = 2
) -> SearchCall:
    operation = Operation(backend="milvus", name="search", collection="default/docs")
    body = request("vec", queries, list(listed), top_k, None)
    return ADAPTER.parse_request(operation, body, Needs(known=DYNAMIC) if needs is None else needs)


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
    result = kept(message, 2, search=call(listed=("text", "chunks"))).results.fields_data[-1]
    assert [list(element.long_data.data) for element in result.struct_arrays.fields[0].scalars.array_data.data] == [
        [2, 2]
    ]
    assert result.struct_arrays.fields[0].scalars.array_data.element_type == 5


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
    result = kept(message, 1, 2, search=search).results.fields_data[1]
    assert list((result if where == "column" else result.vectors).valid_data) == [False, True]
    assert list(result.vectors.float_vector.data) == ([4, 5] if is_compact else [2, 3, 4, 5])


def test_a_key_that_has_become_a_field_is_gone_as_well() -> None:
    search = call(needs=Needs(known=DYNAMIC, optional_fields=("page",)))
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
    lean = call(needs=Needs(known=DYNAMIC, vectors=False, optional_fields=("big",)))
    query = message_type("SearchRequest").FromString(ADAPTER.widen(lean, [24]))
    assert list(query.output_fields) == ["text", "big"]
    lean = call(needs=Needs(known=DYNAMIC, vectors=False))
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
        parsed = ADAPTER.parse_request(operation, message.SerializeToString(), Needs(known=DYNAMIC))
        return parsed.searches[0].partition

    assert partition() == b""
    assert partition("a", "b") == b"a\0b"
