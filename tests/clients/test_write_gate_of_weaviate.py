"""The write gate of Weaviate, through its official client: an emulator of its server, and the server itself where WEAVIATE_SERVER names
its program (`make real-servers`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.backends.write_gates import text_with
from support.deploy.expositions import counts
from support.process import real_servers
from support.process.commands import forked_command
from support.process.real_servers import RealServer
from support.process.stack import exchange
from support.weaviate.client import NEEDS_CLIENT, SCENARIO, client_output
from support.weaviate.front import Place, direct, fronted
from support.weaviate.server import Weaviate, weaviate

pytestmark = NEEDS_CLIENT
PROGRAM = SCENARIO.with_name("gated.py")
COPIES = {"1": None, "2": None, "3": 1, "4": None, "5": 4, "6": 2}
NONE = dict.fromkeys(COPIES)
REAL = real_servers.program(real_servers.WEAVIATE)
WITH_KEYS = {
    "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
    "AUTHENTICATION_APIKEY_ENABLED": "true",
    "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "sesame",
    "AUTHENTICATION_APIKEY_USERS": "somebody",
}
Server = Weaviate | RealServer
Opened = Callable[[], AbstractContextManager[Server]]
NEEDS_SERVER = pytest.mark.skipif(REAL is None, reason="WEAVIATE_SERVER names no program of Weaviate's server")


@pytest.fixture(params=["emulator", pytest.param("server", marks=NEEDS_SERVER)])
def opened(request: pytest.FixtureRequest) -> Opened:
    return weaviate if request.param == "emulator" else partial(real_servers.weaviate, str(REAL), WITH_KEYS)


@pytest.fixture
def server(opened: Opened) -> Iterator[Server]:
    with opened() as running:
        client_output(direct(running), "create", PROGRAM)
        yield running


def written(server: Server, folder: Path, mode: str) -> tuple[Any, dict[str, float]]:
    """What the client saw, and how many writes had each outcome."""
    file = folder / f"{mode}.yaml"
    file.write_text(f"policy: {{write: {{mode: '{mode}'}}}}\n")
    with fronted(server, None, "--config", str(file)) as place:
        seen = client_output(place, "write", PROGRAM)
        return seen, outcomes(place, sum(COUNTS[mode].values()))


COUNTS = {
    "off": {},
    "observe": {"judged": 15.0},
    # Of the collection without a property for notes none is read; nor can an object of the client be stored otherwise.
    "annotate": {"judged": 11.0, "unsupported": 4.0},
}


def outcomes(place: Place, expected: float) -> dict[str, float]:
    for _ in range(300):
        written = {
            by_outcome: count for by_outcome, count in counts(place.admin, "writes_total", "outcome").items() if count
        }
        if sum(written.values()) >= expected:
            break
    return written


@pytest.mark.parametrize("mode", ["off", "observe", "annotate"])
def test_copies_are_annotated_where_there_is_a_property_for_notes(server: Server, tmp_path: Path, mode: str) -> None:
    seen, counts = written(server, tmp_path, mode)
    is_noted = mode == "annotate"
    assert counts == COUNTS[mode]
    assert seen["Noted"] == seen["NotedL2"] == (COPIES if is_noted else NONE)
    assert seen["Plain"] == NONE
    assert seen["Shared"] == {"left": {"1": None, "3": 1 if is_noted else None}, "right": {"2": None}}
    if isinstance(server, RealServer):
        return  # it does not tell what it was asked
    if mode == "off":
        assert not server.requested
    assert all(headers["Authorization"] == "Bearer sesame" for _, headers in server.requested)
    assert any(b"_vecsieve" in write for write in server.written) == is_noted


def changing(folder: Path, mode: str) -> Path:
    file = folder / f"{mode}.yaml"
    file.write_text(f"policy: {{write: {{mode: {mode}}}}}\njournal: {{path: {folder / 'j.db'}}}\n")
    return file


def undone(folder: Path, url: str) -> str:
    """What `vecsieve undo --apply` says."""
    arguments = ("undo", "--journal", str(folder / "j.db"), "--url", url, "--backend", "weaviate", "--apply")
    done = forked_command(*arguments, WEAVIATE_API_KEY="sesame")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_copies_are_left_out_and_undo_stores_all_that_came(server: Server, opened: Opened, tmp_path: Path) -> None:
    with fronted(server, None, "--config", str(changing(tmp_path, "skip"))) as place:
        seen = client_output(place, "write", PROGRAM)
    assert {name: sorted(ids) for name, ids in seen.items() if name != "Shared"} == {
        "Noted": ["1", "2", "4"], "NotedL2": ["1", "2", "4"], "Plain": ["1", "2", "4"],
    }  # fmt: skip
    assert {tenant: sorted(ids) for tenant, ids in seen["Shared"].items()} == {"left": ["1"], "right": ["2"]}
    assert "10 were stored" in undone(tmp_path, server.url)
    content = client_output(direct(server), "everything", PROGRAM)
    assert "0 points were left out" in undone(tmp_path, server.url)
    with opened() as other:
        client_output(direct(other), "create", PROGRAM)
        client_output(direct(other), "write", PROGRAM)
        assert content == client_output(direct(other), "everything", PROGRAM)


@pytest.mark.parametrize(
    ("merge", "left", "shared"),
    [("keep-newest", "2567", "3"), ("keep-oldest", "1247", "1"), ("keep-longest", "1247", "3")],
)
def test_of_copies_one_object_stays_and_undo_stores_the_others_as_they_were(
    server: Server, opened: Opened, tmp_path: Path, merge: str, left: str, shared: str
) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(
        f"policy: {{ignore: [team], write: {{mode: merge, merge: {merge}}}}}\njournal: {{path: {tmp_path / 'j.db'}}}\n"
    )
    with fronted(server, None, "--config", str(file)) as place:
        client_output(place, "merge", PROGRAM)
    content = client_output(direct(server), "everything", PROGRAM)
    assert {name: "".join(sorted(content[name])) for name in ("Noted", "NotedL2", "left", "right")} == {
        "Noted": left, "NotedL2": left, "left": shared, "right": "2",
    }  # fmt: skip
    undone(tmp_path, server.url)
    content = client_output(direct(server), "everything", PROGRAM)
    assert "0 points were left out" in undone(tmp_path, server.url)
    with opened() as other:
        client_output(direct(other), "create", PROGRAM)
        client_output(direct(other), "merge", PROGRAM)
        assert content == client_output(direct(other), "everything", PROGRAM)


def united(server: Server) -> dict[str, Any]:
    """By the end of its id what is stored of each object."""
    headers = {"Authorization": "Bearer sesame"}
    answer = exchange(server.url, "GET", "/v1/objects?class=United&limit=100&include=vector", headers=headers)
    body = answer.body.replace(b".500+01:00", b".5+01:00")  # the server itself leaves zeros out, the emulator does not
    objects = {item["id"][-1]: item for item in json.loads(body)["objects"]}
    return {key: [item["properties"], item.get("vector"), item.get("vectors")] for key, item in objects.items()}


BOTH = {
    "text": text_with("alpha!!!"), "tags": ["a", "b"], "counts": [1, 7], "n": 5, "team": "ü", "at": "2026-01-02T00:00:00.5+01:00", "is": True,
    "sizes": [0.5, 2.0, 1.0], "flags": [True], "ratio": 0.1, "key": "00000000-0000-0000-0000-000000000009",
    "where": {"latitude": 48.137154, "longitude": 11.5},
}  # fmt: skip


def test_of_copies_the_one_that_comes_stays_with_what_both_had_and_undo_stores_all_as_they_came(
    server: Server, opened: Opened, tmp_path: Path
) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(
        f"policy: {{ignore: [n, at], write: {{mode: merge, merge: merge}}}}\njournal: {{path: {tmp_path / 'j.db'}}}\n"
    )
    with fronted(server, None, "--config", str(file)) as place:
        client_output(place, "unite", PROGRAM)
    assert {key: properties for key, (properties, *_) in united(server).items()} == {
        "2": {"text": text_with("beta"), "tags": ["z"]},
        "5": {"text": text_with("Gamma"), "counts": [2]},
        "6": BOTH,
    }
    undone(tmp_path, server.url)
    content = united(server)
    assert "0 points were left out" in undone(tmp_path, server.url)
    with opened() as other:
        client_output(direct(other), "unite", PROGRAM)
        assert content == united(other)


def test_a_write_with_copies_is_refused(server: Server, tmp_path: Path) -> None:
    with fronted(server, None, "--config", str(changing(tmp_path, "reject"))) as place:
        batch, one, *stored = client_output(place, "reject", PROGRAM)
    assert "1 of 2 points are copies, which are rejected here" in batch
    assert "1 of 1 points are copies, which are rejected here" in one
    assert stored == ["1"]
