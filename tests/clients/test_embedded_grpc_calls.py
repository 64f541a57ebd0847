"""Every other call of the official client over gRPC: writes, collections, indexes, aliases, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from support.grpc.clients import code_of, details_of, over_grpc
from support.qdrant.embedded import start_embedded_grpc_process

DIMENSION = 12
ROWS = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
VECTORS = {
    "": models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE),
    "rows": models.VectorParams(size=4, distance=models.Distance.DOT, multivector_config=ROWS),
}
DENSE = models.DenseVectorConfig(size=3, distance=models.Distance.DOT)


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    with start_embedded_grpc_process() as started:
        yield started


@pytest.fixture
def client(urls: tuple[str, str]) -> Iterator[QdrantClient]:
    made = over_grpc(*urls)
    made.create_collection("w", VECTORS, sparse_vectors_config={"sparse": models.SparseVectorParams()})
    yield made
    made.delete_collection("w")
    made.close()


def vector(seed: int, size: int = DIMENSION) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(size=size).tolist()
    return values


def matching(key: str, value: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def stored(client: QdrantClient) -> dict[Any, models.Record]:
    return {record.id: record for record in client.scroll("w", limit=100, with_vectors=True)[0]}


def vectors(client: QdrantClient, number: int) -> Any:
    return stored(client)[number].vector


def put(client: QdrantClient, *ids: int) -> None:
    points = [
        models.PointStruct(
            id=number, vector={"": vector(number), "rows": [[1.0, 2.0, 3.0, number]]}, payload={"n": number}
        )
        for number in ids
    ]
    assert client.upsert("w", points).status == models.UpdateStatus.COMPLETED


def test_every_write_does_what_it_says(client: QdrantClient) -> None:
    put(client, 1, 2, 3, 4, 5)
    client.delete("w", [5])
    client.delete("w", models.FilterSelector(filter=models.Filter(must=matching("n", 4))))
    client.set_payload("w", {"m": {"k": [1, None]}}, points=[1])
    client.set_payload("w", {"deep": True}, points=[1], key="m")
    client.overwrite_payload("w", {"only": 1.5}, points=models.Filter(must=matching("n", 2)))
    client.clear_payload("w", [3])
    client.update_vectors("w", [models.PointVectors(id=1, vector={"rows": [[4.0, 4, 4, 4], [5.0, 5, 5, 5]]})])
    client.delete_vectors("w", ["rows"], [2])
    found = stored(client)
    assert {number: record.payload for number, record in found.items()} == {
        1: {"n": 1, "m": {"k": [1, None], "deep": True}},
        2: {"only": 1.5},
        3: {},
    }
    assert isinstance(found[1].vector, dict)
    assert found[1].vector["rows"] == [[4, 4, 4, 4], [5, 5, 5, 5]]
    assert isinstance(found[2].vector, list)
    client.delete_payload("w", ["m"], [1])
    assert stored(client)[1].payload == {"n": 1}


def test_a_batch_of_writes_happens_in_order(client: QdrantClient) -> None:
    put(client, 1, 2)
    new = models.PointStruct(id=3, vector={"": vector(3)}, payload={"n": 3})
    done = client.batch_update_points(
        "w",
        [
            models.UpsertOperation(upsert=models.PointsList(points=[new])),
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={"m": 1}, points=[1, 3])),
            models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload={"o": 2}, points=[3])),
            models.DeletePayloadOperation(delete_payload=models.DeletePayload(keys=["n"], points=[1])),
            models.UpdateVectorsOperation(
                update_vectors=models.UpdateVectors(
                    points=[models.PointVectors(id=3, vector={"rows": [[1.0, 1, 1, 1]]})]
                )
            ),
            models.DeleteVectorsOperation(delete_vectors=models.DeleteVectors(points=[1], vector=["rows"])),
            models.ClearPayloadOperation(clear_payload=models.PointIdsList(points=[3])),
            models.DeleteOperation(delete=models.PointIdsList(points=[2])),
        ],
    )
    assert [update.status for update in done] == [models.UpdateStatus.COMPLETED] * 8
    found = stored(client)
    assert {number: record.payload for number, record in found.items()} == {1: {"m": 1}, 3: {}}
    assert isinstance(found[1].vector, list)
    assert isinstance(found[3].vector, dict)
    assert found[3].vector["rows"] == [[1, 1, 1, 1]]


def test_a_write_may_be_conditional_and_need_not_be_waited_for(client: QdrantClient) -> None:
    put(client, 1)
    changed = [models.PointStruct(id=number, vector={"": vector(9)}, payload={"n": 9}) for number in (1, 2)]
    client.upsert("w", changed, update_mode=models.UpdateMode.INSERT_ONLY)
    assert {number: record.payload for number, record in stored(client).items()} == {1: {"n": 1}, 2: {"n": 9}}
    client.upsert("w", changed, update_filter=models.Filter(must=matching("n", 7)))
    assert stored(client)[1].payload == {"n": 1}
    assert client.upsert("w", changed, wait=False).status == models.UpdateStatus.ACKNOWLEDGED


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (models.PayloadSchemaType.KEYWORD, "keyword"),
        (models.PayloadSchemaType.UUID, "uuid"),
        (models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False), "integer"),
        (
            models.TextIndexParams(
                type=models.TextIndexType.TEXT,
                tokenizer=models.TokenizerType.WORD,
                lowercase=True,
                stopwords=models.Language.ENGLISH,
            ),
            "text",
        ),
    ],
)
def test_an_index_is_made_shown_and_dropped(client: QdrantClient, schema: Any, kind: str) -> None:
    client.create_payload_index("w", "field", field_schema=schema)
    assert client.get_collection("w").payload_schema["field"].data_type == kind
    client.delete_payload_index("w", "field")
    assert client.get_collection("w").payload_schema == {}


def test_a_collection_keeps_the_settings_it_was_made_with(client: QdrantClient) -> None:
    client.create_collection(
        "settings",
        models.VectorParams(size=4, distance=models.Distance.MANHATTAN, datatype=models.Datatype.FLOAT16),
        sparse_vectors_config={"sp": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        hnsw_config=models.HnswConfigDiff(m=8),
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=0),
        quantization_config=models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.5)
        ),
        strict_mode_config=models.StrictModeConfig(enabled=True, max_query_limit=20),
        on_disk_payload=False,
        metadata={"made": {"over": "gRPC"}},
    )
    client.update_collection("settings", hnsw_config=models.HnswConfigDiff(ef_construct=50), metadata={"and": 1})
    info = client.get_collection("settings")
    assert isinstance(info.config.params.vectors, models.VectorParams)
    assert info.config.params.vectors.datatype == models.Datatype.FLOAT16
    assert (info.config.hnsw_config.m, info.config.hnsw_config.ef_construct) == (8, 50)
    assert info.config.params.on_disk_payload is False
    assert info.config.metadata == {"made": {"over": "gRPC"}, "and": 1}
    with pytest.raises(grpc.RpcError, match='Limit exceeded 21 > 20 for "limit"') as caught:
        client.query_points("settings", vector(1, 4), limit=21)
    assert code_of(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
    assert client.delete_collection("settings")
    assert not client.delete_collection("settings")


def test_aliases_come_and_go(client: QdrantClient) -> None:
    def change(operation: models.AliasOperations) -> None:
        assert client.update_collection_aliases([operation])

    change(models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name="now", collection_name="w")))
    assert client.count("now").count == 0
    change(models.RenameAliasOperation(rename_alias=models.RenameAlias(old_alias_name="now", new_alias_name="later")))
    assert [(alias.alias_name, alias.collection_name) for alias in client.get_aliases().aliases] == [("later", "w")]
    assert [alias.alias_name for alias in client.get_collection_aliases("w").aliases] == ["later"]
    change(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="later")))
    assert client.get_aliases().aliases == []


def test_what_the_server_refuses_has_its_code_and_its_words(client: QdrantClient) -> None:
    refused: list[tuple[Callable[[], Any], grpc.StatusCode, str]] = [
        (lambda: client.count("gone"), grpc.StatusCode.NOT_FOUND, "Not found: Collection `gone` doesn't exist!"),
        (
            lambda: client.create_collection("w", VECTORS),
            grpc.StatusCode.ALREADY_EXISTS,
            "Wrong input: Collection `w` already exists!",
        ),
        (
            lambda: client.query_points("w", vector(1), limit=0),
            grpc.StatusCode.INVALID_ARGUMENT,
            "Validation error in body: [limit: value 0 invalid, must be 1 or larger]",
        ),
        (
            lambda: client.query_points("w", vector(1, 3)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "Wrong input: Vector dimension error: expected dim: 12, got 3",
        ),
        (
            lambda: client.search_matrix_pairs("w", sample=1),
            grpc.StatusCode.INVALID_ARGUMENT,
            "Validation error in body: [sample: value 1 invalid, must be 2 or larger]",
        ),
        (
            lambda: client.create_vector_name("w", "sparse", models.DenseVectorNameConfig(dense=DENSE)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "Wrong input: Vector `sparse` already exists as a sparse vector",
        ),
    ]
    for ask, code, words in refused:
        with pytest.raises(grpc.RpcError) as caught:
            ask()
        assert (code_of(caught.value), details_of(caught.value)) == (code, words)


def test_the_matrix_is_the_one_of_rest(client: QdrantClient, urls: tuple[str, str]) -> None:
    put(client, *range(1, 9))
    rest = QdrantClient(url=urls[0], check_compatibility=False)
    asked: dict[str, Any] = {"sample": 100, "limit": 3, "query_filter": models.Filter(must_not=[matching("n", 5)])}
    pairs = [[(p.a, p.b) for p in one.search_matrix_pairs("w", **asked).pairs] for one in (client, rest)]
    found, said = (one.search_matrix_offsets("w", **asked) for one in (client, rest))
    rest.close()
    assert pairs[0] == pairs[1]
    assert found.scores == pytest.approx(said.scores)
    assert (found.ids, found.offsets_row, found.offsets_col) == (said.ids, said.offsets_row, said.offsets_col)
    assert found.ids == [1, 2, 3, 4, 6, 7, 8]


def test_a_vector_is_added_and_removed(client: QdrantClient) -> None:
    put(client, 1)
    wide = DENSE.model_copy(update={"multivector_config": ROWS, "datatype": models.VectorStorageDatatype.FLOAT16})
    sparse = models.SparseVectorConfig(modifier=models.Modifier.IDF, datatype=models.VectorStorageDatatype.UINT8)
    client.create_vector_name("w", "added", models.DenseVectorNameConfig(dense=wide))
    client.create_vector_name("w", "words", models.SparseVectorNameConfig(sparse=sparse))
    client.update_vectors("w", [models.PointVectors(id=1, vector={"added": [[1.0, 2, 3]]})])
    assert vectors(client, 1)["added"] == [[1.0, 2.0, 3.0]]
    params: Any = client.get_collection("w").config.params
    assert params.vectors["added"] == models.VectorParams(**wide.model_dump())
    assert params.sparse_vectors["words"].modifier == models.Modifier.IDF
    client.delete_vector_name("w", "added")
    client.delete_vector_name("w", "words")
    params = client.get_collection("w").config.params
    assert (set(params.vectors), set(params.sparse_vectors)) == ({"", "rows"}, {"sparse"})
    assert "added" not in vectors(client, 1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e38])
def test_grpc_carries_numbers_that_json_has_not_and_the_search_is_answered(client: QdrantClient, number: float) -> None:
    put(client, 1, 2, 3)
    asked = [number, *vector(1)[1:]]
    found = client.query_points("w", asked, limit=3).points
    assert len(found) <= 3
    examples = models.RecommendInput(positive=[asked, 1], negative=[2])
    assert len(client.query_points("w", models.RecommendQuery(recommend=examples), limit=3).points) <= 3


async def test_the_asynchronous_client_works_too(urls: tuple[str, str]) -> None:
    client = AsyncQdrantClient(
        url=urls[0], grpc_port=int(urls[1].rsplit(":", 1)[1]), prefer_grpc=True, check_compatibility=False
    )
    await client.create_collection("async", VECTORS[""])
    points = [models.PointStruct(id=number, vector=vector(number)) for number in range(5)]
    await client.upsert("async", points)
    found = await client.query_points("async", vector(3), limit=2, with_vectors=True)
    assert found.points[0].id == 3
    assert np.linalg.norm(np.asarray(found.points[0].vector)) == pytest.approx(1)
    await client.delete_collection("async")
    await client.close()
