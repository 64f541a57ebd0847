"""Every call of the official client against the embedded server, unchanged: what goes in comes back out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.qdrant.embedded import start_embedded_process

VECTORS = {
    "": models.VectorParams(size=2, distance=models.Distance.COSINE),
    "wide": models.VectorParams(size=3, distance=models.Distance.DOT),
}
SPARSE = {"sp": models.SparseVectorParams()}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_embedded_process() as started:
        yield started


@pytest.fixture
def client(url: str) -> Iterator[QdrantClient]:
    made = QdrantClient(url=url)
    made.create_collection("c", vectors_config=VECTORS, sparse_vectors_config=SPARSE)
    yield made
    made.delete_collection("c")
    made.close()


def wide(values: list[float]) -> dict[str, Any]:
    return {"wide": values}


def stored(client: QdrantClient, *ids: int | str) -> list[models.Record]:
    return client.retrieve("c", ids=list(ids), with_vectors=True)


def put(client: QdrantClient, *ids: int) -> None:
    points = [
        models.PointStruct(id=number, vector=wide([number, 0, 0]) | {"": [1, number]}, payload={"n": number})
        for number in ids
    ]
    assert client.upsert("c", points).status == models.UpdateStatus.COMPLETED


def names(client: QdrantClient) -> set[str]:
    return {collection.name for collection in client.get_collections().collections}


def test_a_collection_is_listed_exists_and_goes(url: str) -> None:
    client = QdrantClient(url=url)
    assert not client.collection_exists("short")
    assert client.create_collection("short", vectors_config=VECTORS)
    assert client.collection_exists("short")
    assert "short" in names(client)
    assert client.delete_collection("short")
    assert "short" not in names(client)
    assert not client.delete_collection("short")
    client.close()


def test_a_name_may_hold_what_a_url_must_encode(url: str) -> None:
    client = QdrantClient(url=url)
    client.create_collection("ünïcode %41 .. #", vectors_config=VECTORS)
    assert "ünïcode %41 .. #" in names(client)
    assert client.count("ünïcode %41 .. #").count == 0
    assert client.delete_collection("ünïcode %41 .. #")
    client.close()


@pytest.mark.parametrize("name", ["a/b", "a:b", "x" * 256])
def test_a_name_the_server_would_refuse_is_refused(url: str, name: str) -> None:
    client = QdrantClient(url=url)
    with pytest.raises(UnexpectedResponse) as caught:
        client.create_collection(name, vectors_config=VECTORS)
    assert caught.value.status_code == 422
    assert not client.collection_exists(name)
    client.close()


def test_info_shows_the_settings_and_the_counts(client: QdrantClient) -> None:
    put(client, 1, 2, 3)
    info = client.get_collection("c")
    assert info.points_count == 3
    assert info.status == models.CollectionStatus.GREEN
    assert info.config.params.vectors == VECTORS
    assert info.config.params.sparse_vectors == SPARSE


def test_a_single_unnamed_vector_shows_as_one(url: str) -> None:
    client = QdrantClient(url=url)
    single = models.VectorParams(size=4, distance=models.Distance.MANHATTAN, datatype=models.Datatype.FLOAT16)
    client.create_collection("single", vectors_config=single, metadata={"made": "here"})
    info = client.get_collection("single")
    assert info.config.params.vectors == single
    assert info.config.metadata == {"made": "here"}
    client.delete_collection("single")
    client.close()


@pytest.mark.parametrize(
    "quantization",
    [
        models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99)),
        models.ProductQuantization(product=models.ProductQuantizationConfig(compression=models.CompressionRatio.X4)),
        models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    ],
)
def test_a_quantised_collection_returns_the_original_vectors(url: str, quantization: Any) -> None:
    client = QdrantClient(url=url)
    client.create_collection(
        "q",
        vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT),
        quantization_config=quantization,
        hnsw_config=models.HnswConfigDiff(m=8, ef_construct=32),
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=1),
    )
    client.upsert("q", [models.PointStruct(id=n, vector=[float(n), 1.0, 2.0, 3.0], payload={}) for n in range(300)])
    params = models.SearchParams(
        hnsw_ef=64, quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
    )
    points = client.query_points("q", query=[1.0, 0, 0, 0], limit=5, with_vectors=True, search_params=params).points
    assert all(point.vector == [point.id, 1, 2, 3] for point in points)
    exact = client.query_points(
        "q", query=[1.0, 0, 0, 0], limit=1, search_params=models.SearchParams(exact=True)
    ).points
    assert exact[0].id == 299
    assert (client.get_collection("q").indexed_vectors_count or 0) > 0
    client.delete_collection("q")
    client.close()


def test_points_go_in_as_a_list_and_column_by_column(client: QdrantClient) -> None:
    put(client, 1)
    uuid = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"
    client.upsert(
        "c",
        models.Batch(
            ids=[2, uuid],
            vectors={"wide": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
            payloads=[{"n": 2}, {}],
        ),
    )
    first, second, third = stored(client, 1, 2, uuid)
    assert isinstance(first.vector, dict)
    assert first.vector["wide"] == [1, 0, 0]
    assert second.vector == {"wide": [1, 2, 3]}
    assert second.payload == {"n": 2}
    assert (third.id, third.payload) == (uuid, {})


def test_an_upsert_may_only_insert_or_only_update(client: QdrantClient) -> None:
    put(client, 1)
    changed = [models.PointStruct(id=n, vector=wide([9, 9, 9]), payload={"n": 9}) for n in (1, 2)]
    client.upsert("c", changed, update_mode=models.UpdateMode.INSERT_ONLY)
    assert [record.payload for record in stored(client, 1, 2)] == [{"n": 1}, {"n": 9}]
    client.upsert(
        "c",
        [models.PointStruct(id=n, vector=wide([8, 8, 8]), payload={"n": 8}) for n in (2, 3)],
        update_mode=models.UpdateMode.UPDATE_ONLY,
    )
    assert [(record.id, record.payload) for record in stored(client, 2, 3)] == [(2, {"n": 8})]


def test_points_are_deleted_by_id_and_by_filter(client: QdrantClient) -> None:
    put(client, 1, 2, 3, 4)
    client.delete("c", models.PointIdsList(points=[1, 99]))
    client.delete(
        "c",
        models.FilterSelector(filter=models.Filter(must=[models.FieldCondition(key="n", range=models.Range(gte=4))])),
    )
    assert [record.id for record in stored(client, 1, 2, 3, 4)] == [2, 3]
    assert client.count("c").count == 2


def test_payloads_are_set_overwritten_trimmed_and_cleared(client: QdrantClient) -> None:
    put(client, 1, 2)
    client.set_payload("c", {"more": [1, {"x": None}]}, points=[1])
    client.set_payload("c", {"inner": True}, points=[1], key="deep.er")
    assert stored(client, 1)[0].payload == {"n": 1, "more": [1, {"x": None}], "deep": {"er": {"inner": True}}}
    client.overwrite_payload("c", {"only": 1}, points=[1])
    assert stored(client, 1)[0].payload == {"only": 1}
    client.delete_payload("c", keys=["only"], points=[1])
    assert stored(client, 1)[0].payload == {}
    client.set_payload(
        "c", {"late": 1}, points=models.Filter(must=[models.FieldCondition(key="n", match=models.MatchValue(value=2))])
    )
    assert stored(client, 2)[0].payload == {"n": 2, "late": 1}
    client.clear_payload("c", points_selector=[2])
    assert stored(client, 2)[0].payload == {}


def test_vectors_are_updated_and_deleted_one_name_at_a_time(client: QdrantClient) -> None:
    put(client, 1, 2)
    client.update_vectors("c", [models.PointVectors(id=1, vector=wide([7, 7, 7]))])
    client.delete_vectors("c", vectors=[""], points=[1])
    assert stored(client, 1)[0].vector == {"wide": [7, 7, 7]}
    both = stored(client, 2)[0].vector
    assert isinstance(both, dict)
    assert set(both) == {"", "wide"}


def test_a_batch_of_writes_is_applied_in_order(client: QdrantClient) -> None:
    put(client, 1, 2)
    done = client.batch_update_points(
        "c",
        [
            models.UpsertOperation(
                upsert=models.PointsList(points=[models.PointStruct(id=3, vector=wide([1, 1, 1]), payload={"n": 3})])
            ),
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={"m": 1}, points=[1, 3])),
            models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload={"o": 1}, points=[2])),
            models.DeletePayloadOperation(delete_payload=models.DeletePayload(keys=["n"], points=[3])),
            models.UpdateVectorsOperation(
                update_vectors=models.UpdateVectors(points=[models.PointVectors(id=3, vector=wide([2, 2, 2]))])
            ),
            models.DeleteVectorsOperation(delete_vectors=models.DeleteVectors(points=[1], vector=["wide"])),
            models.ClearPayloadOperation(clear_payload=models.PointIdsList(points=[1])),
            models.DeleteOperation(delete=models.PointIdsList(points=[2])),
        ],
    )
    numbers = [result.operation_id for result in done]
    assert numbers == list(range(1, 9))
    one, three = stored(client, 1, 2, 3)
    assert (one.id, one.payload) == (1, {})
    assert isinstance(one.vector, list)
    assert (three.id, three.payload, three.vector) == (3, {"m": 1}, {"wide": [2, 2, 2]})


def test_a_write_that_need_not_be_waited_for_is_acknowledged(client: QdrantClient) -> None:
    done = client.upsert("c", [models.PointStruct(id=1, vector=wide([1, 1, 1]))], wait=False)
    assert done.status == models.UpdateStatus.ACKNOWLEDGED


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (True, {"a": 1, "b": {"c": 2, "d": 3}}),
        (["b.c"], {"b": {"c": 2}}),
        (models.PayloadSelectorInclude(include=["a"]), {"a": 1}),
        (models.PayloadSelectorExclude(exclude=["b"]), {"a": 1}),
        (False, None),
    ],
)
def test_a_payload_selector_shows_what_it_names(client: QdrantClient, selector: Any, expected: object) -> None:
    payload = {"a": 1, "b": {"c": 2, "d": 3}}
    client.upsert("c", [models.PointStruct(id=1, vector=wide([1, 1, 1]), payload=payload)])
    (record,) = client.retrieve("c", ids=[1], with_payload=selector)
    (point,) = client.query_points("c", query=[1.0, 1, 1], using="wide", with_payload=selector).points
    assert record.payload == point.payload == expected


def test_numbers_of_every_size_survive_in_a_payload(client: QdrantClient) -> None:
    payload = {"big": 2**63 + 5, "small": -(2**63), "tiny": 5e-324, "huge": 1.7e308, "text": 'ñ\u2028\U0001f600\\"'}
    client.upsert("c", [models.PointStruct(id=2**64 - 1, vector=wide([1, 1, 1]), payload=payload)])
    (record,) = stored(client, 2**64 - 1)
    assert (record.id, record.payload) == (2**64 - 1, payload)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (models.PayloadSchemaType.KEYWORD, "keyword"),
        (models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=True), "integer"),
        (
            models.TextIndexParams(
                type=models.TextIndexType.TEXT,
                tokenizer=models.TokenizerType.WORD,
                min_token_len=2,
                lowercase=True,
                stopwords=models.Language.ENGLISH,
            ),
            "text",
        ),
        (models.PayloadSchemaType.BOOL, "bool"),
        (models.PayloadSchemaType.DATETIME, "datetime"),
        (models.PayloadSchemaType.GEO, "geo"),
        (models.PayloadSchemaType.UUID, "uuid"),
        (models.FloatIndexParams(type=models.FloatIndexType.FLOAT), "float"),
    ],
)
def test_an_index_is_made_shown_and_dropped(client: QdrantClient, schema: Any, kind: str) -> None:
    client.create_payload_index("c", "field", field_schema=schema)
    assert client.get_collection("c").payload_schema["field"].data_type == kind
    client.delete_payload_index("c", "field")
    assert client.get_collection("c").payload_schema == {}


def test_an_alias_stands_wherever_a_name_does(client: QdrantClient) -> None:
    put(client, 1, 2)

    def alias(**action: Any) -> models.CreateAliasOperation:
        return models.CreateAliasOperation(create_alias=models.CreateAlias(**action))

    client.update_collection_aliases([alias(alias_name="now", collection_name="c")])
    assert client.collection_exists("now")
    assert client.count("now").count == 2
    assert client.query_points("now", query=[1.0, 0, 0], using="wide", limit=1).points[0].id == 2
    assert client.get_collection("now").points_count == 2
    client.update_collection_aliases(
        [models.RenameAliasOperation(rename_alias=models.RenameAlias(old_alias_name="now", new_alias_name="later"))]
    )
    assert [(a.alias_name, a.collection_name) for a in client.get_aliases().aliases] == [("later", "c")]
    assert [a.alias_name for a in client.get_collection_aliases("later").aliases] == ["later"]
    with pytest.raises(UnexpectedResponse, match="Collection `now` doesn"):
        client.count("now")
    with pytest.raises(UnexpectedResponse, match="Collection `gone` doesn"):
        client.update_collection_aliases([alias(alias_name="x", collection_name="gone")])
    client.update_collection_aliases([models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="later"))])
    assert client.get_aliases().aliases == []


def test_deleting_a_collection_takes_its_aliases_along(url: str) -> None:
    client = QdrantClient(url=url)
    client.create_collection("brief", vectors_config=VECTORS)
    client.update_collection_aliases(
        [models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name="b", collection_name="brief"))]
    )
    client.delete_collection("brief")
    assert client.get_aliases().aliases == []
    client.close()
