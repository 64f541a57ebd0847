"""REST in front of Milvus Lite answers what the official client answers, worded as the handlers word it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from servers.milvus.rest import INT64, serving

from support.milvus import hybrid_requests
from support.milvus import server as milvus_server
from support.milvus.hybrid_requests import ask, ask_over_rest, request
from support.milvus.server import NEEDS_MILVUS, NEEDS_TWO_VECTORS
from support.process.stack import exchange

pytestmark = [NEEDS_MILVUS, NEEDS_TWO_VECTORS]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[str, str]]:
    """The engine, and REST in front of it."""
    with milvus_server.started() as engine:
        hybrid_requests.load(engine, "clean", copies=1)
        with serving(engine) as url:
            yield engine, url


def post(url: str, path: str, body: dict[str, Any], **headers: str) -> Any:
    answer = exchange(url, "POST", f"/v2/vectordb/{path}", json.dumps(body).encode(), headers)
    return json.loads(answer.body) if answer.status == 200 else answer.status


@pytest.mark.parametrize("number", range(6))
def test_a_hybrid_search_is_the_engines(both: tuple[str, str], number: int) -> None:
    engine, url = both
    body = request(number)
    expected = [(str(hit["id"]), hit["distance"]) for hit in ask(engine, "clean", body)]
    rows = ask_over_rest(url, "clean", body)
    assert [row["id"] for row in rows] == [identity for identity, _ in expected]
    assert [row["distance"] for row in rows] == pytest.approx([score for _, score in expected], rel=1e-7)


def test_a_search_tells_its_rows_and_counts_them(both: tuple[str, str]) -> None:
    vector = request(0).parts[0][1]
    body = {"collectionName": "clean", "data": [vector], "annsField": "text", "limit": 3, "outputFields": ["family"]}
    reply = post(both[1], "entities/search", body)
    assert (reply["code"], reply["topks"], len(reply["data"])) == (0, [3], 3)
    assert list(reply["data"][0]) == ["distance", "family", "id"]
    assert isinstance(reply["data"][0]["id"], str)
    numbers = post(both[1], "entities/search", body, **{INT64: "true"})
    assert [row["id"] for row in numbers["data"]] == [int(row["id"]) for row in reply["data"]]
    nothing = post(both[1], "entities/search", {**body, "filter": "family < 0"})
    assert nothing == {"code": 0, "cost": 0, "data": []}


def test_the_description_names_fields_and_metrics(both: tuple[str, str]) -> None:
    data = post(both[1], "collections/describe", {"collectionName": "clean"})["data"]
    assert {index["fieldName"]: index["metricType"] for index in data["indexes"]} == hybrid_requests.METRICS
    assert [field["name"] for field in data["fields"] if field["primaryKey"]] == ["id"]


def test_errors_have_a_code_and_other_paths_are_not_served(both: tuple[str, str]) -> None:
    body = {"collectionName": "clean", "search": [], "rerank": {"strategy": "none"}, "limit": 3}
    assert "rank type" in post(both[1], "entities/hybrid_search", body)["message"]
    assert post(both[1], "entities/search", {"collectionName": "no", "data": [[1]], "limit": 3})["code"] != 0
    assert post(both[1], "entities/query", {}) == 404
