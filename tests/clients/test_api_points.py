"""`/v1/check`, `/v1/add` and `/v1/addBatch` against the real engine: what is told of points, and what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.process import stack
from support.qdrant.embedded import start_embedded_process

SIZE = 4
SETTINGS = """
rules:
  - {{collection: skipping, policy: {{write: {{mode: skip}}}}}}
  - {{collection: merging, policy: {{write: {{mode: merge}}}}}}
  - {{collection: rejecting, policy: {{write: {{mode: reject}}}}}}
  - {{collection: annotating, policy: {{write: {{mode: annotate}}}}}}
journal: {{path: "{path}"}}
"""
COLLECTIONS = ("plain", "skipping", "merging", "rejecting", "annotating")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """Of the engine, the API and the admin port."""
    folder: Path = tmp_path_factory.mktemp("api")
    (folder / "settings.yaml").write_text(SETTINGS.format(path=folder / "j.db"))
    arguments = (
        "serve",
        "--config",
        str(folder / "settings.yaml"),
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    )
    with start_embedded_process() as engine:
        for name in COLLECTIONS:
            stack.exchange(engine, "PUT", f"/collections/{name}", b'{"vectors":{"size":4,"distance":"Cosine"}}')
        with stack.command(*arguments, "--upstream", engine, "--api", "127.0.0.1:0") as running:
            ports = running.addresses(3)
            yield engine, ports["API"], ports["admin"]


def point(identifier: int, axis: int, text: str, *, tilt: float = 0.0) -> dict[str, Any]:
    vector = [1.0 if place == axis else tilt for place in range(SIZE)]
    return {"id": identifier, "vector": vector, "payload": {"text": f"this is the letter {text}"}}


def reply(url: str, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    head = {"Content-Type": "application/json"}
    answer = stack.exchange(url, "POST", path, json.dumps(body).encode(), head)
    content = json.loads(answer.body)
    assert content.pop("durationMs", 0.0) >= 0.0
    return answer.status, content


def ids(engine: str, name: str) -> list[int]:
    page = stack.exchange(engine, "POST", f"/collections/{name}/points/scroll", b'{"limit":100}')
    return [entry["id"] for entry in json.loads(page.body)["result"]["points"]]


UNIQUE = {"classification": "unique", "matchId": None, "similarity": 0.0, "hashMatch": False}


def test_a_check_tells_how_alike_the_nearest_point_is_and_stores_and_counts_nothing(urls: tuple[str, str, str]) -> None:
    """Defect of another tool: a check changed its own statistics."""
    engine, api, admin = urls
    stored = json.dumps({"points": [point(1, 0, "alpha")]}).encode()
    stack.exchange(engine, "PUT", "/collections/plain/points?wait=true", stored)
    assert reply(api, "/v1/check", collection="plain", point=point(2, 1, "beta")) == (200, UNIQUE)
    status, same = reply(api, "/v1/check", collection="plain", point=point(2, 0, " *alpha*"))
    assert (status, same) == (200, {"classification": "exact", "matchId": 1, "similarity": 1.0, "hashMatch": True})
    _, near = reply(api, "/v1/check", collection="plain", point=point(2, 0, "other", tilt=0.2))
    assert (near["classification"], near["matchId"], near["hashMatch"]) == ("semantic", 1, False)
    _, original = reply(api, "/v1/check", collection="plain", point=point(1, 0, "alpha"))
    assert original == UNIQUE  # the same id is an update
    assert ids(engine, "plain") == [1]
    assert (
        b'vecsieve_writes_total{backend="qdrant",outcome="judged"} 0.0' in stack.exchange(admin, "GET", "/metrics").body
    )


def test_points_are_added_or_skipped_and_each_is_told_of(urls: tuple[str, str, str]) -> None:
    engine, api, _ = urls
    first = reply(api, "/v1/add", collection="skipping", point=point(1, 0, "alpha"))
    assert first == (200, {**UNIQUE, "action": "added", "survivorId": 1, "evictedId": None})
    _, second = reply(api, "/v1/add", collection="skipping", point=point(2, 0, "alpha"))
    assert (second["action"], second["matchId"], second["survivorId"], second["evictedId"]) == ("skipped", 1, 1, None)
    _, again = reply(api, "/v1/add", collection="skipping", point=point(1, 0, "alpha"))
    assert again["action"] == "added"
    batch = [point(3, 0, "alpha"), point(4, 1, "beta"), point(5, 1, "beta"), point(6, 2, "gamma")]
    _, several = reply(api, "/v1/addBatch", collection="skipping", points=batch)
    assert [(result["action"], result["survivorId"]) for result in several["results"]] == [
        ("skipped", 1),
        ("added", 4),
        ("skipped", 4),
        ("added", 6),
    ]
    assert (several["added"], several["merged"], several["skipped"]) == (2, 0, 2)
    assert ids(engine, "skipping") == [1, 4, 6]


def test_a_merged_point_takes_the_place_of_another(urls: tuple[str, str, str]) -> None:
    engine, api, _ = urls
    reply(api, "/v1/add", collection="merging", point=point(1, 0, "alpha"))
    _, merged = reply(api, "/v1/add", collection="merging", point=point(2, 0, "alpha"))
    assert (merged["action"], merged["survivorId"], merged["evictedId"]) == ("merged", 2, 1)
    assert ids(engine, "merging") == [2]


def test_a_copy_is_refused_where_the_policy_rejects_copies(urls: tuple[str, str, str]) -> None:
    engine, api, _ = urls
    reply(api, "/v1/add", collection="rejecting", point=point(1, 0, "alpha"))
    status, problem = reply(api, "/v1/add", collection="rejecting", point=point(2, 0, "alpha"))
    assert (status, problem["type"].rpartition("#")[2]) == (409, "copies")
    assert ids(engine, "rejecting") == [1]


def test_an_annotated_point_is_added_with_its_note(urls: tuple[str, str, str]) -> None:
    engine, api, _ = urls
    reply(api, "/v1/add", collection="annotating", point=point(1, 0, "alpha"))
    _, result = reply(api, "/v1/add", collection="annotating", point=point(2, 0, "alpha"))
    assert (result["action"], result["classification"]) == ("added", "exact")
    page = stack.exchange(engine, "POST", "/collections/annotating/points", b'{"ids":[2],"with_payload":true}')
    assert json.loads(page.body)["result"][0]["payload"]["_vecsieve"]["duplicate_of"] == 1


def test_an_id_may_have_all_64_bits(urls: tuple[str, str, str]) -> None:
    """Of Qdrant's clients some make ids by a hash."""
    engine, api, _ = urls
    _, result = reply(api, "/v1/add", collection="annotating", point=point(2**64 - 1, 2, "omega"))
    assert (result["action"], result["survivorId"]) == ("added", 2**64 - 1)
    assert 2**64 - 1 in ids(engine, "annotating")


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"collection": "absent", "point": point(1, 0, "a")}, 404, "no-collection"),
        ({"collection": "..", "point": point(1, 0, "a")}, 400, "invalid-request"),
        ({"collection": "plain", "point": {"id": 1, "vector": []}}, 400, "invalid-request"),
        ({"collection": "plain", "point": {"id": 1, "vector": [1, "x"]}}, 400, "invalid-request"),
        ({"collection": "plain", "point": {"id": "x", "vector": [1]}}, 400, "invalid-request"),
        ({"collection": "plain", "point": {"id": 2**64, "vector": [1, 0, 0, 0]}}, 400, "invalid-request"),
        ({"collection": "plain", "point": {"id": 9, "vector": [1.0, 0.5]}}, 422, "declined"),
        ({"collection": "plain", "point": {**point(1, 0, "a"), "payload": [1]}}, 400, "invalid-request"),
    ],
)
def test_what_cannot_be_added_is_a_problem_and_nothing_is_stored(
    urls: tuple[str, str, str], body: dict[str, Any], status: int, kind: str
) -> None:
    engine, api, _ = urls
    before = ids(engine, "plain")
    for path in ("/v1/check", "/v1/add"):
        got, problem = reply(api, path, **body)
        assert (got, problem["type"].rpartition("#")[2]) == (status, kind)
    assert ids(engine, "plain") == before
