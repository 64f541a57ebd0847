"""Ids are unique within a shard key only: points of two are never taken for one, over REST and gRPC."""

from __future__ import annotations

import orjson
import pytest
from qdrant_client import grpc as pb

from vecsieve.adapters.contract import Adapter, Needs, Operation, Pool
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.qdrant.rest import QdrantRest

QUERY = Operation(backend="qdrant", name="query", collection="c")
SEARCH = Operation(backend="qdrant", name="search", collection="c")


def pool(adapter: Adapter, request: bytes, reply: bytes) -> Pool:
    call = adapter.parse_request(QUERY, request, Needs())
    (candidates,) = adapter.parse_reply(call, reply).pools
    return candidates


def rest(*keys: object, compact: bool = True) -> Pool:
    points = [
        {"id": 1, "version": 7, "score": 0.5, "vector": [1, 2], **({} if key is None else {"shard_key": key})}
        for key in keys
    ]
    body = orjson.dumps({"result": {"points": points}}, option=0 if compact else orjson.OPT_INDENT_2)
    return pool(QdrantRest(), b'{"query":[1,2]}', body)


def grpc(*keys: pb.ShardKey | None) -> Pool:
    points = [pb.ScoredPoint(id=pb.PointId(num=1), version=7, score=0.5, shard_key=key) for key in keys]
    query = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 2])))
    request = pb.QueryPoints(collection_name="c", query=query).SerializeToString()
    return pool(QdrantGrpc(), request, pb.QueryResponse(result=points).SerializeToString())


@pytest.mark.parametrize("compact", [True, False])
def test_equal_ids_and_versions_of_two_shard_keys_differ_over_rest(compact: bool) -> None:
    candidates = rest("a", "b", 1, None, compact=compact)
    assert candidates.ids == (b"1",) * 4
    assert candidates.versions == (b'7 "a"', b'7 "b"', b"7 1", b"7 ")
    assert rest(None, None, compact=compact).versions == (b"7", b"7")


def test_equal_ids_and_versions_of_two_shard_keys_differ_over_grpc() -> None:
    candidates = grpc(pb.ShardKey(keyword="a"), pb.ShardKey(keyword="b"), pb.ShardKey(number=1), None)
    assert len(set(candidates.versions)) == 4
    assert grpc(None, None).versions == (b"7", b"7")


@pytest.mark.parametrize("selector", [b'"a"', b"7", b'["a","b"]'])
@pytest.mark.parametrize(("operation", "query"), [(QUERY, b'"query"'), (SEARCH, b'"vector"')])
def test_the_shard_keys_that_a_search_names_over_rest_are_its_partition(
    selector: bytes, operation: Operation, query: bytes
) -> None:
    def partition(more: bytes) -> bytes:
        body = b'{%s:[1,2],"limit":3%s}' % (query, more)
        return QdrantRest().parse_request(operation, body, Needs()).searches[0].partition

    assert partition(b',"shard_key":' + selector) == selector
    assert partition(b"") == partition(b',"shard_key":null') == b""


def test_the_shard_keys_that_a_search_names_over_grpc_are_its_partition() -> None:
    nearest = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 2])))

    def partitions(*names: str) -> set[bytes]:
        keys = pb.ShardKeySelector(shard_keys=[pb.ShardKey(keyword=name) for name in names]) if names else None
        query = pb.QueryPoints(collection_name="c", query=nearest, limit=3, shard_key_selector=keys)
        search = pb.SearchPoints(collection_name="c", vector=[1, 2], limit=3, shard_key_selector=keys)
        return {
            QdrantGrpc().parse_request(operation, message.SerializeToString(), Needs()).searches[0].partition
            for operation, message in ((QUERY, query), (SEARCH, search))
        }

    assert partitions() == {b""}
    assert len(partitions("a")) == len(partitions("b")) == 1
    assert partitions("a") != partitions("b")


def test_a_pool_says_over_grpc_whether_nested_fields_were_left_out_for_their_size() -> None:
    query = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 2])))
    request = pb.QueryPoints(collection_name="c", query=query).SerializeToString()

    def is_cut(size: int) -> bool:
        nested = pb.Value(struct_value=pb.Struct(fields={"text": pb.Value(string_value="x" * size)}))
        point = pb.ScoredPoint(id=pb.PointId(num=1), version=7, score=0.5, payload={"metadata": nested})
        call = QdrantGrpc().parse_request(QUERY, request, Needs(optional_fields=("metadata",)))
        return QdrantGrpc().parse_reply(call, pb.QueryResponse(result=[point] * 5).SerializeToString()).pools[0].is_cut

    assert not is_cut(100)
    assert is_cut(1 << 17)
