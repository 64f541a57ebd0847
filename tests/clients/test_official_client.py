"""Every call of the official client that reaches the network, sync and async: through the proxy as it is directly.

The collections hold no duplicates, so that mode `on` changes nothing. A call that the engine does not serve (snapshots,
shard keys) must fail in the same words.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.qdrant import planted

COLLECTION = "clean_cosine"
VECTOR = planted.query_vector(1)
OTHER = planted.query_vector(2)
FEW = models.Filter(must=[models.FieldCondition(key="big", range=models.Range(lt=2**60 + 30))])
TIMES = re.compile(rb'"time":[0-9.eE+-]+')

Call = Callable[[Any], Any]

READS: dict[str, Call] = {
    "query_points": lambda client: client.query_points(COLLECTION, VECTOR, limit=8),
    "query_points, everything": lambda client: client.query_points(
        COLLECTION,
        VECTOR,
        query_filter=FEW,
        search_params=models.SearchParams(hnsw_ef=64, exact=True),
        limit=7,
        offset=3,
        with_payload=["text", "vector"],
        with_vectors=True,
        score_threshold=-0.5,
        consistency=models.ReadConsistencyType.MAJORITY,
        timeout=7,
    ),
    "query_points, numpy": lambda client: client.query_points(COLLECTION, np.array(VECTOR, dtype=np.float32)),
    "query_points, by id": lambda client: client.query_points(COLLECTION, 20, with_vectors=[""]),
    "query_points, recommend": lambda client: client.query_points(
        COLLECTION, models.RecommendQuery(recommend=models.RecommendInput(positive=[10, VECTOR], negative=[20]))
    ),
    "query_points, discover": lambda client: client.query_points(
        COLLECTION,
        models.DiscoverQuery(
            discover=models.DiscoverInput(target=10, context=[models.ContextPair(positive=20, negative=30)])
        ),
    ),
    # All that lie on the right side of every pair score 0, and the engine's order among equals depends on the limit: so
    # everybody is asked for, in one page that cannot be widened.
    "query_points, context": lambda client: client.query_points(
        COLLECTION, models.ContextQuery(context=[models.ContextPair(positive=20, negative=30)]), limit=200
    ),
    "query_points, rescored": lambda client: client.query_points(
        COLLECTION, VECTOR, prefetch=models.Prefetch(query=OTHER, limit=30), limit=5
    ),
    "query_points, fused": lambda client: client.query_points(
        COLLECTION,
        models.FusionQuery(fusion=models.Fusion.RRF),
        prefetch=[models.Prefetch(query=VECTOR, limit=9)],
        limit=5,
    ),
    "query_points, mmr": lambda client: client.query_points(
        COLLECTION, models.NearestQuery(nearest=VECTOR, mmr=models.Mmr(diversity=0.5, candidates_limit=20)), limit=5
    ),
    "query_points, by key": lambda client: client.query_points(
        COLLECTION, models.OrderByQuery(order_by="big"), limit=5
    ),
    "query_points, no query": lambda client: client.query_points(COLLECTION, limit=5),
    "query_points, unknown collection": lambda client: client.query_points("nowhere", VECTOR),
    "query_points, unknown vector": lambda client: client.query_points(COLLECTION, VECTOR, using="ghost"),
    "query_points, wrong size": lambda client: client.query_points(COLLECTION, [1.0, 2.0]),
    "query_points, limit 0": lambda client: client.query_points(COLLECTION, VECTOR, limit=0),
    "query_batch_points": lambda client: client.query_batch_points(
        COLLECTION,
        [
            models.QueryRequest(query=VECTOR, limit=4),
            models.QueryRequest(query=OTHER, with_payload=True, with_vector=True),
            models.QueryRequest(limit=2),
        ],
    ),
    "query_points_groups": lambda client: client.query_points_groups(COLLECTION, "copy", VECTOR, limit=3),
    "search_matrix_pairs": lambda client: client.search_matrix_pairs(COLLECTION, FEW, limit=2, sample=60),
    "search_matrix_offsets": lambda client: client.search_matrix_offsets(COLLECTION, FEW, limit=2, sample=60),
    "scroll": lambda client: client.scroll(COLLECTION, FEW, limit=7, with_vectors=True),
    "scroll, second page": lambda client: client.scroll(COLLECTION, limit=7, offset=100, with_payload=["text"]),
    "count": lambda client: client.count(COLLECTION, FEW),
    "facet": lambda client: client.facet(COLLECTION, "copy"),
    "retrieve": lambda client: client.retrieve(COLLECTION, [10, 20, 99_999], with_vectors=True),
    "get_collection": lambda client: client.get_collection(COLLECTION),
    "get_collections": lambda client: client.get_collections(),
    "get_collection_aliases": lambda client: client.get_collection_aliases(COLLECTION),
    "get_aliases": lambda client: client.get_aliases(),
    "collection_exists": lambda client: client.collection_exists(COLLECTION),
    "info": lambda client: client.info(),
    "get_optimizations": lambda client: client.get_optimizations(COLLECTION),
    "collection_cluster_info": lambda client: client.collection_cluster_info(COLLECTION),
    "cluster_status": lambda client: client.cluster_status(),
    "cluster_telemetry": lambda client: client.cluster_telemetry(),
    "list_snapshots": lambda client: client.list_snapshots(COLLECTION),
    "create_snapshot": lambda client: client.create_snapshot(COLLECTION),
    "delete_snapshot": lambda client: client.delete_snapshot(COLLECTION, "s"),
    "recover_snapshot": lambda client: client.recover_snapshot(COLLECTION, "file:///nowhere"),
    "list_full_snapshots": lambda client: client.list_full_snapshots(),
    "create_full_snapshot": lambda client: client.create_full_snapshot(),
    "delete_full_snapshot": lambda client: client.delete_full_snapshot("s"),
    "list_shard_snapshots": lambda client: client.list_shard_snapshots(COLLECTION, 0),
    "create_shard_snapshot": lambda client: client.create_shard_snapshot(COLLECTION, 0),
    "delete_shard_snapshot": lambda client: client.delete_shard_snapshot(COLLECTION, 0, "s"),
    "recover_shard_snapshot": lambda client: client.recover_shard_snapshot(COLLECTION, 0, "file:///nowhere"),
    "recover_current_peer": lambda client: client.recover_current_peer(),
    "remove_peer": lambda client: client.remove_peer(1),
    "list_shard_keys": lambda client: client.list_shard_keys(COLLECTION),
    "create_shard_key": lambda client: client.create_shard_key(COLLECTION, "k"),
    "delete_shard_key": lambda client: client.delete_shard_key(COLLECTION, "k"),
    "cluster_collection_update": lambda client: client.cluster_collection_update(
        COLLECTION, models.DropReplicaOperation(drop_replica=models.Replica(shard_id=0, peer_id=1))
    ),
}


def failure(error: UnexpectedResponse) -> tuple[int | None, bytes]:
    return error.status_code, TIMES.sub(b'"time":0', error.content)


def outcome_of(call: Callable[..., Any], client: QdrantClient, *name: str) -> Any:
    try:
        return call(client, *name)
    except UnexpectedResponse as error:
        return failure(error)


async def outcome_async(call: Call, client: AsyncQdrantClient) -> Any:
    try:
        answer: Awaitable[Any] = call(client)
        return await answer
    except UnexpectedResponse as error:
        return failure(error)


@pytest.fixture(scope="module")
def direct(engine: str) -> Iterator[QdrantClient]:
    client = QdrantClient(url=engine, timeout=30)
    yield client
    client.close()


@pytest.fixture(scope="module")
def through(on: str) -> Iterator[QdrantClient]:
    client = QdrantClient(url=on, timeout=30)
    yield client
    client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(engine: str, on: str) -> AsyncIterator[tuple[AsyncQdrantClient, AsyncQdrantClient]]:
    both = AsyncQdrantClient(url=engine, timeout=30), AsyncQdrantClient(url=on, timeout=30)
    yield both
    for client in both:
        await client.close()


@pytest.mark.parametrize("name", READS)
def test_a_call_gives_what_it_gives_directly(name: str, direct: QdrantClient, through: QdrantClient) -> None:
    assert outcome_of(READS[name], through) == outcome_of(READS[name], direct)


# The asynchronous client sends what the other one sends: some calls of each kind are enough.
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", list(READS)[::6])
async def test_an_async_call_gives_what_it_gives_directly(
    name: str, pair: tuple[AsyncQdrantClient, AsyncQdrantClient]
) -> None:
    direct, through = pair
    assert await outcome_async(READS[name], through) == await outcome_async(READS[name], direct)


def test_no_call_of_the_client_is_forgotten() -> None:
    public = {name for name in dir(QdrantClient) if not name.startswith("_") and name.islower()}
    local = {"close", "migrate", "grpc_collections", "grpc_points", "http", "init_options", "get_embedding_size"}
    local |= {name for name in public if name.endswith("_models")}
    covered = {name.partition(",")[0] for name in READS} | {name.partition(",")[0] for name in WRITES}
    assert public - local - {"recreate_collection", "delete_collection"} == covered


POINTS = [
    models.PointStruct(id=number + 1, vector={"": vector.tolist()}, payload={"n": number, "t": "a" * number})
    for number, vector in enumerate(planted.bases()[:20])
]
ROWS, LAST = planted.bases()[20:50], planted.bases()[50:]
CREATED = models.VectorParams(size=planted.DIMENSION, distance=models.Distance.COSINE)

WRITES: dict[str, Callable[[Any, str], Any]] = {
    "create_collection": lambda client, name: client.create_collection(name, CREATED),
    "create_collection, again": lambda client, name: client.create_collection(name, CREATED),
    "update_collection": lambda client, name: client.update_collection(
        name, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=5_000)
    ),
    "upsert": lambda client, name: client.upsert(name, POINTS, wait=True),
    "upsert, batch": lambda client, name: client.upsert(
        name, models.Batch(ids=[101, 102], vectors=ROWS[:2].tolist(), payloads=[{"n": 1}, {"n": 2}]), wait=True
    ),
    "upsert, wrong": lambda client, name: client.upsert(name, [models.PointStruct(id=1, vector=[1.0])], wait=True),
    "upload_collection": lambda client, name: client.upload_collection(
        name, ROWS, [{"n": number} for number in range(30)], ids=list(range(200, 230)), batch_size=7, wait=True
    ),
    "upload_points": lambda client, name: client.upload_points(
        name, [models.PointStruct(id=300 + number, vector=row.tolist()) for number, row in enumerate(LAST)], wait=True
    ),
    "create_payload_index": lambda client, name: client.create_payload_index(
        name, "n", models.PayloadSchemaType.INTEGER, wait=True
    ),
    "set_payload": lambda client, name: client.set_payload(name, {"x": [1, 2.5, None]}, [1, 2], wait=True),
    "overwrite_payload": lambda client, name: client.overwrite_payload(name, {"y": 2**53}, [3], wait=True),
    "delete_payload": lambda client, name: client.delete_payload(name, ["t"], [4], wait=True),
    "clear_payload": lambda client, name: client.clear_payload(name, [5], wait=True),
    "update_vectors": lambda client, name: client.update_vectors(
        name, [models.PointVectors(id=6, vector=VECTOR)], wait=True
    ),
    "delete_vectors": lambda client, name: client.delete_vectors(name, [""], [7], wait=True),
    "delete": lambda client, name: client.delete(name, [8, 9], wait=True),
    "batch_update_points": lambda client, name: client.batch_update_points(
        name,
        [
            models.UpsertOperation(upsert=models.PointsList(points=POINTS[10:12])),
            models.DeleteOperation(delete=models.PointIdsList(points=[14])),
        ],
        wait=True,
    ),
    "delete_payload_index": lambda client, name: client.delete_payload_index(name, "n", wait=True),
    "create_vector_name": lambda client, name: client.create_vector_name(
        name,
        "late",
        models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=4, distance=models.Distance.DOT)),
    ),
    "delete_vector_name": lambda client, name: client.delete_vector_name(name, "late"),
    "update_collection_aliases": lambda client, name: client.update_collection_aliases(
        [models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=f"{name}-alias"))]
    ),
}


def outcome(answer: Any) -> Any:
    """What a write came to, without the name of the collection it went to."""
    return (
        (answer[0], answer[1].replace(b"written_through", b"written_direct")) if isinstance(answer, tuple) else answer
    )


def stored(client: QdrantClient, name: str) -> Any:
    records, _ = client.scroll(name, limit=1_000, with_vectors=True)
    return records, client.get_collection(name).config, client.get_collection_aliases(name).aliases[0].alias_name


def test_a_life_of_writes_leaves_what_it_leaves_directly(direct: QdrantClient, through: QdrantClient) -> None:
    names = {"written_direct": direct, "written_through": through}
    try:
        for call, write in WRITES.items():
            original, other = (outcome(outcome_of(write, client, name)) for name, client in names.items())
            assert other == original, call
        (records, config, alias), (others, other_config, other_alias) = (stored(direct, name) for name in names)
        assert len(records) == 59
        assert others == records
        assert other_config == config
        assert other_alias == alias.replace("direct", "through")
        answers = [through.query_points(alias, VECTOR, limit=9, with_vectors=True) for alias in (alias, other_alias)]
        assert answers[0] == answers[1]
    finally:
        assert [direct.delete_collection("written_direct"), through.delete_collection("written_through")] == [
            True,
            True,
        ]
