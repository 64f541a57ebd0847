"""REST searches said in gRPC, message for message, by the official client's own conversions; and answers read back."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import grpc as pb
from qdrant_client import models
from qdrant_client.conversions.conversion import RestToGrpc

from support.qdrant.grpc_bodies import METHODS
from vecsieve.adapters.wire.protobuf import fields

REPLIES = {
    **dict.fromkeys(("Query", "Search", "Recommend", "Discover"), pb.QueryResponse),
    **dict.fromkeys(("QueryBatch", "SearchBatch", "RecommendBatch", "DiscoverBatch"), pb.QueryBatchResponse),
}
_TIME = b"\x11" + struct.pack("<d", 0.0)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GrpcSearch:
    """One search as a call. ``name``: the method's last word."""

    name: str
    message: bytes

    @property
    def method(self) -> str:
        return f"/qdrant.Points/{self.name}"

    def results(self, reply: bytes) -> list[list[bytes]]:
        """The points of each ranked list of a reply, as they are written."""
        whole = _results(reply)
        return [_results(message) for message in whole] if self.name.endswith("Batch") else [whole]


def grpc_search(operation: str, collection: str, items: tuple[Json, ...], *, is_batch: bool) -> GrpcSearch:
    """The call that says what these items of a REST body say."""
    messages = [_ITEMS[operation](item, collection) for item in items]
    if not is_batch:
        return GrpcSearch(METHODS[operation], messages[0].SerializeToString())
    batch = getattr(pb, f"{METHODS[operation]}BatchPoints")
    return GrpcSearch(
        METHODS[f"{operation}_batch"],
        batch(collection_name=collection, **{f"{operation}_points": messages}).SerializeToString(),
    )


def timeless(reply: bytes) -> bytes:
    """The reply with the one field that differs between two equal calls blanked."""
    times = [field for field in fields(reply) if field.number == 2]
    for field in times:
        reply = reply[: field.start] + _TIME + reply[field.end :]
    return reply


def point_of(raw: bytes) -> Any:
    """One point of a reply, read by protobuf's own library."""
    return pb.ScoredPoint.FromString(raw)


def id_of(raw: bytes) -> int | str:
    """A point's id as REST writes it."""
    identifier = point_of(raw).id
    return str(identifier.uuid) if identifier.WhichOneof("point_id_options") == "uuid" else int(identifier.num)


def _results(message: bytes) -> list[bytes]:
    return [message[field.value : field.end] for field in fields(message) if field.number == 1]


def _query(item: Json, collection: str) -> Any:
    model = models.QueryRequest.model_validate(_renamed(item, {"with_vectors": "with_vector"}))
    return RestToGrpc.convert_query_request(model, collection)


def _search(item: Json, collection: str) -> Any:
    vector, name = item["vector"], ""
    if isinstance(vector, dict) and "name" in vector:
        vector, name = vector["vector"], vector["name"]
    sparse = isinstance(vector, dict)
    indices = pb.SparseIndices(data=vector["indices"]) if sparse else None
    numbers = vector["values"] if sparse else vector
    return pb.SearchPoints(
        **_common(item, collection), vector=numbers, sparse_indices=indices, vector_name=name or None
    )


def _recommend(item: Json, collection: str) -> Any:
    strategy = item.get("strategy")
    options: dict[str, Any] = {} if strategy is None else {"strategy": _STRATEGIES[strategy]}
    examples: dict[str, Any] = {}
    for side in ("positive", "negative"):
        given = item.get(side, [])
        examples[side] = [_id(one) for one in given if not isinstance(one, (list, dict))]
        examples[f"{side}_vectors"] = [_vector(one) for one in given if isinstance(one, (list, dict))]
    return pb.RecommendPoints(**_common(item, collection), **_among(item), **options, **examples)


def _discover(item: Json, collection: str) -> Any:
    context = [
        pb.ContextExamplePair(positive=_example(pair["positive"]), negative=_example(pair["negative"]))
        for pair in item.get("context", [])
    ]
    target = pb.TargetVector(single=_example(item["target"]))
    common = _common({name: value for name, value in item.items() if name != "score_threshold"}, collection)
    return pb.DiscoverPoints(**common, **_among(item), target=target, context=context)


_ITEMS = {"query": _query, "search": _search, "recommend": _recommend, "discover": _discover}
_STRATEGIES = {"average_vector": 0, "best_score": 1, "sum_scores": 2}


def _common(item: Json, collection: str) -> dict[str, Any]:
    """What all legacy searches share."""
    given = _renamed(item, {"top": "limit", "with_vector": "with_vectors"})
    made: dict[str, Callable[[Any], Any]] = {
        "limit": lambda value: value,
        "offset": lambda value: value,
        "score_threshold": lambda value: value,
        "with_vectors": RestToGrpc.convert_with_vectors,
        "with_payload": lambda value: RestToGrpc.convert_with_payload_interface(_payload(value)),
        "filter": lambda value: RestToGrpc.convert_filter(models.Filter.model_validate(value)),
        "params": lambda value: RestToGrpc.convert_search_params(models.SearchParams.model_validate(value)),
    }
    present = {name: convert(given[name]) for name, convert in made.items() if given.get(name) is not None}
    return {"collection_name": collection, **present}


def _among(item: Json) -> dict[str, Any]:
    members: dict[str, Any] = {"using": item.get("using")}
    there = item.get("lookup_from")
    if there is not None:
        members["lookup_from"] = pb.LookupLocation(collection_name=there["collection"], vector_name=there.get("vector"))
    return members


def _payload(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return models.PayloadSelectorExclude(**value) if "exclude" in value else models.PayloadSelectorInclude(**value)


def _renamed(item: Json, names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in item.items()}


def _id(value: int | str) -> Any:
    return RestToGrpc.convert_extended_point_id(value)


def _vector(value: Any) -> Any:
    if isinstance(value, dict):
        return pb.Vector(sparse=pb.SparseVector(values=value["values"], indices=value["indices"]))
    if value and isinstance(value[0], list):
        return pb.Vector(multi_dense=pb.MultiDenseVector(vectors=[pb.DenseVector(data=row) for row in value]))
    return pb.Vector(dense=pb.DenseVector(data=value))


def _example(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        return pb.VectorExample(vector=_vector(value))
    return pb.VectorExample(id=_id(value))
