"""The emulator on the wire: where indexes are, which listener answers for what, and what a large request meets."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import orjson
import pytest
from servers.pinecone.server import Emulator, serve
from servers.pinecone.store import label_of

from support.embedded import Exchange, exchange
from support.emulated import LOCAL, SERVERLESS, emulated

KEY = {"Api-Key": "pcsk_test", "X-Pinecone-Api-Version": "2026-04"}
DENSE = {"name": "movies", "dimension": 2, "metric": "cosine", "spec": SERVERLESS}


def send(url: str, method: str, path: str, body: object = None) -> Exchange:
    return exchange(url, method, path, body, headers=KEY)


def made(emulator: Emulator, name: str = "movies") -> str:
    answer = send(emulator.url, "POST", "/indexes", {**DENSE, "name": name})
    assert answer.status == 201
    host: str = answer.json["host"]
    assert send(host, "POST", "/vectors/upsert", {"vectors": [{"id": name, "values": [1, 0]}]}).status == 200
    return host


def found(host: str) -> list[str]:
    answer = send(host, "POST", "/query", {"topK": 5, "vector": [1, 0]})
    return [match["id"] for match in answer.json["matches"]]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with emulated() as running:
        yield running


def test_each_index_has_a_port_of_its_own(emulator: Emulator) -> None:
    one, two = made(emulator, "one"), made(emulator, "two")
    assert len({one, two, emulator.url}) == 3
    assert (found(one), found(two)) == (["one"], ["two"])
    described = send(emulator.url, "GET", "/indexes/one").json
    assert described["host"] == described["private_host"] == one


def test_the_control_plane_has_no_data_and_an_index_no_control_plane(emulator: Emulator) -> None:
    host = made(emulator, "split")
    assert send(emulator.url, "POST", "/query", {}).body == (
        b'{"status":404,"error":{"code":"NOT_FOUND","message":"this emulator has no POST /query in version 2026-04"}}'
    )
    answer = send(host, "GET", "/indexes")
    assert (answer.status, answer.json["code"]) == (404, 5)


def test_a_deleted_index_answers_no_more_and_one_made_anew_is_where_it_was(emulator: Emulator) -> None:
    host = made(emulator, "again")
    assert send(emulator.url, "DELETE", "/indexes/again").status == 202
    gone = send(host, "POST", "/query", {"topK": 1, "vector": [1, 0]})
    assert (gone.status, gone.json) == (404, {"code": 5, "message": "Index not found", "details": []})
    assert made(emulator, "again") == host


def send_to(host: str, emulator: Emulator, path: str, body: object) -> Any:
    """POST to the emulator under the name of an index."""
    connection = HTTPConnection("127.0.0.1", emulator.port, timeout=10)
    connection.request("POST", path, orjson.dumps(body), headers={**KEY, "Host": host})
    answer = connection.getresponse()
    assert answer.status == 200
    said = orjson.loads(answer.read())
    connection.close()
    return said


def test_indexes_may_share_a_port_and_be_told_apart_by_their_host() -> None:
    forms = {"host_form": "{label}.svc.emulator.test:{port}", "private_form": "{label}.svc.private.emulator.test"}
    with emulated(**forms) as running:
        for name in ("one", "two"):
            described = send(running.url, "POST", "/indexes", {**DENSE, "name": name}).json
            label = label_of(name)
            assert described["host"] == f"{label}.svc.emulator.test:{running.port}"
            assert described["private_host"] == f"{label}.svc.private.emulator.test"
            send_to(described["host"], running, "/vectors/upsert", {"vectors": [{"id": name, "values": [1, 0]}]})
        query = {"topK": 5, "vector": [1, 0]}
        for host, name in ((label_of("two"), "two"), (label_of("one").upper(), "one")):
            matches = send_to(f"{host}.svc.private.emulator.test", running, "/query", query)["matches"]
            assert [match["id"] for match in matches] == [name]
        assert len(send(running.url, "GET", "/indexes").json["indexes"]) == 2


def test_a_thousand_uuids_can_be_fetched(emulator: Emulator) -> None:
    host = made(emulator, "many")
    query = "&".join(f"ids={uuid.UUID(int=number)}" for number in range(1000))
    answer = send(host, "GET", f"/vectors/fetch?{query}&ids=many")
    assert answer.status == 400
    answer = send(host, "GET", f"/vectors/fetch?{query.partition('&')[2]}&ids=many")
    assert list(answer.json["vectors"]) == ["many"]


def test_a_body_of_two_megabytes_is_taken(emulator: Emulator) -> None:
    host = made(emulator, "large")
    body = b'{"vectors":[{"id":"x","values":[1,2]}]}'.ljust(2 * 1024 * 1024)
    assert send(host, "POST", "/vectors/upsert", body).json == {"upsertedCount": 1}
    refused = send(host, "POST", "/vectors/upsert", body + b" ")
    assert (refused.status, refused.json["code"]) == (400, 11)


async def test_it_listens_where_it_is_told_and_lets_go_of_it() -> None:
    async with serve(LOCAL) as running:
        assert running.url == f"http://127.0.0.1:{running.port}"
    with socket.create_server(("127.0.0.1", running.port)):
        pass


async def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = type(LOCAL)("127.0.0.1", other.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            async with serve(address):
                pytest.fail("it must not start")


def test_two_emulators_know_nothing_of_each_other(emulator: Emulator) -> None:
    made(emulator, "mine")
    with emulated() as other:
        listed: list[Any] = send(other.url, "GET", "/indexes").json["indexes"]
        assert listed == []
