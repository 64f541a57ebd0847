"""Reading a live collection as jobs do: against the real engine, with every kind of vector, and never writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from support.qdrant import planted
from support.qdrant.embedded import embedded_server, start_embedded_process
from vecsieve.proxy.jobs.clients.qdrant import Qdrant
from vecsieve.proxy.jobs.source import Access, PointId, SourceError


def opened(url: str, collection: str, vector_name: str | None = None, *, api_key: str | None = None) -> Qdrant:
    return Qdrant(Access(url=url, collection=collection, vector_name=vector_name, api_key=api_key, timeout_seconds=10))


@pytest.fixture
def copied(engine: str) -> Iterator[Qdrant]:
    with closing(opened(engine, "copied_cosine")) as source:
        yield source


def all_ids(source: Qdrant) -> list[PointId]:
    return [entry for page in source.listed() for entry in page]


@pytest.mark.parametrize(
    ("collection", "vector_name", "dimension", "distance"),
    [
        ("copied_cosine", None, planted.DIMENSION, "Cosine"),
        ("copied_dot", "", planted.DIMENSION, "Dot"),
        ("copied_manhattan", None, planted.DIMENSION, "Manhattan"),
        ("named", "dense", planted.DIMENSION, "Cosine"),
        ("named", "small", 8, "Euclid"),
    ],
)
def test_the_shape_is_that_of_the_chosen_vector(
    engine: str, collection: str, vector_name: str | None, dimension: int, distance: str
) -> None:
    with closing(opened(engine, collection, vector_name)) as source:
        shape = source.shape()
    assert (shape.dimension, shape.distance, shape.vector_name) == (dimension, distance, vector_name or "")
    assert shape.points == (90 if collection == "named" else 240)
    assert shape.magnitude is (distance != "Cosine")


@pytest.mark.parametrize("page", [7, 240, 1000])
def test_pages_hold_every_id_once_in_ascending_order(
    copied: Qdrant, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vecsieve.proxy.jobs.clients.qdrant._IDS", page)
    assert {len(listing) for listing in copied.listed()} <= {page, 240 % page or min(page, 240)}
    ids = all_ids(copied)
    assert ids == sorted(base * 10 + copy for base in range(planted.BASES) for copy in range(planted.COPIES))


def test_points_come_with_vectors_and_payloads(copied: Qdrant) -> None:
    for point in copied.read(all_ids(copied)[:15]):
        assert point.vector is not None
        assert point.vector.dtype == np.float32
        assert point.vector.shape == (planted.DIMENSION,)
        assert isinstance(point.payload["text"], str)


def test_points_are_read_in_the_order_asked_and_missing_ones_left_out(copied: Qdrant) -> None:
    assert [point.id for point in copied.read([31, 0, 99_999, 12])] == [31, 0, 12]


def test_a_point_finds_itself_and_its_copies_at_the_proxys_distances(copied: Qdrant) -> None:
    points = copied.read([20, 331])
    vectors = np.stack([point.vector for point in points if point.vector is not None])
    pools = copied.neighbours(vectors, count=planted.COPIES + 1)
    for centre, pool in zip(points, pools, strict=True):
        assert isinstance(centre.id, int)
        near = [point.id for point, distance in pool if distance < 0.01 and isinstance(point.id, int)]
        assert sorted(near) == [planted.family(centre.id) * 10 + copy for copy in range(planted.COPIES)]
        assert pool[0][0].id == centre.id
        assert pool[0][1] == 0.0
        assert pool[-1][1] > 0.2


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        (None, {"text", "copy", "vector", "big"}),
        (("text", "body"), {"text"}),
        ((), set()),
        (("vector.vector",), {"text", "copy", "vector", "big"}),
    ],
)
def test_only_the_wanted_part_of_a_payload_is_asked_for(
    engine: str, fields: tuple[str, ...] | None, keys: set[str]
) -> None:
    with closing(Qdrant(Access(url=engine, collection="copied_cosine", payload_fields=fields))) as source:
        (point,) = source.read([20])
        assert point.vector is not None
        (pool,) = source.neighbours(point.vector[None], count=3)
        page = source.read(all_ids(source)[:3])
    assert {frozenset(item.payload) for item in (point, *page, *(other for other, _ in pool))} == {frozenset(keys)}


@pytest.mark.parametrize("collection", ["copied_dot", "copied_euclid", "copied_manhattan"])
def test_copies_are_found_by_every_metric(engine: str, collection: str) -> None:
    with closing(opened(engine, collection)) as source:
        vector = source.read([50])[0].vector
        assert vector is not None
        (pool,) = source.neighbours(vector[None], count=planted.COPIES)
    assert sorted(str(point.id) for point, _ in pool) == ["50", "51", "52", "53"]
    assert max(distance for _, distance in pool) < 0.02


def test_a_point_without_the_chosen_vector_has_none(engine: str) -> None:
    with closing(opened(engine, "named", "dense")) as source:
        points = source.read(all_ids(source))
    bare = [point.id for point in points if point.vector is None]
    assert bare == [point.id for point in points if isinstance(point.id, int) and point.id % 7 == 0]
    assert bare


@pytest.mark.parametrize(
    ("collection", "vector_name", "words"),
    [
        ("nowhere", None, ["no collection 'nowhere'", "copied_cosine, copied_dot", "named"]),
        ("named", None, ["several vectors", "--vector", "dense, small"]),
        ("named", "tiny", ["no dense vector 'tiny'", "dense, small"]),
        ("named", "late", ["'late'", "several vectors a point", "dense, small"]),
        ("named", "sparse", ["no dense vector 'sparse'", "dense, small"]),
        ("copied_cosine", "dense", ["no dense vector 'dense'", '"" (unnamed)']),
    ],
)
def test_what_cannot_be_read_is_named_with_what_there_is(
    engine: str, collection: str, vector_name: str | None, words: list[str]
) -> None:
    with closing(opened(engine, collection, vector_name)) as source, pytest.raises(SourceError) as caught:
        source.shape()
    assert not [word for word in words if word not in str(caught.value)]


@pytest.mark.parametrize("kind", ["sparse", "multi"])
def test_collections_without_one_dense_vector_a_point_are_refused(kind: str) -> None:
    from qdrant_client import QdrantClient, models

    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30)
        if kind == "sparse":
            client.create_collection("only", sparse_vectors_config={"words": models.SparseVectorParams()})
        else:
            late = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
            parameters = models.VectorParams(size=4, distance=models.Distance.COSINE, multivector_config=late)
            client.create_collection("only", vectors_config=parameters)
        client.close()
        with (
            closing(opened(url, "only")) as source,
            pytest.raises(SourceError, match=r"only (sparse vectors|multivectors)"),
        ):
            source.shape()


def test_a_server_that_is_not_there_is_named() -> None:
    with (
        closing(opened("http://127.0.0.1:1", "docs")) as source,
        pytest.raises(SourceError, match=r"http://127\.0\.0\.1:1 .*refused"),
    ):
        source.shape()


@pytest.mark.parametrize("url", ["ftp://host", "http://user:sesame@127.0.0.1:1", "http://127.0.0.1:1/?api-key=sesame"])
def test_a_url_that_leads_nowhere_shows_no_secret(url: str) -> None:
    with pytest.raises(SourceError) as caught, closing(opened(url, "docs")) as source:
        source.shape()
    assert "sesame" not in str(caught.value)


async def test_a_missing_or_wrong_key_is_told_of_and_never_shown() -> None:
    import asyncio

    async with embedded_server(api_key="sesame") as server:

        def outcome(key: str | None) -> str:
            with closing(opened(server.url, "docs", api_key=key)) as source, pytest.raises(SourceError) as caught:
                source.shape()
            return str(caught.value)

        outcomes = [await asyncio.to_thread(outcome, key) for key in (None, "open-barley", "sesame")]
    assert all("refused a request" in message and "--api-key-env" in message for message in outcomes[:2])
    assert "no collection 'docs'" in outcomes[2]
    assert not [message for message in outcomes if "sesame" in message or "barley" in message]
