"""Objects of Weaviate, whole, against an emulator of its server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import ClientSession

from support.weaviate.server import Weaviate, weaviate
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.clients.weaviate import WeaviatePoints
from vecsieve.proxy.jobs.databases import SourceOptions, opened, points_opened
from vecsieve.proxy.jobs.source import Access, SourceError

ID, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


def access(url: str) -> Access:
    return Access(
        url=url, collection="Docs", vector_name=None, api_key="sesame", timeout_seconds=9, requests_per_second=999.0
    )


def whole(identifier: str, **more: Any) -> bytes:
    one = {"class": "Docs", "id": identifier, "properties": {"text": "größe"}, "vector": [1.0, 0.5], **more}
    return json.dumps(one).encode()


@pytest.fixture
async def server() -> Any:
    with weaviate() as running:
        async with ClientSession() as session, session.post(f"{running.url}/v1/schema", json={"class": "Docs"}) as made:
            assert made.status == 200
        yield running


def test_objects_are_stored_found_read_and_deleted(server: Weaviate) -> None:
    points = WeaviatePoints(access(server.url))
    points.put(b"", [whole(ID)])
    points.put('"ü"'.encode(), [whole(OTHER, tenant="ü")])
    keys = [json.dumps(identifier).encode() for identifier in (ID, OTHER)]
    assert points.present(b"", keys) == {keys[0]}
    assert points.present('"ü"'.encode(), keys) == {keys[1]}
    (point,) = points.whole([ID, OTHER])
    assert (point.id, json.loads(point.body)) == (ID, json.loads(whole(ID)))
    points.delete([point, point])
    assert points.present(b"", keys) == frozenset()
    points.close()


def test_a_database_that_refuses_an_object_or_does_not_answer_is_told(server: Weaviate) -> None:
    with pytest.raises(SourceError, match="status 500"):
        WeaviatePoints(access(server.url)).put(b"", [b'{"class":"Gone"}'])
    with pytest.raises(SourceError, match="Cannot reach"):
        WeaviatePoints(access("http://127.0.0.1:9")).put(b"", [whole(ID)])
    with pytest.raises(SourceError, match="http"):
        WeaviatePoints(access("weaviate:8080"))


def test_only_undo_knows_weaviate() -> None:
    options = SourceOptions(url="http://127.0.0.1:9", collection="Docs", backend="weaviate")
    assert isinstance(points_opened(options, {}), WeaviatePoints)
    with pytest.raises(SettingsError, match=r"wanted qdrant, .*; saw 'weaviate'"):
        opened(options, {})
