"""A Qdrant REST request and a stored point, said in gRPC: the same content by two interfaces.

Requests are the official client's own messages; what its JSON leaves out or sets to null is left out of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from qdrant_client import grpc

from support.qdrant.grpc_model import GrpcStored, field
from support.qdrant.model import Stored

Json = dict[str, Any]

METHODS = {
    "query": "Query",
    "query_batch": "QueryBatch",
    "search": "Search",
    "search_batch": "SearchBatch",
    "recommend": "Recommend",
    "recommend_batch": "RecommendBatch",
    "discover": "Discover",
    "discover_batch": "DiscoverBatch",
}
UNKNOWN_FIELD = field(99, b"later")


def path_of(operation: str) -> str:
    return f"/qdrant.Points/{METHODS[operation]}"


def message_of(operation: str, document: Json) -> bytes:
    """The gRPC request that says what a REST body says, for collection "c"."""
    name, _, is_batch = operation.partition("_")
    if not is_batch:
        return item_of(name, document)
    head = field(1, b"c")
    return head + b"".join(field(2, item_of(name, item)) for item in document["searches"])


def item_of(name: str, item: Json) -> bytes:
    members = {key: value for key, value in item.items() if value is not None}
    message = {"query": _query, "search": _search, "recommend": _recommend, "discover": _discover}[name](members)
    limit = members.get("limit", None if name == "query" else members.get("top"))
    if limit is not None:
        message.limit = limit
    if "offset" in members:
        message.offset = members["offset"]
    vectors = members.get("with_vector", None if name == "discover" else members.get("with_vectors"))
    if vectors is not None:
        message.with_vectors.CopyFrom(_vector_selector(vectors))
    if "with_payload" in members:
        message.with_payload.CopyFrom(_payload_selector(members["with_payload"]))
    if "filter" in members:
        condition = grpc.FieldCondition(key="limit", match=grpc.Match(keyword="offset"))
        message.filter.must.append(grpc.Condition(field=condition))
    data: bytes = message.SerializeToString()
    return data + (UNKNOWN_FIELD if "not_known" in members else b"")


def stored_of(point: Stored, *, is_old: bool) -> GrpcStored:
    """A stored point in gRPC. Payload that its values cannot hold is left out."""
    number = json.loads(point.id)
    return GrpcStored(
        id=grpc.PointId(num=number) if isinstance(number, int) else grpc.PointId(uuid=number),
        score=float("nan") if point.score == "null" else float(point.score),
        payload=tuple((key, _value(json.loads(text))) for key, text in point.payload if _fits(json.loads(text))),
        vectors=tuple((name, _output(json.loads(text), is_old=is_old)) for name, text in point.vectors),
        shard_key=None
        if point.shard_key is None
        else field(1, json.loads(point.shard_key).encode())
        if point.shard_key.startswith('"')
        else b"\x10\x01",
        more=UNKNOWN_FIELD if point.version == 4 else b"",
    )


def _query(members: Json) -> Any:
    message = grpc.QueryPoints(collection_name="c", using=members.get("using"))
    if "query" in members:
        message.query.CopyFrom(_variant(members["query"]))
    prefetch = members.get("prefetch", [])
    message.prefetch.extend(_prefetch(search) for search in (prefetch if isinstance(prefetch, list) else [prefetch]))
    return message


def _search(members: Json) -> Any:
    vector, name = members["vector"], None
    if isinstance(vector, dict):
        name, vector = vector["name"], vector["vector"]
    if isinstance(vector, dict):
        indices = grpc.SparseIndices(data=vector["indices"])
        return grpc.SearchPoints(collection_name="c", vector=vector["values"], sparse_indices=indices, vector_name=name)
    if any(isinstance(row, list) for row in vector):
        vector = []  # a multivector, which neither interface takes here
    return grpc.SearchPoints(collection_name="c", vector=vector, vector_name=name)


def _recommend(members: Json) -> Any:
    return grpc.RecommendPoints(
        collection_name="c",
        positive=[grpc.PointId(num=one) for one in members.get("positive", [])],
        strategy=grpc.RecommendStrategy.BestScore,
        using=members.get("using"),
    )


def _discover(members: Json) -> Any:
    example = grpc.VectorExample(id=grpc.PointId(num=1))
    pair = grpc.ContextExamplePair(positive=example, negative=example)
    target = grpc.TargetVector(single=example)
    return grpc.DiscoverPoints(collection_name="c", target=target, context=[pair], using=members.get("using"))


def _prefetch(members: Json) -> Any:
    inner = members.get("prefetch", [])
    message = grpc.PrefetchQuery(using=members.get("using"), limit=members.get("limit"))
    message.prefetch.extend(_prefetch(search) for search in (inner if isinstance(inner, list) else [inner]))
    if "query" in members:
        message.query.CopyFrom(_variant(members["query"]))
    return message


def _variant(query: Any) -> Any:
    if not isinstance(query, dict) or "indices" in query:
        return grpc.Query(nearest=_input(query))
    tag = next(iter(query))
    if tag == "nearest" and query.get("mmr") is not None:
        return grpc.Query(nearest_with_mmr=grpc.NearestInputWithMmr(nearest=_input(query["nearest"]), mmr=grpc.Mmr()))
    kinds: dict[str, Callable[[], Json]] = {
        "nearest": lambda: {"nearest": _input(query["nearest"])},
        "recommend": lambda: {"recommend": grpc.RecommendInput(positive=[_input(1)])},
        "context": lambda: {"context": grpc.ContextInput()},
        "fusion": lambda: {"fusion": grpc.Fusion.RRF},
        "rrf": lambda: {"rrf": grpc.Rrf(k=2)},
        "formula": lambda: {"formula": grpc.Formula(expression=grpc.Expression(variable="$score"))},
        "sample": lambda: {"sample": grpc.Sample.Random},
    }
    return grpc.Query(**kinds[tag]())


def _input(value: Any) -> Any:
    if isinstance(value, int):
        return grpc.VectorInput(id=grpc.PointId(num=value))
    if isinstance(value, str):
        return grpc.VectorInput(id=grpc.PointId(uuid=value))
    if isinstance(value, dict):
        return grpc.VectorInput(sparse=grpc.SparseVector(values=value["values"], indices=value["indices"]))
    if value and isinstance(value[0], list):
        rows = [grpc.DenseVector(data=row) for row in value]
        return grpc.VectorInput(multi_dense=grpc.MultiDenseVector(vectors=rows))
    return grpc.VectorInput(dense=grpc.DenseVector(data=value))


def _vector_selector(value: Any) -> Any:
    if isinstance(value, bool):
        return grpc.WithVectorsSelector(enable=value)
    return grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=value))


def _payload_selector(value: Any) -> Any:
    if isinstance(value, bool):
        return grpc.WithPayloadSelector(enable=value)
    if isinstance(value, dict) and "exclude" in value:
        return grpc.WithPayloadSelector(exclude=grpc.PayloadExcludeSelector(fields=value["exclude"]))
    chosen = value["include"] if isinstance(value, dict) else value
    return grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=chosen))


def _output(value: Any, *, is_old: bool) -> bytes:
    message: Any = grpc.VectorOutput()
    if isinstance(value, dict):
        if is_old:
            message.data.extend(value["values"])
            message.indices.data.extend(value["indices"])
        else:
            message.sparse.values.extend(value["values"])
            message.sparse.indices.extend(value["indices"])
    elif value and isinstance(value[0], list):
        if is_old:
            message.data.extend(number for row in value for number in row)
            message.vectors_count = len(value)
        else:
            message.multi_dense.vectors.extend(grpc.DenseVector(data=row) for row in value)
    elif is_old:
        message.data.extend(value)
    else:
        message.dense.data.extend(value)
    data: bytes = message.SerializeToString()
    return data


def _fits(value: Any) -> bool:
    """Whether a payload's value can be said in gRPC: texts are Unicode, integers of 64 bits."""
    try:
        _value(value)
    except (ValueError, UnicodeError):
        return False
    return True


def _value(value: Any) -> bytes:
    """A Value, its maps in the order of the JSON."""
    if isinstance(value, dict):
        entries = [field(1, field(1, key.encode()) + field(2, _value(inner))) for key, inner in value.items()]
        return field(6, b"".join(entries))
    if isinstance(value, list):
        return field(7, b"".join(field(1, _value(inner)) for inner in value))
    if isinstance(value, str):
        return field(4, value.encode())
    data: bytes
    if value is None:
        data = b"\x08\x00"
    elif isinstance(value, bool):
        data = grpc.Value(bool_value=value).SerializeToString()
    elif isinstance(value, int):
        data = grpc.Value(integer_value=value).SerializeToString()
    else:
        data = grpc.Value(double_value=value).SerializeToString()
    return data
