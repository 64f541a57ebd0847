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
        return [round(float(each), 3) for each in np.random.default_rng(self.direction).normal(size=8)]

    @property
    def score(self) -> float:
        """Exact as float32, and falling."""
        return 0.9375 - self.rank / 128


Ranking = Sequence[Ranked]
Answering = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A transport of a database. ``asking``: a client's search. ``holding``: what answers it over a ranking. ``selections``: those that a client
    can make.
    """

    adapter: Adapter
    dialect: Dialect
    path: str
    asking: Callable[[Selected], bytes]
    holding: Callable[[Ranking], Answering]
    selections: tuple[Selected, ...] = (Selected.ALL, Selected.NONE, Selected.PAGE)
    description: bytes | None = None

    @property
    def operation(self) -> Operation:
        head = RequestHead(method="POST", path=self.path, message=self.asking(Selected.ALL))
        found = self.adapter.classify(head)
        assert found is not None
        return replace(found, collection=found.collection or "c")

    @property
    def known(self) -> object | None:
        """What the database says of the collection; None if nobody asks."""
        if self.description is None or not isinstance(self.adapter, DescribesCollections):
            return None
        return self.adapter.parse_description(self.description)


def _json_payload(each: Ranked) -> tuple[tuple[str, str], ...]:
    text = () if each.text is None else (("text", json.dumps(each.text)),)
    return (*text, ("page", str(each.rank)))


def _asking_qdrant(selected: Selected) -> dict[str, Any]:
    with_payload = {Selected.ALL: True, Selected.NONE: False, Selected.PAGE: ["page"]}[selected]
    return {"query": QUERY, "limit": TOP_K, "with_payload": with_payload}


def _qdrant_point(each: Ranked) -> qdrant_model.Stored:
    vectors = () if each.direction is None else (("", json.dumps(each.vector)),)
    return qdrant_model.Stored(id=str(each.rank), score=str(each.score), payload=_json_payload(each), vectors=vectors)


def _qdrant(ranking: Ranking) -> Answering:
    return partial(qdrant_model.Server(points=tuple(map(_qdrant_point, ranking))).answer, "query")


def _qdrant_grpc(ranking: Ranking) -> Answering:
    points = (qdrant_grpc_bodies.stored_of(_qdrant_point(each), is_old=False) for each in ranking)
    return partial(qdrant_grpc_model.GrpcServer(points=tuple(points)).answer, "query")


def _asking_pinecone(selected: Selected) -> dict[str, Any]:
    return {"vector": QUERY, "topK": TOP_K, "includeMetadata": selected is Selected.ALL}


def _pinecone(ranking: Ranking) -> Answering:
    records = tuple(
        pinecone_model.Stored(
            id=json.dumps(f"r{each.rank}"),
            score=str(each.score),
            fields=_json_payload(each),
            values="[]" if each.direction is None else json.dumps(each.vector),
        )
        for each in ranking
    )
    return partial(pinecone_model.Service(records=records).answer, "query")


def _asking_pinecone_grpc(selected: Selected) -> bytes:
    return pinecone_messages.query(vector=QUERY, top_k=TOP_K, include_metadata=selected is Selected.ALL)


def _pinecone_grpc(ranking: Ranking) -> Answering:
    records = []
    for each in ranking:
        made = message_type("ScoredVector")(id=f"r{each.rank}", score=each.score)
        made.values.extend([] if each.direction is None else each.vector)
        made.metadata.update({key: json.loads(value) for key, value in _json_payload(each)})
        records.append(made)
    return pinecone_messages.Service(records=tuple(records)).answer


def _asking_chroma(selected: Selected) -> bytes:
    include = {Selected.ALL: ["documents", "metadatas"], Selected.NONE: [], Selected.PAGE: ["metadatas"]}[selected]
    return json.dumps({"query_embeddings": [QUERY], "n_results": TOP_K, "include": [*include, "distances"]}).encode()


def _chroma(ranking: Ranking) -> Answering:
    records = tuple(
        chroma_model.Stored(
            id=json.dumps(f"r{each.rank}"),
            distance=str(1 - each.score),
            embedding="null" if each.direction is None else json.dumps(each.vector),
            document=json.dumps(each.text),
            metadata=(("page", str(each.rank)),),
        )
        for each in ranking
    )
    return chroma_model.Server(lists=(records,)).answer


def _asking_opensearch(clause: dict[str, Any], selected: Selected) -> dict[str, Any]:
    source = {Selected.ALL: True, Selected.NONE: False, Selected.PAGE: ["page"]}[selected]
    return {**clause, "size": TOP_K, "_source": source}


def _opensearch(ranking: Ranking, *, is_opensearch: bool = False) -> Answering:
    hits = tuple(
        opensearch_model.Stored(
            id=json.dumps(f"r{each.rank}"),
            score=str(each.score),
            source=_json_payload(each),
            vector=None if each.direction is None else json.dumps(each.vector),
        )
        for each in ranking
    )
    return opensearch_model.Server(hits=hits, has_vectors=False, is_opensearch=is_opensearch, total=100).answer


_KNN_QUERY = {"query": {"knn": {opensearch_model.VECTOR: {"vector": QUERY, "k": 10}}}}
_TOP_LEVEL_KNN = {"knn": {**opensearch_bodies.KNN, "query_vector": QUERY}}

_MILVUS_FIELDS = {Selected.ALL: ["text", "big"], Selected.NONE: [], Selected.PAGE: ["big"]}


def _milvus_server(ranking: Ranking) -> milvus_model.Server:
    rows = tuple(
        milvus_model.Row(
            id=each.rank,
            score=each.score,
            values={**dict.fromkeys(milvus_model.NUMBERS), "text": each.text, "big": 7},
            vectors={
                **dict.fromkeys(milvus_model.VECTORS),
                "vec": None if each.direction is None else np.array(each.vector, "<f4").tobytes(),
            },
            meta={},
        )
        for each in ranking
    )
    return milvus_model.Server(lists=(rows,), nullable=True)


def _asking_milvus_rest(selected: Selected) -> bytes:
    asked = {"collectionName": "c", "data": [QUERY], "annsField": "vec", "limit": TOP_K}
    return json.dumps({**asked, "outputFields": _MILVUS_FIELDS[selected]}).encode()


def _milvus_rest(ranking: Ranking) -> Answering:
    def answer(body: bytes) -> bytes:
        asked = json.loads(body)
        start = asked.get("offset", 0)
        rows = []
        for each in ranking[start : start + asked["limit"]]:
            stored = {"big": 7, "text": each.text, "vec": None if each.direction is None else each.vector}
            shown = {name: stored[name] for name in asked["outputFields"] if name in stored}
            rows.append(dict(sorted({"distance": each.score, "id": each.rank, **shown}.items())))
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


def _asking_weaviate(selected: Selected) -> bytes:
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
                id=f"00000000-0000-0000-0000-{each.rank:012}",
                properties={key: json.loads(value) for key, value in _json_payload(each)},
                vector=None if each.direction is None else each.vector,
            ),
            number=1 - each.score,
        )
        for each in ranking
    )
    collection = weaviate_model.Collection(name="Docs", properties=("text", "page"))
    return weaviate_talks.Service(collection=collection, hits=hits).answer


def _over_rest(name: str, path: str, asking: Callable[[Selected], Any], **members: Any) -> Database:
    row = BACKENDS[name].rest

    def asked(selected: Selected) -> bytes:
        found = asking(selected)
        return found if isinstance(found, bytes) else json.dumps(found).encode()

    return Database(adapter=row.adapter(), dialect=row.dialect(), path=path, asking=asked, **members)


def _over_grpc(name: str, path: str, asking: Callable[[Selected], bytes], **members: Any) -> Database:
    row = BACKENDS[name].grpc
    assert row is not None
    return Database(adapter=row.adapter(), dialect=row.dialect(), path=path, asking=asking, **members)


_ALL_OR_NONE = (Selected.ALL, Selected.NONE)
DATABASES: dict[str, Database] = {
    "qdrant": _over_rest("qdrant", "/collections/c/points/query", _asking_qdrant, holding=_qdrant),
    "qdrant over gRPC": _over_grpc(
        "qdrant",
        qdrant_grpc_bodies.path_of("query"),
        lambda selected: qdrant_grpc_bodies.message_of("query", _asking_qdrant(selected)),
        holding=_qdrant_grpc,
    ),
    "pinecone": _over_rest("pinecone", "/query", _asking_pinecone, holding=_pinecone, selections=_ALL_OR_NONE),
    "pinecone over gRPC": _over_grpc(
        "pinecone",
        "/VectorService/Query",
        _asking_pinecone_grpc,
        holding=_pinecone_grpc,
        selections=_ALL_OR_NONE,
    ),
    "chroma": _over_rest("chroma", chroma_bodies.PATHS[0], _asking_chroma, holding=_chroma),
    "milvus": _over_rest(
        "milvus",
        "/v2/vectordb/entities/search",
        _asking_milvus_rest,
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
        partial(_asking_opensearch, _KNN_QUERY),
        holding=partial(_opensearch, is_opensearch=True),
    ),
    "elasticsearch": _over_rest(
        "elasticsearch",
        opensearch_bodies.PATHS[0],
        partial(_asking_opensearch, _TOP_LEVEL_KNN),
        holding=_opensearch,
        description=b'{"version":{"number":"9.3.1"}}',
    ),
    "weaviate over gRPC": _over_grpc("weaviate", weaviate_talks.PATH, _asking_weaviate, holding=_weaviate),
}
