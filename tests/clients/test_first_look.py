"""A first look at what `vecsieve demo --keep` leaves running, through the official client, directly and through the proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.process.commands import forked_command
from support.process.stack import exchange, serve
from vecsieve.proxy.demo.backends import QDRANT

LIMITS = (Path(__file__).resolve().parents[2] / "docs/limits.md").read_text(encoding="utf-8")
DENSE = models.VectorParams(size=2, distance=models.Distance.DOT)
UUID = "00000000-0000-0000-0000-00000000000a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[str]:
    with mock.patch.dict(os.environ, TMPDIR=str(folder)), QDRANT.engine() as url:
        yield url


@pytest.fixture(scope="module", params=["directly", "through the proxy"])
def client(engine: str, request: pytest.FixtureRequest) -> Iterator[QdrantClient]:
    with serve(engine, "--mode", "off") as (proxy, _), closing(QdrantClient(url=proxy, timeout=30)) as proxied:
        made = proxied if request.param == "through the proxy" else QdrantClient(url=engine, timeout=30)
        made.create_collection(request.param, DENSE)
        points = [models.PointStruct(id=n, vector=[n, 1.0], payload={"n": n, "m": -n}) for n in range(1, 7)]
        made.upsert(request.param, [*points, models.PointStruct(id=UUID, vector=[0.5, 0.0])], wait=True)
        yield made
        made.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["client"])


def ids(points: list[models.ScoredPoint]) -> list[object]:
    return [point.id for point in points]


def test_a_collection_is_made_once_and_described(client: QdrantClient, name: str) -> None:
    info = client.get_collection(name)
    assert (info.points_count, info.config.params.vectors) == (7, DENSE)
    assert client.collection_exists(name)
    assert not client.collection_exists("other")
    assert name in [collection.name for collection in client.get_collections().collections]
    with pytest.raises(UnexpectedResponse, match="already exists") as caught:
        client.create_collection(name, DENSE)
    assert caught.value.status_code == 409


def test_points_are_read_by_id_and_in_pages(client: QdrantClient, name: str) -> None:
    assert [(record.id, record.payload) for record in client.retrieve(name, [2, 99, UUID])] == [
        (2, {"n": 2, "m": -2}),
        (UUID, {}),
    ]
    page, following = client.scroll(name, limit=3, with_payload=["n"], with_vectors=True)
    assert (page[0].id, page[0].payload, page[0].vector) == (1, {"n": 1}, [1.0, 1.0])
    assert [record.id for record in client.scroll(name, limit=9, offset=following)[0]] == [4, 5, 6, UUID]


def test_searches_are_by_a_vector_or_a_point_alone_and_in_a_batch(client: QdrantClient, name: str) -> None:
    assert ids(client.query_points(name, [1.0, 0.0], limit=3).points) == [6, 5, 4]
    assert ids(client.query_points(name, [1.0, 0.0], limit=3, offset=2).points) == [4, 3, 2]
    assert ids(client.query_points(name, 6, limit=2).points) == [5, 4]
    response = client.query_points(name, [1.0, 0.0], limit=1, with_payload=models.PayloadSelectorExclude(exclude=["m"]))
    assert response.points[0].payload == {"n": 6}
    requests = [models.QueryRequest(query=[1.0, 0.0], limit=limit) for limit in (1, 2)]
    assert [ids(answer.points) for answer in client.query_batch_points(name, requests)] == [[6], [6, 5]]


def test_what_it_does_not_serve_is_refused_by_name(client: QdrantClient, name: str) -> None:
    with pytest.raises(UnexpectedResponse, match="does not serve POST") as caught:
        client.query_points_groups(name, group_by="n", query=[1.0, 0.0])
    assert caught.value.status_code == 404
    one = models.Filter(must=[models.FieldCondition(key="n", match=models.MatchValue(value=1))])
    with pytest.raises(UnexpectedResponse, match="engine: filter"):
        client.query_points(name, [1.0, 0.0], query_filter=one)
    with pytest.raises(UnexpectedResponse, match="no vector and no point") as caught:
        client.query_points(name, models.RecommendQuery(recommend=models.RecommendInput(positive=[1])))
    assert caught.value.status_code == 501
    with pytest.raises(UnexpectedResponse, match="Not found: Collection") as caught:
        client.query_points("other", [1.0, 0.0])
    assert caught.value.status_code == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"points": [1]}', b'{"points": 1}', b'{"points": [{"id": -1}]}'])
def test_a_body_that_is_none_is_a_refusal_in_the_servers_shape(engine: str, body: bytes) -> None:
    exchange(engine, "PUT", "/collections/bodies", b'{"vectors": {"size": 2, "distance": "Dot"}}')
    answer = exchange(engine, "PUT", "/collections/bodies/points", body)
    assert answer.status == 400
    assert answer.body.startswith(b'{"status":{"error":"Format error in JSON body: ')


@pytest.mark.parametrize("name", ["%2e%2e%2fout", "..", "%00", "a" * 300, "%F0%9F%92%A1"])
def test_any_name_is_a_collection_and_never_a_path(engine: str, folder: Path, name: str) -> None:
    made = exchange(engine, "PUT", f"/collections/{name}", b'{"vectors": {"size": 2, "distance": "Dot"}}')
    assert made.status in {200, 404}, "a name of dots is no route"
    if made.status == 200:
        assert b'"points_count":0' in exchange(engine, "GET", f"/collections/{name}").body
    (root,) = folder.iterdir()
    names = [path.name for path in root.iterdir()]
    assert names
    assert all(map(str.isdecimal, names))


@pytest.mark.parametrize("client", ["through the proxy"], indirect=True)  # how it was filled is no difference to them
def test_a_check_and_an_analysis_work_with_it(engine: str, client: QdrantClient, name: str) -> None:
    assert client.collection_exists(name)
    for command in (("check", "--connect", "--upstream", engine), ("analyze", "--collection", name, "--url", engine)):
        done = forked_command(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_says_what_is_served() -> None:
    section = LIMITS[LIMITS.index("## The demo's engine") :].split("\n\n")[1]
    assert [
        word for word in ("create", "describe", "upsert", "retrieve", "scroll", "`query`") if word not in section
    ] == []
