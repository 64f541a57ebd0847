from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from qdrant_client import grpc
from qdrant_client.conversions.conversion import payload_to_grpc

from support.qdrant.grpc_conversations import Twins, twins
from support.qdrant.grpc_model import TIME, field
from vecsieve.adapters.contract import (
    Adapter,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.qdrant.grpc_reply import compare, find_best, named, vector_of
from vecsieve.adapters.qdrant.grpc_schema import proto
from vecsieve.adapters.qdrant.rest import QdrantRest
from vecsieve.adapters.wire.schema import parsed

DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
ADAPTER = QdrantGrpc()
PLAIN = Needs()


def call(message: Any, needs: Needs, *, name: str = "query") -> SearchCall:
    operation = Operation(backend="qdrant", name=name, collection="c")
    return ADAPTER.parse_request(operation, message.SerializeToString(), needs)


def one() -> SearchCall:
    return call(grpc.QueryPoints(query=DENSE, using="a"), PLAIN)


def sparse(needs: Needs = PLAIN) -> SearchCall:
    query = grpc.Query(nearest=grpc.VectorInput(sparse=grpc.SparseVector(values=[1.0], indices=[1])))
    return call(grpc.QueryPoints(query=query, using="s"), needs)


def point(number: int, **vectors: list[float]) -> Any:
    inside = {name: grpc.VectorOutput(dense=grpc.DenseVector(data=value)) for name, value in vectors.items()}
    stored = grpc.VectorsOutput(vectors=grpc.NamedVectorsOutput(vectors=inside)) if inside else None
    return grpc.ScoredPoint(id=grpc.PointId(num=number), score=0.5, vectors=stored)


def pool(parsed: SearchCall, *points: Any) -> Pool:
    body = grpc.QueryResponse(result=points, time=0.1).SerializeToString()
    (candidates,) = ADAPTER.parse_reply(parsed, body).pools
    return candidates


def test_a_pool_is_what_the_points_say() -> None:
    candidates = pool(one(), point(1, a=[1.0, 0.0]), point(2), point(3, a=[0.0, 1.0]))
    assert candidates.ids == (b"1", b"2", b"3")
    assert candidates.scores.tolist() == [0.5] * 3
    assert candidates.scores.dtype == np.float64
    np.testing.assert_array_equal(candidates.vectors, [[1, 0], [np.nan] * 2, [0, 1]])
    assert (candidates.unusable, candidates.vector_name, candidates.compared_by) == (1, None, "a")
    assert candidates.fields == ((), (), ())


def test_a_vector_that_was_found_by_asking_for_all_is_to_be_remembered() -> None:
    candidates = pool(sparse(), point(1, a=[1.0, 0.0], b=[1.0]))
    assert (candidates.vector_name, candidates.compared_by) == ("b", "b")
    candidates = pool(sparse(), point(1))
    assert (candidates.vector_name, candidates.compared_by, candidates.unusable) == (None, None, 1)
    candidates = pool(sparse(Needs(vector_hint="a")), point(1, a=[1.0, 0.0]))
    assert (candidates.vector_name, candidates.compared_by) == (None, "a")


def test_each_search_of_a_batch_has_its_own_list() -> None:
    items = [grpc.QueryPoints(query=DENSE, limit=limit) for limit in (2, 1, 3)]
    parsed = call(grpc.QueryBatchPoints(query_points=items), Needs(), name="query_batch")
    lists = [grpc.BatchResult(result=[point(number)]) for number in (1, 2, 3)]
    pools = ADAPTER.parse_reply(parsed, grpc.QueryBatchResponse(result=lists).SerializeToString()).pools
    assert [part.ids for part in pools] == [(b"1",), (b"3",)]
    for wrong in (lists[:2], [*lists, lists[0]]):
        with pytest.raises(MalformedReplyError, match=f"{len(wrong)} results, wanted 3"):
            ADAPTER.parse_reply(parsed, grpc.QueryBatchResponse(result=wrong).SerializeToString())


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        field(1, b""),
        field(1, field(1, b"")),
        field(1, field(1, b"\x08\x01") + field(6, b"\x08")),
        field(1, field(1, b"\x08\x01"))[:-1],
        TIME[:-1],
    ],
)
def test_what_is_no_reply_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(one(), body)


def answered(adapter: Adapter, talk: Any, operation: str, needs: Needs) -> tuple[Pool, ...]:
    named = Operation(backend="qdrant", name=operation, collection="c")
    try:
        parsed = adapter.parse_request(named, talk.body, needs)
    except UnsupportedError as verdict:
        assume(verdict.reason is None)
        raise
    wide = adapter.widen(parsed, [3 * (search.top_k + search.offset) for search in parsed.searches])
    return adapter.parse_reply(parsed, talk.answer(wide)).pools


@given(
    both=twins(),
    needs=st.sampled_from([Needs(), Needs(vector_name="dense"), Needs(vector_hint="dense"), Needs(vector_name="")]),
)
def test_rest_and_grpc_see_the_same_candidates(both: Twins, needs: Needs) -> None:
    """The same points by both interfaces are the same pools, scores within a float of 32 bits."""
    rest = answered(QdrantRest(), both.rest, both.operation, needs)
    answer = answered(ADAPTER, both.grpc, both.operation, needs)
    assert len(answer) == len(rest)
    for ours, theirs in zip(answer, rest, strict=True):
        assert ours.ids == theirs.ids
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-6)
        np.testing.assert_allclose(ours.vectors, theirs.vectors, rtol=1e-6)
        assert ours.unusable == theirs.unusable
        assert (ours.vector_name, ours.compared_by) == (theirs.vector_name, theirs.compared_by)


@given(both=twins(operation="query"))
def test_rest_and_grpc_see_the_same_payload(both: Twins) -> None:
    """What gRPC can say of a payload reads as REST's JSON does."""
    needs = Needs(optional_fields=("text", "doc", "vector", "id"))
    rest = answered(QdrantRest(), both.rest, both.operation, needs)
    answer = answered(ADAPTER, both.grpc, both.operation, needs)
    for ours, theirs in zip(answer, rest, strict=True):
        for mine, other in zip(ours.fields, theirs.fields, strict=True):
            pairs = [(json.loads(raw), json.loads(known or b"")) for raw, known in zip(mine, other, strict=True) if raw]
            assert [first for first, _ in pairs] == [second for _, second in pairs]


# The points of a reply: ids, scores and payload keys, against messages of the official client, and against what no server writes.

UUID = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"
QUERY = Operation(backend="qdrant", name="query", collection="c")
ALL = grpc.WithPayloadSelector(enable=True)


def scored_point(**members: Any) -> Any:
    return grpc.ScoredPoint(**{"id": grpc.PointId(num=7), "score": 0.5, "version": 3, **members})


def listed(*messages: Any) -> bytes:
    inside = [message if isinstance(message, bytes) else message.SerializeToString() for message in messages]
    return b"".join(field(1, item) for item in inside)


def pool_of(data: bytes, needs: Needs) -> Pool:
    request = grpc.QueryPoints(query=DENSE, with_payload=ALL).SerializeToString()
    (pool,) = ADAPTER.parse_reply(ADAPTER.parse_request(QUERY, request, needs), data).pools
    return pool


def read(*messages: Any, **needs: Any) -> Pool:
    return pool_of(listed(*messages), Needs(**needs))


def test_a_version_is_that_of_a_shard() -> None:
    pool = read(scored_point(shard_key=grpc.ShardKey(keyword="eu")), scored_point(version=0))
    assert pool.versions == (b"3 " + grpc.ShardKey(keyword="eu").SerializeToString(), b"0")


@pytest.mark.parametrize(
    ("identity", "raw"),
    [
        (grpc.PointId(num=0), b"0"),
        (grpc.PointId(num=2**64 - 1), b"18446744073709551615"),
        (grpc.PointId(uuid=UUID), f'"{UUID}"'.encode()),
        (grpc.PointId(uuid='a"b'), b'"a\\"b"'),
        (grpc.PointId(uuid=""), b'""'),
    ],
)
def test_identifiers_are_spelled_as_in_rest(identity: Any, raw: bytes) -> None:
    assert read(scored_point(id=identity)).ids == (raw,)


@pytest.mark.parametrize("identity", [b"", b"\x1a\x01a", b"\x12\x01\xff", b"\x08", b"\x0a\x01a"])
def test_an_identifier_that_cannot_be_told_is_refused(identity: bytes) -> None:
    with pytest.raises(MalformedReplyError, match=r"an id is neither|utf-8|Error parsing"):
        read(field(1, identity))


@pytest.mark.parametrize(
    "inside",
    [
        b"",
        field(1, b"\x08\x01") + b"\x1d123",
        field(1, b"\x08\x01") + b"\x12\x05a",
        field(1, b"\x08\x01") + b"\x28",
        field(1, b"\x08\x01") + b"\x0b",
        b"\x08\x01",
        b"\xff",
        b"\x0b" * 200 + b"\x0c" * 200,
        b"\x0a\xff\xff\xff\xff\x07",
        b"\x28" + b"\xff" * 20,
    ],
)
def test_what_is_no_point_is_refused(inside: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        read(inside)


def test_what_is_set_twice_is_read_as_by_any_reader() -> None:
    pool = read(field(1, b"\x08\x01") + field(1, b"\x08\x02") + b"\x1d\x00\x00\x80\x3f" * 2 + b"\x28\x01\x28\x02")
    assert (pool.ids, pool.scores.tolist(), pool.versions) == ((b"2",), [1.0], (b"2",))


def test_payload_keys_are_read_and_what_is_absent_is_none() -> None:
    payload = payload_to_grpc({"text": "größe", "n": 3, "d": 3.0, "deep": {"a": [1, None]}, "": "", "none": None})
    keys = ("text", "gone", "deep", "d", "", "none", "\ud800")
    pool = read(scored_point(payload=payload), scored_point(), payload_fields=("n",), optional_fields=keys)
    expected = (b"3", '"größe"'.encode(), None, b'{"a":[1,null]}', b"3.0", b'""', b"null", None)
    assert pool.fields == (expected, (None,) * 8)
    assert read(scored_point(payload=payload), scored_point()).fields == ((), ())


def test_of_a_key_that_is_set_twice_the_last_value_counts() -> None:
    entries = [field(2, field(1, b"text") + field(2, field(4, text))) for text in (b"a", b"b")]
    turned = field(2, field(2, field(4, b"c")) + field(1, b"n"))
    pool = read(field(1, b"\x08\x01") + b"".join(entries) + turned, optional_fields=("text", "n"))
    assert pool.fields == ((b'"b"', b'"c"'),)


def test_whole_payloads_keep_the_order_of_their_keys() -> None:
    entries = [field(2, field(1, key) + field(2, field(4, key))) for key in (b"z", b"a", b"m")]
    pool = read(
        field(1, b"\x08\x01") + b"".join(entries),
        scored_point(),
        scored_point(payload={"x": grpc.Value(integer_value=1)}),
    )
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == (b'{"z":"z","a":"a","m":"m"}', b"{}")


@pytest.mark.parametrize("value", [field(99, b""), field(4, b"\xff"), b"\x18\x05\x28\x01"])
def test_a_value_that_cannot_be_spelled_is_absent_where_it_is_optional_and_never_decides_about_tenants(
    value: bytes,
) -> None:
    odd = field(1, b"text") + field(2, value)
    tenant = field(1, b"who") + field(2, b"\x18\x05")
    data = field(1, b"\x08\x01") + field(2, odd) + field(2, tenant)
    assert read(data, payload_fields=("who",), optional_fields=("text", "other")).fields == ((b"5", None, None),)
    with pytest.raises(MalformedReplyError):
        read(data, payload_fields=("text",))


def test_a_key_that_is_no_text_hides_no_other() -> None:
    odd = field(2, field(1, b"\xff") + field(2, field(4, b"x")))
    pool = read(
        scored_point().SerializeToString() + odd,
        scored_point(payload=payload_to_grpc({"a": "b"})),
        optional_fields=("a",),
    )
    assert pool.fields == ((None,), (b'"b"',))
    assert pool.payloads is not None
    assert pool.payloads(range(2)) == ('{"\ufffd":"x"}'.encode(), b'{"a":"b"}')


identities = st.one_of(
    st.builds(grpc.PointId, num=st.integers(0, 2**64 - 1)), st.builds(grpc.PointId, uuid=st.uuids().map(str))
)
written = st.builds(
    grpc.ScoredPoint,
    id=identities,
    payload=st.dictionaries(st.text(max_size=3), st.builds(grpc.Value, string_value=st.text(max_size=300)), max_size=3),
    score=st.floats(width=32),
    version=st.integers(0, 2**64 - 1),
    shard_key=st.none() | st.builds(grpc.ShardKey, keyword=st.text(max_size=3)),
    order_value=st.none() | st.builds(grpc.OrderValue, int=st.integers(0, 9)),
)


@given(points=st.lists(written, max_size=4), at=st.integers(0, 400), cut=st.integers(0, 40), more=st.binary(max_size=6))
def test_a_damaged_list_is_read_or_malformed(points: list[Any], at: int, cut: int, more: bytes) -> None:
    data = listed(*points) + TIME
    needs = Needs(optional_fields=("", "a"))
    assert pool_of(data, needs).size == len(points)
    try:
        pool = pool_of(data[:at] + more + data[at + cut :], needs)
    except MalformedReplyError:
        return
    assert pool.payloads is not None
    assert len(pool.payloads(range(pool.size))) == pool.size


BARE = field(1, field(1, b"\x08\x01"))
ENTRY = field(2, field(1, b"k") + field(2, b""))


@pytest.mark.parametrize(
    "data", [field(1, b"") * 2**19, BARE * 2**18, field(1, field(1, b"\x08\x01") + ENTRY * 2**18), BARE * 2**16]
)
def test_a_reply_of_very_many_parts_is_refused_before_it_is_parsed(data: bytes) -> None:
    with pytest.raises(MalformedReplyError, match=r"too_many_parts|points"):
        pool_of(data + bytes((0x52,)) + b"\x00", Needs())


def output(value: Any, *, is_old: bool = False) -> Any:
    """A VectorOutput: of numbers, of rows, or of {index: number}."""
    if isinstance(value, dict):
        indices, values = list(value), list(value.values())
        if is_old:
            return grpc.VectorOutput(data=values, indices=grpc.SparseIndices(data=indices))
        return grpc.VectorOutput(sparse=grpc.SparseVector(values=values, indices=indices))
    if value and isinstance(value[0], list):
        if is_old:
            return grpc.VectorOutput(data=[number for vector in value for number in vector], vectors_count=len(value))
        rows = [grpc.DenseVector(data=vector) for vector in value]
        return grpc.VectorOutput(multi_dense=grpc.MultiDenseVector(vectors=rows))
    return grpc.VectorOutput(data=value) if is_old else grpc.VectorOutput(dense=grpc.DenseVector(data=value))


def bare(value: Any, *, is_old: bool = False) -> bytes:
    data: bytes = grpc.VectorsOutput(vector=output(value, is_old=is_old)).SerializeToString()
    return data


def several(values: dict[str, Any], *, is_old: bool = False) -> bytes:
    entries = [
        field(1, field(1, name.encode()) + field(2, output(value, is_old=is_old).SerializeToString()))
        for name, value in values.items()
    ]
    return field(2, b"".join(entries))


def stored(vectors: bytes | None) -> Any:
    return proto.Vectors.FromString(vectors or b"")


def vectors_of(vectors: list[bytes | None]) -> list[Any]:
    return [vector_of(stored(vector), "") for vector in vectors]


def compared(values: list[Any], *, is_old: bool) -> Any:
    return compare(vectors_of([None if value is None else bare(value, is_old=is_old) for value in values]))


both_ways = pytest.mark.parametrize("is_old", [True, False])


def test_names_of_a_points_vectors() -> None:
    assert named(stored(bare([1.0]))).keys() == {""}
    assert named(stored(several({"a": [1.0], "": [2.0]}))).keys() == {"a", ""}
    assert named(stored(field(2, b""))) == named(stored(b"")) == {}


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        named(stored(field(2, field(1, field(1, b"\xff")))))


def test_vectors_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="both one and named"):
        named(stored(bare([1.0]) + field(2, b"")))


@both_ways
@pytest.mark.parametrize(
    ("point", "prefers", "expected"),
    [
        ({"d": [1.0, 2.0], "s": {1: 1.0}, "m": [[1.0]]}, "s", "d"),
        ({"d": [1.0], "": [1.0, 2.0]}, "d", ""),
        ({"d": [1.0, 2.0, 3.0], "e": [1.0, 2.0]}, "d", "e"),
        ({"s": {1: 1.0}, "t": {1: 1.0}}, "t", "t"),
        ({"m": [[1.0]], "t": {1: 1.0}}, "gone", "t"),
        ({"n": [[1.0]], "m": [[1.0]]}, "gone", "m"),
        ({"": [[1.0]], "s": {1: 1.0}}, "s", "s"),
        ({}, "s", None),
    ],
)
def test_the_best_vector_to_compare_by(point: dict[str, Any], prefers: str, expected: str | None, is_old: bool) -> None:
    rows = [named(stored(several(row, is_old=is_old))) for row in ({}, point)]
    assert find_best(rows, prefers) == expected


@both_ways
def test_sparse_vectors_become_rows_over_the_union_of_their_indices(is_old: bool) -> None:
    result = compared([{70000: 0.5, 3: 1.0}, None, {5: 2.0}, {3: 1.0}, [1.0]], is_old=is_old)
    none = [np.nan] * 3
    np.testing.assert_array_equal(result, [[1.0, 0.0, 0.5], none, [0.0, 2.0, 0.0], [1.0, 0.0, 0.0], none])


def test_a_sparse_vector_with_more_indices_than_values_cannot_be_used() -> None:
    old = grpc.VectorOutput(data=[1.0], indices=grpc.SparseIndices(data=[1, 2])).SerializeToString()
    new = grpc.VectorOutput(sparse=grpc.SparseVector(values=[1.0], indices=[1, 2])).SerializeToString()
    assert compare(vectors_of([field(1, old), field(1, new), bare({}), bare({}, is_old=True)])).shape == (4, 0)


@both_ways
def test_multivectors_are_not_compared(is_old: bool) -> None:
    result = compared([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[1.0, np.nan]], [1.0, 2.0], None], is_old=is_old)
    assert result.shape == (5, 0)


@pytest.mark.parametrize("vector", [field(102, field(2, b"\xff")), b"\xff"])
def test_what_is_no_vector_is_refused(vector: bytes) -> None:
    with pytest.raises(ValueError, match="Error parsing"):
        parsed(proto.Vectors, field(1, vector))


@pytest.mark.parametrize(
    "vectors", [[], [None], [None, bare([])], [bare([], is_old=True)], [bare({})], [field(1, b"")]]
)
def test_a_pool_without_vectors_has_no_columns(vectors: list[bytes | None]) -> None:
    assert compare(vectors_of(vectors)).shape == (len(vectors), 0)


@pytest.mark.parametrize("vector", [field(101, field(1, b"123")), field(1, b"123")])
def test_numbers_that_are_no_floats_are_refused(vector: bytes) -> None:
    with pytest.raises(ValueError, match="buffer size"):
        compare(vectors_of([field(1, vector)]))
