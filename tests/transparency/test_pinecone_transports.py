"""One index, asked over REST and over gRPC: both adapters make the same pool of it, so that one memory of vectors serves both."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from servers.pinecone import queries, vectors
from servers.pinecone.calls import Limits
from servers.pinecone.grpc_messages import as_bytes
from servers.pinecone.grpc_service import answered
from servers.pinecone.store import Index

from support.backends.transports import operation_of
from support.pinecone.emulator import call, index
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Adapter, Needs, Pool, Reply, RequestHead, SearchCall
from vecsieve.adapters.pinecone.grpc import PATH, PineconeGrpc
from vecsieve.adapters.pinecone.rest import PineconeRest
from vecsieve.proxy.search.memory.points import FeatureMemory, Key, Points

DIMENSION = 24
HOST = "idx-abc123.svc.emulator.test"
NEEDS = Needs(payload_fields=("tenant",), optional_fields=("text", "n", "tags", "nobody"))
VECTOR = np.random.default_rng(5).normal(size=DIMENSION).tolist()
SPARSE = {"indices": [1, 7, 70_000], "values": [0.1, 0.25, 1 / 3]}
QUERIES: dict[str, dict[str, Any]] = {
    "vector": {"vector": VECTOR},
    "namespace": {"vector": VECTOR, "namespace": "größe"},
    "id": {"id": "r3"},
    "hybrid": {"vector": VECTOR, "sparseVector": SPARSE},
    "filter": {"vector": VECTOR, "filter": {"n": {"$gte": 4}}},
}


def records(*, sparse: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    made: list[dict[str, Any]] = []
    for number in range(30):
        weights = {"indices": [1, 7, 40 + number], "values": rng.uniform(0.1, 1, size=3).tolist()}
        metadata = {"tenant": "a", "text": f'pässage "{number}" <b>', "n": number, "tags": ["x", "y"], "half": 0.5}
        record: dict[str, Any] = {"id": f"r{number}", "metadata": metadata, "sparseValues": weights}
        made.append(record if sparse else {**record, "values": rng.normal(size=DIMENSION).tolist()})
    return made


@pytest.fixture(scope="module", params=["dense", "sparse"])
def filled(request: pytest.FixtureRequest) -> Index:
    sparse = request.param == "sparse"
    made = index(None if sparse else DIMENSION, "dotproduct")
    for namespace in ("", "größe"):
        call(vectors.upsert, made, {"vectors": records(sparse=sparse), "namespace": namespace})
    return made


def over_rest(target: Index, query: dict[str, Any], needs: Needs = NEEDS) -> tuple[Adapter, SearchCall, bytes]:
    adapter = PineconeRest()
    operation = operation_of(adapter, RequestHead(method="POST", path="/query", host=HOST))
    parsed = adapter.parse_request(operation, json.dumps(query, ensure_ascii=False).encode(), needs)
    return adapter, parsed, call(queries.query, target, adapter.widen(parsed, [20])).body


def over_grpc(target: Index, query: dict[str, Any], needs: Needs = NEEDS) -> tuple[Adapter, SearchCall, bytes]:
    adapter = PineconeGrpc()
    operation = operation_of(adapter, RequestHead(method="POST", path=PATH, host=HOST))
    parsed = adapter.parse_request(operation, as_bytes("QueryRequest", query), needs)
    return adapter, parsed, answered(target, "Query", "2026-04", adapter.widen(parsed, [20]), Limits()).message


def read(adapter: Adapter, parsed: SearchCall, body: bytes) -> Reply:
    return adapter.parse_reply(parsed, body)


def plain(pool: Pool) -> list[list[Any]]:
    """The fields as values: REST's bytes may spell a character or a number in another way."""
    return [[None if raw is None else json.loads(raw) for raw in row] for row in pool.fields]


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_both_transports_make_the_same_pool(filled: Index, name: str) -> None:
    is_sparse = "_values" not in filled.description.dense()
    if is_sparse and name != "id":
        query = {"sparseVector": SPARSE, "namespace": QUERIES[name].get("namespace", "")}
    else:
        query = QUERIES[name]
    query = {**query, "topK": 5, "includeMetadata": True}
    rest, grpc = (ask(filled, query) for ask in (over_rest, over_grpc))
    assert rest[1].operation == grpc[1].operation
    (one,), (other,) = rest[1].searches, grpc[1].searches
    assert (one.top_k, one.most, one.partition or b'""') == (other.top_k, other.most, other.partition or b'""')
    assert (one.query is None) is (other.query is None)
    mine, theirs = read(*rest).pools[0], read(*grpc).pools[0]
    assert mine.size == theirs.size > 5
    assert mine.ids == theirs.ids
    assert mine.vectors.tobytes() == theirs.vectors.tobytes()
    assert mine.scores.astype(np.float32).tolist() == theirs.scores.astype(np.float32).tolist()
    assert plain(mine) == plain(theirs)
    assert (mine.alone, mine.unusable, mine.compared_by) == (theirs.alone, theirs.unusable, theirs.compared_by)


@pytest.mark.parametrize(("first", "second"), [(over_rest, over_grpc), (over_grpc, over_rest)])
def test_what_one_transport_brought_the_other_recalls(first: Any, second: Any) -> None:
    """Both name records and read vectors alike, so one memory serves both."""
    made = index(DIMENSION, "cosine")
    call(vectors.upsert, made, {"vectors": [{**one, "sparseValues": None} for one in records(sparse=False)]})
    memory = FeatureMemory(10**6, ttl_seconds=1.0, clock=ManualClock())
    parameters = {"vector": VECTOR, "topK": 5}
    adapter, parsed, body = first(made, parameters, Needs())
    (brought,) = adapter.parse_reply(parsed, body).pools
    key, query = Key(b"", "", DIMENSION), np.array(VECTOR, np.float32)
    rows = memory.learn("c", key, Points(brought.ids, query, brought.scores, is_versioned=False), brought.vectors).rows
    adapter, parsed, body = second(made, parameters, Needs(vectors=False))
    reply = adapter.parse_reply(parsed, body)
    (bare,) = reply.pools
    assert bare.unusable == bare.size
    recalled = memory.recall("c", key, Points(bare.ids, query, bare.scores, is_versioned=False))
    assert recalled is not None
    assert recalled.rows.tobytes() == rows.tobytes()
    assert len(adapter.trim(parsed, reply, [np.arange(3)])) < len(body)
