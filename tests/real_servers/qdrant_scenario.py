"""What qdrant-client asks a Qdrant, over REST or gRPC: every way to write, what is there afterwards, every read, what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from grpc import RpcError
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.grpc.clients import code_of, details_of

NAME, ALIAS = "Written", "Called"
POINTS, SIZE, SPARSE_WIDTH = 60, 24, 40
SECONDS = 120
_NUMBER = re.compile(r"\d+\.\d+")
Call = Callable[[], Any]


def call_outcomes(rest: str, grpc_port: int, *, prefers_grpc: bool) -> dict[str, str]:
    """What came of each call, by its name. The collection holds no copies, so every mode answers alike. Leaves nothing."""
    client = QdrantClient(
        url=rest, grpc_port=grpc_port, prefer_grpc=prefers_grpc, timeout=SECONDS, check_compatibility=False
    )
    try:
        client.delete_collection(NAME)
        seen = {name: outcome(call) for name, call in {**writes(client), **reads(client), **refused(client)}.items()}
        seen["delete_collection"] = outcome(partial(client.delete_collection, NAME))
        return seen
    finally:
        client.close()


def outcome(call: Call) -> str:
    """A result, or a refusal in the server's words. Numbers have four decimals: Qdrant adds up a sparse score in any order."""
    try:
        return _NUMBER.sub(lambda match: f"{float(match[0]):.4f}", repr(call()))
    except UnexpectedResponse as error:
        words, _, _ = error.content.decode().partition(',"time"')
        return f"{error.status_code} {words}"
    except RpcError as error:
        return f"{code_of(error)} {details_of(error)}"


def vectors(number: int) -> dict[str, Any]:
    """A point's vectors: unnamed ones are the fuzz's."""
    rng = np.random.default_rng([number, 4])
    indices = np.sort(rng.choice(SPARSE_WIDTH, size=8, replace=False)).tolist()
    return {
        "text": rng.normal(size=SIZE).round(4).tolist(),
        "rows": rng.normal(size=(2, SIZE)).round(4).tolist(),
        "words": models.SparseVector(indices=indices, values=rng.uniform(0.1, 1, size=8).round(4).tolist()),
    }


def point(number: int) -> models.PointStruct:
    """A point whose payload has one key, so that no order of keys differs."""
    return models.PointStruct(id=number, vector=vectors(number), payload={"price": number})


def among(*numbers: int) -> models.Filter:
    """The points of these prices."""
    return models.Filter(
        must=[models.FieldCondition(key="price", match=models.MatchAny(any=list(numbers)))],
    )


def writes(client: QdrantClient) -> dict[str, Call]:
    """In the order they are made, each told when it is done."""
    params = models.VectorParams(size=SIZE, distance=models.Distance.COSINE)
    rows = params.model_copy(
        update={"multivector_config": models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)}
    )
    alias = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=NAME, alias_name=ALIAS))
    batch: list[Any] = [
        models.UpsertOperation(upsert=models.PointsList(points=[point(70)])),
        models.SetPayloadOperation(set_payload=models.SetPayload(payload={"price": 700}, points=[70])),
        models.DeleteOperation(delete=models.PointIdsList(points=[5])),
    ]
    return {
        "create_collection": partial(client.create_collection, NAME, {"text": params, "rows": rows}, {"words": models.SparseVectorParams()}),
        "create_payload_index": partial(client.create_payload_index, NAME, "price", models.PayloadSchemaType.INTEGER, wait=True),
        "upsert": partial(client.upsert, NAME, [point(number) for number in range(20)], wait=True),
        "upsert a batch": partial(client.upsert, NAME, models.Batch(ids=[20], vectors={key: [value] for key, value in vectors(20).items()}, payloads=[{"price": 20}]), wait=True),
        "upload_points": partial(client.upload_points, NAME, [point(number) for number in range(21, POINTS)], batch_size=8, wait=True),
        "update_vectors": partial(client.update_vectors, NAME, [models.PointVectors(id=3, vector={"text": vectors(93)["text"]})], wait=True),
        "delete_vectors": partial(client.delete_vectors, NAME, ["rows"], [4], wait=True),
        "set_payload": partial(client.set_payload, NAME, {"price": 600}, [6], wait=True),
        "set_payload by filter": partial(client.set_payload, NAME, {"price": 701}, among(7), wait=True),
        "overwrite_payload": partial(client.overwrite_payload, NAME, {"other": 8}, [8], wait=True),
        "delete_payload": partial(client.delete_payload, NAME, ["price"], [9], wait=True),
        "clear_payload": partial(client.clear_payload, NAME, [10], wait=True),
        "batch_update_points": partial(client.batch_update_points, NAME, batch, wait=True),
        "delete": partial(client.delete, NAME, [11, 12], wait=True),
        "delete by filter": partial(client.delete, NAME, among(13, 14), wait=True),
        "update_collection_aliases": partial(client.update_collection_aliases, [alias]),
        "update_collection": partial(client.update_collection, NAME, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=30_000)),
    }  # fmt: skip


def reads(client: QdrantClient) -> dict[str, Call]:
    """Everything that can be read of it."""
    text, rows, words = vectors(200).values()
    near = partial(client.query_points, NAME, using="text", limit=7)
    prefetch = [
        models.Prefetch(query=text, using="text", limit=20),
        models.Prefetch(query=words, using="words", limit=20),
    ]
    weighted = models.FormulaQuery(formula=models.SumExpression(sum=["$score", models.MultExpression(mult=[0.01, "price"])]), defaults={"price": 0})  # fmt: skip
    calls: dict[str, Call] = {
        "scroll all": partial(client.scroll, NAME, limit=200, with_vectors=["text"]),
        "scroll rows": partial(client.scroll, NAME, limit=200, with_vectors=["rows"]),
        "scroll words": partial(client.scroll, NAME, limit=200, with_vectors=["words"]),
        "scroll a page": partial(client.scroll, NAME, limit=5, offset=20),
        "scroll in order": partial(client.scroll, NAME, limit=9, order_by=models.OrderBy(key="price", direction=models.Direction.DESC)),
        "scroll by filter": partial(client.scroll, NAME, scroll_filter=among(1, 20, 600)),
        "retrieve": partial(client.retrieve, NAME, [1, 4, 999]),
        "count": partial(client.count, NAME),
        "count by filter": partial(client.count, NAME, among(1, 2, 999)),
        "facet": partial(client.facet, NAME, "price", facet_filter=among(600), exact=True),
        "matrix": partial(client.search_matrix_pairs, NAME, query_filter=among(1, 2), sample=2, limit=1, using="text"),
        "collection_exists": partial(client.collection_exists, NAME),
        "get_collections": partial(client.get_collections),
        "get_collection_aliases": partial(client.get_collection_aliases, NAME),
        "info": lambda: client.get_collection(NAME).config,
        "list_snapshots": partial(client.list_snapshots, NAME),
        "near": partial(near, text),
        "near by alias": partial(client.query_points, ALIAS, text, using="text", limit=7),
        "near with vectors": partial(near, text, with_vectors=["text"], with_payload=True),
        "near by id": partial(near, 15),
        "near from": partial(near, text, offset=5),
        "near by filter": partial(near, text, query_filter=among(*range(30, 40))),
        "near above": partial(near, text, score_threshold=0.1),
        "near exactly": partial(near, text, search_params=models.SearchParams(exact=True)),
        "rows": partial(client.query_points, NAME, rows, using="rows", limit=7),
        "words": partial(client.query_points, NAME, words, using="words", limit=7),
        "recommend": partial(near, models.RecommendQuery(recommend=models.RecommendInput(positive=[1, 2], negative=[3]))),
        "recommend best": partial(near, models.RecommendQuery(recommend=models.RecommendInput(positive=[1, 2], strategy=models.RecommendStrategy.BEST_SCORE))),
        "discover": partial(near, models.DiscoverQuery(discover=models.DiscoverInput(target=text, context=[models.ContextPair(positive=1, negative=2)]))),
        "mmr": partial(near, models.NearestQuery(nearest=text, mmr=models.Mmr(diversity=0.5, candidates_limit=20))),
        "fused": partial(client.query_points, NAME, models.FusionQuery(fusion=models.Fusion.DBSF), prefetch=prefetch, limit=7),
        "in two steps": partial(near, text, prefetch=prefetch),
        "formula": partial(client.query_points, NAME, weighted, prefetch=prefetch[:1], limit=7),
        "ordered": partial(client.query_points, NAME, models.OrderByQuery(order_by=models.OrderBy(key="price")), limit=7),
        "batch": partial(client.query_batch_points, NAME, [models.QueryRequest(query=text, using="text", limit=5), models.QueryRequest(query=words, using="words", limit=3)]),
        "groups": partial(client.query_points_groups, NAME, "price", text, using="text", limit=5, group_size=1),
    }  # fmt: skip
    return calls


def refused(client: QdrantClient) -> dict[str, Call]:
    """What the server does not do."""
    text = vectors(200)["text"]
    again = {"text": models.VectorParams(size=SIZE, distance=models.Distance.COSINE)}
    return {
        "no collection": partial(client.query_points, "Nowhere", text),
        "no such vector": partial(client.query_points, NAME, text, using="ghost"),
        "another dimension": partial(client.query_points, NAME, text[:5], using="text"),
        "no such point": partial(client.query_points, NAME, 999, using="text"),
        "no result": partial(client.query_points, NAME, text, using="text", limit=0),
        "no index": partial(client.scroll, NAME, order_by="ghost"),
        "created again": partial(client.create_collection, NAME, again),
        "wrong write": partial(client.upsert, NAME, [models.PointStruct(id=1, vector={"text": text[:5]})], wait=True),
    }
