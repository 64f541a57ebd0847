"""What becomes of points, as a real SSE client and a real receiver of the webhook get it, behind the real engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient, models

from support.process import stack
from support.process.hook_receiver import Receiver, receiving
from support.process.stack import eventually
from support.qdrant.embedded import start_embedded_process

SIZE = 4
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="
TOKEN = "a token of a good length"
CANARY = "canary words of a text"
COMPONENT = 0.2578125  # of every number of a vector; exact as float32
SETTINGS = """
rules:
  - {{collection: "skip*", policy: {{write: {{mode: skip}}}}}}
  - {{collection: merging, policy: {{write: {{mode: merge}}}}}}
  - {{collection: uniting, policy: {{write: {{mode: merge, merge: merge}}}}}}
  - {{collection: rejecting, policy: {{write: {{mode: reject}}}}}}
  - {{collection: annotating, policy: {{write: {{mode: annotate}}}}}}
  - {{collection: observing, policy: {{write: {{mode: observe}}}}}}
journal: {{path: "{folder}/j.db"}}
webhook: {{url: "{hook}/events", secret_file: "{folder}/secret"}}
api: {{token_file: "{folder}/token"}}
"""
COLLECTIONS = (
    "skipping",
    "skip-hook",
    "skip-log",
    "skip-stats",
    "merging",
    "uniting",
    "rejecting",
    "annotating",
    "observing",
    "plain",
)


@dataclass(slots=True)
class Reader:
    """A client of the feed, on a thread: the events of one connection."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        fields = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"}
        with httpx.stream("GET", f"{self.url}/v1/events", headers=fields, timeout=60.0) as answer:
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
            name = ""
            for line in answer.iter_lines():
                self.began.set()
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.events.append(json.loads(line.removeprefix("data: ")))
                    assert self.events[-1]["event"] == name
        self.ended.set()

    def points(self, collection: str) -> dict[str, list[dict[str, Any]]]:
        """By the name of the event."""
        by_id: dict[str, list[dict[str, Any]]] = {}
        for event in self.events:
            if event["collection"] == collection:
                by_id.setdefault(event["event"], []).extend(event["points"])
        return by_id

    def wait_for(self, collection: str, name: str, count: int) -> dict[str, list[dict[str, Any]]]:
        return eventually(lambda: self.points(collection), lambda seen: len(seen.get(name, ())) >= count)


@contextmanager
def reading(url: str) -> Iterator[Reader]:
    reader = Reader(url)
    thread = threading.Thread(target=reader.read, daemon=True)
    thread.start()
    assert reader.began.wait(30)
    yield reader


@dataclass(frozen=True, slots=True)
class World:
    client: QdrantClient
    api: str
    admin: str
    hook: Receiver
    proxy: stack.Command


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[World]:
    (folder / "secret").write_text(SECRET)
    (folder / "token").write_text(TOKEN)
    with receiving() as hook, start_embedded_process() as engine:
        (folder / "settings.yaml").write_text(SETTINGS.format(folder=folder, hook=hook.url))
        ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--api", "127.0.0.1:0")
        config = ("--config", str(folder / "settings.yaml"), "--upstream", engine)
        with stack.command("serve", *config, *ports, *arguments) as running:
            urls = running.addresses(3)
            client = QdrantClient(url=urls["serve"], timeout=30, check_compatibility=False)
            for name in COLLECTIONS:
                client.create_collection(
                    name, vectors_config=models.VectorParams(size=SIZE, distance=models.Distance.COSINE)
                )
            yield World(client, urls["API"], urls["admin"], hook, running)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serving(tmp_path_factory.mktemp("events")) as made:
        yield made


def struct(identifier: int, axis: int, text: str, **payload: Any) -> models.PointStruct:
    vector = [COMPONENT + (place == axis) for place in range(SIZE)]
    return models.PointStruct(id=identifier, vector=vector, payload={"text": f"{text}, {CANARY}", **payload})


def ids(points: list[dict[str, Any]]) -> list[object]:
    return [point["id"] for point in points]


def stats(api: str, query: str = "") -> tuple[int, dict[str, Any]]:
    answer = stack.exchange(api, "GET", f"/v1/stats{query}", headers={"Authorization": f"Bearer {TOKEN}"})
    return answer.status, json.loads(answer.body)


COPY = {"id": 3, "duplicateOf": 1, "tier": "exact", "similarity": 1.0}


def test_skip_tells_of_copies_of_what_was_added_and_of_what_was_skipped(world: World) -> None:
    with reading(world.api) as reader:
        world.client.upsert("skipping", [struct(1, 0, "alpha"), struct(2, 1, "beta")])
        world.client.upsert("skipping", [struct(3, 0, "ALPHA"), struct(4, 2, "gamma")])
        world.client.upsert("skipping", [struct(5, 2, "Gamma")])
        events = reader.wait_for("skipping", "skipped", 2)
    assert ids(events["added"]) == [1, 2, 4]
    assert events["duplicate-found"][0] == events["skipped"][0] == COPY
    assert ids(events["duplicate-found"]) == ids(events["skipped"]) == [3, 5]
    assert events.keys() == {"added", "duplicate-found", "skipped"}


def test_merge_tells_of_what_took_anothers_place_and_of_what_was_evicted(world: World) -> None:
    with reading(world.api) as reader:
        world.client.upsert("merging", [struct(1, 0, "alpha"), struct(2, 1, "beta")])
        world.client.upsert("merging", [struct(3, 0, "ALPHA"), struct(4, 2, "gamma")])
        world.client.upsert("uniting", [struct(1, 0, "alpha", tags=["a"])])
        world.client.upsert("uniting", [struct(3, 0, "ALPHA", tags=["b"])])
        merged, united = reader.wait_for("merging", "evicted", 1), reader.wait_for("uniting", "evicted", 1)
    assert (ids(merged["added"]), ids(merged["merged"])) == ([1, 2, 4], [3])
    assert merged["evicted"] == [{"id": 1, "duplicateOf": 3, "tier": "exact", "similarity": 1.0}]
    assert (ids(united["added"]), ids(united["merged"]), ids(united["evicted"])) == ([1], [3], [1])


@pytest.mark.parametrize("mode", ["annotating", "observing"])
def test_where_all_is_stored_copies_are_found_and_added(world: World, mode: str) -> None:
    with reading(world.api) as reader:
        world.client.upsert(mode, [struct(1, 0, "alpha")])
        reader.wait_for(mode, "added", 1)
        world.client.upsert(mode, [struct(3, 0, "ALPHA")])
        events = reader.wait_for(mode, "added", 2)
    assert (ids(events["added"]), events["duplicate-found"]) == ([1, 3], [COPY])


def test_what_is_rejected_or_fails_is_not_added(world: World) -> None:
    with reading(world.api) as reader:
        world.client.upsert("rejecting", [struct(1, 0, "alpha")])
        with pytest.raises(Exception, match="copies"):
            world.client.upsert("rejecting", [struct(3, 0, "ALPHA"), struct(4, 2, "gamma")])
        with pytest.raises(Exception, match="dim"):
            world.client.upsert("rejecting", [models.PointStruct(id=9, vector=[1.0], payload={})])
        world.client.upsert("rejecting", [struct(5, 3, "delta")])
        events = reader.wait_for("rejecting", "added", 2)
    assert (ids(events["added"]), ids(events["duplicate-found"])) == ([1, 5], [3])


def test_the_api_tells_of_what_it_adds_and_not_of_checks(world: World) -> None:
    head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

    def ask(path: str, identifier: int) -> int:
        point = struct(identifier, 0, "alpha").model_dump()
        body = {"collection": "plain", "point": {name: point[name] for name in ("id", "vector", "payload")}}
        return stack.exchange(world.api, "POST", path, json.dumps(body).encode(), head).status

    with reading(world.api) as reader:
        assert (ask("/v1/check", 7), ask("/v1/add", 1), ask("/v1/check", 8), ask("/v1/add", 2)) == (200,) * 4
        events = reader.wait_for("plain", "added", 2)
    assert (ids(events["added"]), ids(events["duplicate-found"])) == ([1, 2], [2])


def test_the_webhook_gets_the_same_events_signed_and_nothing_of_a_text_or_a_vector(world: World) -> None:
    world.client.upsert("skip-hook", [struct(1, 0, "alpha"), struct(3, 0, "ALPHA")])
    hooks = [world.hook.wait_for_points("skip-hook", name, 1) for name in ("duplicate-found", "added", "skipped")]
    assert hooks == [[COPY], [{"id": 1}], [COPY]]
    assert world.hook.is_signed_by(b"0123456789abcdef")
    assert set(world.hook.paths) == {"/events"}
    sent = b"".join(world.hook.bodies)
    assert CANARY.encode() not in sent.lower()
    assert b"%r" % COMPONENT not in sent  # no time of day has as many digits
    assert b"%r" % (COMPONENT + 1) not in sent


def test_the_log_tells_of_events_by_their_numbers_alone(world: World) -> None:
    world.client.upsert("skip-log", [struct(1, 0, "alpha"), struct(3, 0, "ALPHA")])
    world.proxy.wait_for('"msg":"skipped"')
    lines = [json.loads(line) for line in world.proxy.output().splitlines() if line.startswith("{")]
    events = [line for line in lines if line["msg"] in {"added", "skipped", "duplicate-found", "merged", "evicted"}]
    assert {line["msg"] for line in events} >= {"added", "skipped", "duplicate-found"}
    assert {frozenset(line) for line in events} == {frozenset({"ts", "level", "logger", "msg", "points"})}


def test_statistics_are_the_sums_of_what_was_told(world: World) -> None:
    status, before = stats(world.api, "?collection=plain")
    assert (status, before["totalEntries"]) == (200, world.client.count("plain").count)
    world.client.upsert("skip-stats", [struct(1, 0, "alpha"), struct(3, 0, "ALPHA")])
    _, after = stats(world.api)
    grown = {name: after[name] - before[name] for name in before if name not in {"totalEntries", "durationMs"}}
    assert {name: count for name, count in grown.items() if count} == {
        "totalChecks": 2,
        "exact": 1,
        "unique": 1,
        "duplicates": 1,
        "added": 1,
        "skipped": 1,
    }
    assert after["totalEntries"] is None
    assert after["durationMs"] > 0.0


@pytest.mark.parametrize(("query", "status"), [("?collection=none", 404), ("?collection=", 404), ("?what=1", 400)])
def test_statistics_of_what_does_not_exist_are_a_problem(world: World, query: str, status: int) -> None:
    assert stats(world.api, query)[0] == status


@pytest.mark.parametrize("path", ["/v1/events", "/v1/stats"])
def test_the_token_is_needed(world: World, path: str) -> None:
    assert stack.exchange(world.api, "GET", path, headers={"Accept": "text/event-stream"}).status == 401


def test_another_form_or_method_is_refused(world: World) -> None:
    head = {"Authorization": f"Bearer {TOKEN}"}
    assert stack.exchange(world.api, "GET", "/v1/events", headers={**head, "Accept": "application/json"}).status == 406
    assert stack.exchange(world.api, "HEAD", "/v1/events", headers=head).status == 405


def test_the_end_of_the_process_ends_the_feed_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as served, reading(served.api) as reader:
        served.client.upsert("skipping", [struct(1, 0, "alpha")])
        reader.wait_for("skipping", "added", 1)
        assert served.proxy.close() == 0
        assert reader.ended.wait(5)


def test_with_workers_the_webhook_and_the_statistics_are_of_all_of_them(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as served:
        for number in range(1, 13):
            fresh = QdrantClient(url=served.client._client.rest_uri, timeout=30, check_compatibility=False)  # type: ignore[attr-defined]  # - the client's own address
            fresh.upsert("observing", [struct(number, number % SIZE, f"text {number}")])
            fresh.close()
        assert sorted(point["id"] for point in served.hook.wait_for_points("observing", "added", 12)) == list(
            range(1, 13)
        )
        assert stats(served.api)[1]["added"] == 12
