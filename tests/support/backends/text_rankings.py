"""One ranking of texts in each database, over each of its transports: a client's search of it, and what the database answers to any version of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from servers.pinecone.grpc_messages import message_type

from support.chroma import bodies as chroma_bodies
from support.chroma import model as chroma_model
from support.milvus import bodies as milvus_bodies
from support.milvus import model as milvus_model
from support.opensearch import bodies as opensearch_bodies
from support.opensearch import model as opensearch_model
from support.pinecone import messages as pinecone_messages
from support.pinecone import model as pinecone_model
from support.qdrant import grpc_bodies as qdrant_grpc_bodies
from support.qdrant import grpc_model as qdrant_grpc_model
from support.qdrant import model as qdrant_model
from support.weaviate import conversations as weaviate_talks
from support.weaviate import model as weaviate_model
from support.weaviate.messages import single
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Adapter, DescribesCollections, Dialect, Operation, RequestHead

TOP_K = 4
QUERY = [0.5, 1.0, -2.0, 0.25, 1.0, 0.75, -0.5, 1.5]


class Selected(Enum):
    """What of a payload the client's search selects: all of it, none of it, or the page's number alone."""

    ALL = "all"
    NONE = "none"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A stored result. ``text``: None is a result without one. ``direction``: results of one direction have the same vector; None is one without a
    vector.
    """

    rank: int
    text: str | None
    direction: int | None

    @property
    def vector(self) -> list[float]:
        """Different ones are far apart."""
        return [round(float(number), 3) for number in np.random.default_rng(self.direction).normal(size=8)]

    @property
    def score(self) -> float:
        """Exact as float32, and falling."""
        return 0.9375 - self.rank / 128


Ranking = Sequence[Ranked]
Answering = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A transport of a database. ``requesting``: a client's search. ``holding``: what answers it over a ranking. ``selections``: those that a client
    can make.
    """

    adapter: Adapter
    dialect: Dialect
    path: str
    requesting: Callable[[Selected], bytes]
    holding: Callable[[Ranking], Answering]
    selections: tuple[Selected, ...] = (Selected.ALL, Selected.NONE, Selected.PAGE)
    description: bytes | None = None

    @property
    def operation(self) -> Operation:
        head = RequestHead(method="POST", path=self.path, message=self.requesting(Selected.ALL))
        operation = self.adapter.classify(head)
        assert operation is not None
        return replace(operation, collection=operation.collection or "c")

    @property
    def known(self) -> object | None:
        """What the database says of the collection; None if nobody asks."""
        if self.description is None or not isinstance(self.adapter, DescribesCollections):
            return None
        return self.adapter.parse_description(self.description)


def _json_payload(ranked: Ranked) -> tuple[tuple[str, str], ...]:
    text = () if ranked.text is None else (("text", json.dumps(ranked.text)),)
    return (*text, ("page", str(ranked.rank)))


def _request_qdrant(selected: Selected) -> dict[str, Any]:
    with_payload = {Selected.ALL: True, Selected.NONE: False, Selected.PAGE: ["page"]}[selected]
    return {"query": QUERY, "limit": TOP_K, "with_payload": with_payload}


def _qdrant_point(ranked: Ranked) -> qdrant_model.Stored:
    vectors = () if ranked.direction is None else (("", json.dumps(ranked.vector)),)
    return qdrant_model.Stored(
        id=str(ranked.rank), score=str(ranked.score), payload=_json_payload(ranked), vectors=vectors
    )


def _qdrant(ranking: Ranking) -> Answering:
    return partial(qdrant_model.Server(points=tuple(map(_qdrant_point, ranking))).answer, "query")


def _qdrant_grpc(ranking: Ranking) -> Answering:
    points = (qdrant_grpc_bodies.stored_of(_qdrant_point(ranked), is_old=False) for ranked in ranking)
    return partial(qdrant_grpc_model.GrpcServer(points=tuple(points)).answer, "query")


def _request_pinecone(selected: Selected) -> dict[str, Any]:
    return {"vector": QUERY, "topK": TOP_K, "includeMetadata": selected is Selected.ALL}


def _pinecone(ranking: Ranking) -> Answering:
    records = tuple(
        pinecone_model.Stored(
            id=json.dumps(f"r{ranked.rank}"),
            score=str(ranked.score),
            fields=_json_payload(ranked),
            values="[]" if ranked.direction is None else json.dumps(ranked.vector),
        )
        for ranked in ranking
    )
    return partial(pinecone_model.Service(records=records).answer, "query")


def _request_pinecone_grpc(selected: Selected) -> bytes:
    return pinecone_messages.query(vector=QUERY, top_k=TOP_K, include_metadata=selected is Selected.ALL)


def _pinecone_grpc(ranking: Ranking) -> Answering:
    records = []
    for ranked in ranking:
        made = message_type("ScoredVector")(id=f"r{ranked.rank}", score=ranked.score)
        made.values.extend([] if ranked.direction is None else ranked.vector)
        made.metadata.update({key: json.loads(value) for key, value in _json_payload(ranked)})
        records.append(made)
    return pinecone_messages.Service(records=tuple(records)).answer


def _request_chroma(selected: Selected) -> bytes:
    include = {Selected.ALL: ["documents", "metadatas"], Selected.NONE: [], Selected.PAGE: ["metadatas"]}[selected]
    return json.dumps({"query_embeddings": [QUERY], "n_results": TOP_K, "include": [*include, "distances"]}).encode()


def _chroma(ranking: Ranking) -> Answering:
    records = tuple(
        chroma_model.Stored(
            id=json.dumps(f"r{ranked.rank}"),
            distance=str(1 - ranked.score),
            embedding="null" if ranked.direction is None else json.dumps(ranked.vector),
            document=json.dumps(ranked.text),
            metadata=(("page", str(ranked.rank)),),
        )
        for ranked in ranking
    )
    return chroma_model.Server(lists=(records,)).answer


def _request_opensearch(clause: dict[str, Any], selected: Selected) -> dict[str, Any]:
    source = {Selected.ALL: True, Selected.NONE: False, Selected.PAGE: ["page"]}[selected]
    return {**clause, "size": TOP_K, "_source": source}


def _opensearch(ranking: Ranking, *, is_opensearch: bool = False) -> Answering:
    hits = tuple(
        opensearch_model.Stored(
            id=json.dumps(f"r{ranked.rank}"),
            score=str(ranked.score),
            source=_json_payload(ranked),
            vector=None if ranked.direction is None else json.dumps(ranked.vector),
        )
        for ranked in ranking
    )
    return opensearch_model.Server(hits=hits, has_vectors=False, is_opensearch=is_opensearch, total=100).answer


_KNN_QUERY = {"query": {"knn": {opensearch_model.VECTOR: {"vector": QUERY, "k": 10}}}}
_TOP_LEVEL_KNN = {"knn": {**opensearch_bodies.KNN, "query_vector": QUERY}}

_MILVUS_FIELDS = {Selected.ALL: ["text", "big"], Selected.NONE: [], Selected.PAGE: ["big"]}


def _milvus_server(ranking: Ranking) -> milvus_model.Server:
    rows = tuple(
        milvus_model.Row(
            id=ranked.rank,
            score=ranked.score,
            values={**dict.fromkeys(milvus_model.NUMBERS), "text": ranked.text, "big": 7},
            vectors={
                **dict.fromkeys(milvus_model.VECTORS),
                "vec": None if ranked.direction is None else np.array(ranked.vector, "<f4").tobytes(),
            },
            meta={},
        )
        for ranked in ranking
    )
    return milvus_model.Server(lists=(rows,), nullable=True)


def _request_milvus_rest(selected: Selected) -> bytes:
    body = {"collectionName": "c", "data": [QUERY], "annsField": "vec", "limit": TOP_K}
    return json.dumps({**body, "outputFields": _MILVUS_FIELDS[selected]}).encode()


def _milvus_rest(ranking: Ranking) -> Answering:
    def answer(body: bytes) -> bytes:
        request = json.loads(body)
        start = request.get("offset", 0)
        rows = []
        for ranked in ranking[start : start + request["limit"]]:
            stored = {"big": 7, "text": ranked.text, "vec": None if ranked.direction is None else ranked.vector}
            visible = {name: stored[name] for name in request["outputFields"] if name in stored}
            rows.append(dict(sorted({"distance": ranked.score, "id": ranked.rank, **visible}.items())))
        return json.dumps({"code": 0, "data": rows}, separators=(",", ":")).encode()

    return answer


_MILVUS_DESCRIPTION = json.dumps(
    {
        "code": 0,
        "data": {
            "fields": [
                {"name": "id", "type": "Int64", "primaryKey": True},
                {"name": "text", "type": "VarChar(999)"},
                {"name": "big", "type": "Int64"},
                {"name": "vec", "type": "FloatVector(8)"},
            ],
            "enableDynamicField": False,
        },
    }
).encode()


def _request_weaviate(selected: Selected) -> bytes:
    properties = {Selected.ALL: None, Selected.NONE: {}, Selected.PAGE: {"non_ref_properties": ["page"]}}[selected]
    return weaviate_talks.search(
        collection="Docs",
        limit=TOP_K,
        metadata={"uuid": True, "distance": True},
        near_vector={"vectors": [single(QUERY)]},
        properties=properties,
    )


def _weaviate(ranking: Ranking) -> Answering:
    hits = tuple(
        weaviate_model.Hit(
            stored=weaviate_model.Stored(
                id=f"00000000-0000-0000-0000-{ranked.rank:012}",
                properties={key: json.loads(value) for key, value in _json_payload(ranked)},
                vector=None if ranked.direction is None else ranked.vector,
            ),
            number=1 - ranked.score,
        )
        for ranked in ranking
    )
    collection = weaviate_model.Collection(name="Docs", properties=("text", "page"))
    return weaviate_talks.Service(collection=collection, hits=hits).answer


def _over_rest(name: str, path: str, searching: Callable[[Selected], Any], **members: Any) -> Database:
    row = BACKENDS[name].rest

    def encoded(selected: Selected) -> bytes:
        body = searching(selected)
        return body if isinstance(body, bytes) else json.dumps(body).encode()

    return Database(adapter=row.adapter(), dialect=row.dialect(), path=path, requesting=encoded, **members)


def _over_grpc(name: str, path: str, searching: Callable[[Selected], bytes], **members: Any) -> Database:
    row = BACKENDS[name].grpc
    assert row is not None
    return Database(adapter=row.adapter(), dialect=row.dialect(), path=path, requesting=searching, **members)


_ALL_OR_NONE = (Selected.ALL, Selected.NONE)
DATABASES: dict[str, Database] = {
    "qdrant": _over_rest("qdrant", "/collections/c/points/query", _request_qdrant, holding=_qdrant),
    "qdrant over gRPC": _over_grpc(
        "qdrant",
        qdrant_grpc_bodies.path_of("query"),
        lambda selected: qdrant_grpc_bodies.message_of("query", _request_qdrant(selected)),
        holding=_qdrant_grpc,
    ),
    "pinecone": _over_rest("pinecone", "/query", _request_pinecone, holding=_pinecone, selections=_ALL_OR_NONE),
    "pinecone over gRPC": _over_grpc(
        "pinecone",
        "/VectorService/Query",
        _request_pinecone_grpc,
        holding=_pinecone_grpc,
        selections=_ALL_OR_NONE,
    ),
    "chroma": _over_rest("chroma", chroma_bodies.PATHS[0], _request_chroma, holding=_chroma),
    "milvus": _over_rest(
        "milvus",
        "/v2/vectordb/entities/search",
        _request_milvus_rest,
        holding=_milvus_rest,
        description=_MILVUS_DESCRIPTION,
    ),
    "milvus over gRPC": _over_grpc(
        "milvus",
        "/milvus.proto.milvus.MilvusService/Search",
        lambda selected: milvus_bodies.request("vec", 1, _MILVUS_FIELDS[selected], TOP_K, None),
        holding=lambda ranking: _milvus_server(ranking).answer,
        description=_milvus_server(()).schema.SerializeToString(),
    ),
    "opensearch": _over_rest(
        "opensearch",
        opensearch_bodies.PATHS[0],
        partial(_request_opensearch, _KNN_QUERY),
        holding=partial(_opensearch, is_opensearch=True),
    ),
    "elasticsearch": _over_rest(
        "elasticsearch",
        opensearch_bodies.PATHS[0],
        partial(_request_opensearch, _TOP_LEVEL_KNN),
        holding=_opensearch,
        description=b'{"version":{"number":"9.3.1"}}',
    ),
    "weaviate over gRPC": _over_grpc("weaviate", weaviate_talks.PATH, _request_weaviate, holding=_weaviate),
}
