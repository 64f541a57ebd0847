"""The modes that change what is stored, through the official client over REST and gRPC, on the real engine; and back again."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.backends.two_facts import PLANTED, TWO_FACTS
from support.backends.write_gates import text_with
from support.grpc.clients import code_of, details_of, over_grpc
from support.network.http_scripts import Script, in_a_thread
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process
from vecsieve.adapters.contract import Operation
from vecsieve.adapters.qdrant.rest_write import QdrantRestWrites
from vecsieve.adapters.writes import WriteNeeds
from vecsieve.proxy.jobs.source import Points
from vecsieve.proxy.jobs.undo import Arguments, run
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import LeftOut, State

SIZE = 8
TRANSPORTS = pytest.mark.parametrize("transport", ["rest", "grpc"])
Engine = tuple[str, str]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with start_embedded_grpc_process() as urls:
        yield urls


@contextmanager
def gated(
    engine: Engine, journal: Path, transport: str, mode: str, *, ignore: str = "[]", **write: str
) -> Iterator[QdrantClient]:
    with gated_for(1, engine, journal, transport, mode, ignore=ignore, **write) as clients:
        yield clients[0]


@contextmanager
def gated_for(
    count: int, engine: Engine, journal: Path, transport: str, mode: str, *, ignore: str = "[]", **write: str
) -> Iterator[list[QdrantClient]]:
    """So many clients of one proxy with as many workers, which share the journal."""
    variables = {f"VECSIEVE_POLICY_WRITE_{name.upper()}": value for name, value in {"mode": mode, **write}.items()}
    settings = journal.with_suffix(".yaml")
    settings.write_text(f"policy: {{ignore: {ignore}}}\n")
    arguments = (
        "--config",
        str(settings),
        "--upstream",
        engine[0],
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    )
    over = ("--grpc-listen", "127.0.0.1:0", "--grpc-upstream", engine[1].removeprefix("http://"))
    with ExitStack() as stacked:
        environment = {**variables, "VECSIEVE_JOURNAL_PATH": str(journal), "VECSIEVE_WORKERS": str(count)}
        running = stacked.enter_context(stack.command("serve", *arguments, *over, environment=environment))
        urls = running.addresses(3)
        if transport == "grpc":
            yield [over_grpc(urls["serve"], urls["gRPC"]) for _ in range(count)]
        else:
            yield [QdrantClient(url=urls["serve"], timeout=30, check_compatibility=False) for _ in range(count)]


@cache
def direct(engine: Engine) -> QdrantClient:
    return QdrantClient(url=engine[0], timeout=30, check_compatibility=False)


def vector(axis: int) -> list[float]:
    return [0.25 + (place == axis) for place in range(SIZE)]


def struct(identifier: int, axis: int, text: str, **payload: Any) -> models.PointStruct:
    return models.PointStruct(id=identifier, vector=vector(axis), payload={"text": text, **payload})


def made(engine: Engine, name: str) -> QdrantClient:
    client = direct(engine)
    client.create_collection(name, vectors_config=models.VectorParams(size=SIZE, distance=models.Distance.COSINE))
    return client


def ids(engine: Engine, name: str) -> list[object]:
    return [point.id for point in direct(engine).scroll(name, limit=100)[0]]


def everything(engine: Engine, name: str) -> bytes:
    body = b'{"limit":1000,"with_payload":true,"with_vector":true}'
    return stack.exchange(engine[0], "POST", f"/collections/{name}/points/scroll", body).timeless


def undo(journal: Path, engine: Engine, *, rejected: bool = False) -> str:
    """Apply it, in this process. What it says."""
    arguments = Arguments(journal=journal, url=engine[0], rejected=rejected, apply=True)
    with redirect_stdout(StringIO()) as words:
        assert run(arguments) == 0
    return words.getvalue()


WRITES = [
    [struct(1, 0, text_with("alpha"), tags=["a"], n=1), struct(2, 1, text_with("beta"), n=2)],
    [
        struct(3, 0, text_with("alpha"), tags=["b"], n=0),
        struct(4, 2, text_with("gamma")),
        struct(5, 2, text_with("gamma"), n=2.5),
    ],
    [struct(6, 1, text_with("beta"), n=7, nested={"größe": [1.5, None, True]})],
]


def stored(client: QdrantClient, name: str) -> None:
    for points in WRITES:
        answer = client.upsert(name, points)
        assert answer.status is models.UpdateStatus.COMPLETED


@pytest.mark.parametrize(
    ("transport", "mode", "merge", "left"),
    [
        ("grpc", "skip", "keep-newest", [1, 2, 4]),
        ("rest", "merge", "keep-newest", [3, 5, 6]),
        ("rest", "merge", "keep-oldest", [1, 2, 4]),
        ("rest", "merge", "merge", [3, 5, 6]),
        ("grpc", "merge", "merge", [3, 5, 6]),
    ],
)
def test_one_of_each_family_stays_and_undo_gives_all_of_them_back(
    engine: Engine, tmp_path: Path, transport: str, mode: str, merge: str, left: list[int]
) -> None:
    """The collection is byte for byte the one that would have been without the gate; over gRPC the order of a payload's keys is open."""
    journal, name = tmp_path / "j.db", f"{mode}_{merge}_{transport}"
    made(engine, name)
    stored(direct(engine), made_plain(engine, f"{name}_plain"))
    with gated(engine, journal, transport, mode, merge=merge, ignore="[n, nested, tags]") as client:
        stored(client, name)
    assert ids(engine, name) == left
    undo(journal, engine)
    kept, plain = everything(engine, name), everything(engine, f"{name}_plain")
    assert kept == plain if transport == "rest" else json.loads(kept) == json.loads(plain)
    assert "0 points were left out" in undo(journal, engine)


def made_plain(engine: Engine, name: str) -> str:
    made(engine, name)
    return name


@TRANSPORTS
@pytest.mark.parametrize("mode", ["skip", "merge"])
def test_without_a_word_of_the_user_points_of_one_text_with_other_facts_are_all_stored(
    engine: Engine, tmp_path: Path, transport: str, mode: str
) -> None:
    name = f"facts_{mode}_{transport}"
    made(engine, name)
    with gated(engine, tmp_path / "j.db", transport, mode) as client:
        client.upsert(name, [struct(1, 0, text_with("alpha"), file="a"), struct(2, 0, text_with("alpha"), file="b")])
        client.upsert(
            name,
            [
                struct(3, 0, text_with("alpha"), file="b"),
                struct(4, 0, text_with("alpha"), file="c"),
                struct(5, 0, text_with("alpha")),
            ],
        )
    assert ids(engine, name) == ([1, 2, 4, 5] if mode == "skip" else [1, 3, 4, 5])


@pytest.mark.parametrize("mode", ["skip", "merge"])
def test_of_records_that_differ_in_one_thing_none_is_left_out_and_planted_copies_all_are(
    engine: Engine, tmp_path: Path, mode: str
) -> None:
    name, records = f"records_{mode}", [text for texts in TWO_FACTS.values() for text in texts]
    made(engine, name)
    with gated(engine, tmp_path / "j.db", "rest", mode, merge="keep-oldest", neighbours="32") as client:
        for start in range(0, len(records), 7):
            batch = records[start : start + 7]
            client.upsert(name, [struct(start + number, 0, text) for number, text in enumerate(batch)])
        assert ids(engine, name) == list(range(len(records)))
        for number, (part, whole) in enumerate(PLANTED):
            client.upsert(name, [struct(100 + number, 1 + number, whole)])
            client.upsert(name, [struct(200 + number, 1 + number, part)])
    assert not {identifier for identifier in ids(engine, name) if isinstance(identifier, int) and identifier >= 200}


@TRANSPORTS
def test_a_merged_point_has_what_both_had(engine: Engine, tmp_path: Path, transport: str) -> None:
    name = f"both_{transport}"
    made(engine, name)
    with gated(engine, tmp_path / "j.db", transport, "merge", merge="merge", ignore="[n]") as client:
        stored(client, name)
        client.upsert(name, [struct(7, 0, text_with("Alpha"), tags=["c"], title="new")])
        (point,) = client.retrieve(name, [7])
    assert point.payload == {"text": text_with("Alpha"), "tags": ["a", "b", "c"], "n": 1, "title": "new"}
    assert "2 changed" in undo(tmp_path / "j.db", engine)


@TRANSPORTS
def test_a_write_with_copies_is_refused_natively_and_whole(engine: Engine, tmp_path: Path, transport: str) -> None:
    journal, name = tmp_path / "j.db", f"reject_{transport}"
    made(engine, name)
    with gated(engine, journal, transport, "reject") as client:
        client.upsert(name, [struct(1, 0, text_with("alpha"))])
        with pytest.raises((UnexpectedResponse, grpc.RpcError)) as failure:
            client.upsert(name, [struct(2, 1, text_with("beta")), struct(3, 0, text_with("alpha"))])
        client.upsert(name, [struct(2, 1, text_with("beta"))])
        client.upsert(name, [struct(2, 0, text_with("alpha"))])  # an update
    error = failure.value
    if isinstance(error, UnexpectedResponse):
        assert error.status_code == 409
        assert "1 of 2 points are copies, which are rejected here: 3 of 1" in error.content.decode()
    else:
        assert isinstance(error, grpc.RpcError)
        assert code_of(error) is grpc.StatusCode.ALREADY_EXISTS
        assert "3 of 1" in (details_of(error) or "")
    assert ids(engine, name) == [1, 2]
    assert "0 points were left out" in undo(journal, engine)
    assert "1 were stored" in undo(journal, engine, rejected=True)
    assert ids(engine, name) == [1, 2, 3]


@TRANSPORTS
def test_a_left_out_point_that_its_client_deletes_is_not_restored(
    engine: Engine, tmp_path: Path, transport: str
) -> None:
    name, journal = f"deleted_{transport}", tmp_path / "j.db"
    made(engine, name)
    copies = [struct(identifier, 0, text_with("alpha")) for identifier in (2, 3, 4, 5)]
    with gated(engine, journal, transport, "skip", deadline_seconds="30") as client:
        client.upsert(name, [struct(1, 0, text_with("alpha")), *copies])
        assert ids(engine, name) == [1]
        client.delete(name, models.PointIdsList(points=[2, 9]))
        client.upsert(name, [struct(6, 0, text_with("alpha"))])
        client.delete(name, models.PointIdsList(points=[3]), wait=False)
        client.delete(name, models.PointIdsList(points=[4]))
        client.upsert(name, [copies[2]])
    assert "3 were stored" in undo(journal, engine)
    assert ids(engine, name) == [1, 4, 5, 6]
    with gated(engine, journal, transport, "skip", deadline_seconds="30") as client:
        client.upsert(name, [struct(7, 0, text_with("alpha"))])
        client.delete(name, models.Filter(must=[models.HasIdCondition(has_id=[7])]))
    assert "1 more may have been deleted since" in undo(journal, engine)
    assert ids(engine, name) == [1, 4, 5, 6]


NONE = models.FieldCondition(key="text", match=models.MatchValue(value="no"))
# By a name.
CHANGES: dict[str, Callable[[QdrantClient, str, bool], object]] = {
    "set": lambda client, name, wait: client.set_payload(name, {"text": text_with("alpha")}, points=[1], wait=wait),
    "overwrite": lambda client, name, wait: client.overwrite_payload(
        name, {"text": text_with("alpha")}, points=[1], wait=wait
    ),
    "delete": lambda client, name, wait: client.delete_payload(name, ["no"], points=[1], wait=wait),
    "vectors": lambda client, name, wait: client.update_vectors(
        name, [models.PointVectors(id=1, vector=vector(0))], wait=wait
    ),
    "by a filter": lambda client, name, wait: client.set_payload(
        name, {"text": text_with("alpha")}, points=models.Filter(must=[models.HasIdCondition(has_id=[1])]), wait=wait
    ),
    "deletion": lambda client, name, wait: client.delete(name, models.PointIdsList(points=[1]), wait=wait),
    "deletion by a filter": lambda client, name, wait: client.delete(name, models.Filter(must=[NONE]), wait=wait),
    "batch": lambda client, name, wait: client.batch_update_points(
        name,
        [models.SetPayloadOperation(set_payload=models.SetPayload(payload={"text": text_with("alpha")}, points=[1]))],
        wait=wait,
    ),
}


@TRANSPORTS
@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_of_a_point_whose_change_may_still_come_is_stored(
    engine: Engine, tmp_path: Path, transport: str, change: str
) -> None:
    """The database shows point 1 as it was, since it is stored again beside the proxy."""
    name, original = f"changed_{transport}_{change.replace(' ', '_')}", [struct(1, 0, text_with("alpha"))]
    made(engine, name)
    with gated(engine, tmp_path / "j.db", transport, "skip", deadline_seconds="30") as client:
        client.upsert(name, original)
        CHANGES[change](client, name, True)
        direct(engine).upsert(name, original)
        client.upsert(name, [struct(2, 0, text_with("alpha"))])
        assert ids(engine, name) == [1]
        CHANGES[change](client, name, False)
        direct(engine).upsert(name, original)
        client.upsert(name, [struct(3, 0, text_with("alpha"))])
        assert ids(engine, name) == [1, 3]


def test_a_point_that_was_merged_and_changed_since_stays_as_it_is(engine: Engine, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    made(engine, "since")
    with gated(engine, journal, "rest", "merge", merge="merge") as client:
        client.upsert("since", [struct(1, 0, text_with("alpha"), tags=["a"])])
        client.upsert("since", [struct(2, 0, text_with("alpha"), tags=["b"])])
    direct(engine).set_payload("since", {"tags": ["own"]}, [2])
    words = undo(journal, engine)
    assert "0 have their own content again; 1 were changed since" in words
    assert direct(engine).retrieve("since", [2])[0].payload == {"text": text_with("alpha"), "tags": ["own"]}


def test_a_point_that_was_merged_and_has_another_vector_since_stays_as_it_is(engine: Engine, tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    made(engine, "vector_since")
    with gated(engine, journal, "rest", "merge", merge="merge") as client:
        client.upsert("vector_since", [struct(1, 0, text_with("alpha"), tags=["a"])])
        client.upsert("vector_since", [struct(2, 0, text_with("alpha"), tags=["b"])])
    other_vector = struct(2, 3, "").vector
    assert isinstance(other_vector, list)
    direct(engine).update_vectors("vector_since", [models.PointVectors(id=2, vector=other_vector)])
    words = undo(journal, engine)
    assert "0 have their own content again; 1 were changed since" in words
    (point,) = direct(engine).retrieve("vector_since", [2], with_vectors=True)
    assert point.payload == {"text": text_with("alpha"), "tags": ["a", "b"]}
    assert point.vector == pytest.approx(np.array(other_vector) / np.linalg.norm(other_vector), abs=1e-3)


def test_undo_opens_a_collection_once_however_many_points_were_changed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened for each point, so that `--rate` bounded nothing."""
    journal = tmp_path / "j.db"
    made(engine, "often")
    with gated(engine, journal, "rest", "merge", merge="merge") as client:
        for axis in range(4):
            client.upsert("often", [struct(2 * axis, axis, text_with(f"axis {axis}"), tags=["a"])])
            client.upsert("often", [struct(2 * axis + 1, axis, text_with(f"axis {axis}"), tags=["b"])])
    opened: list[str] = []

    def counted(arguments: Arguments, collection: str) -> Points:
        opened.append(collection)
        return points(arguments, collection)

    points = Arguments.points
    monkeypatch.setattr(Arguments, "points", counted)
    assert "4 have their own content again; 0 were changed since" in undo(journal, engine)
    assert opened == ["often", "often"], "once to store and once to restore"


def test_a_point_that_the_database_refuses_holds_up_no_other(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One in a batch, which the gate had left out and acknowledged, kept undo from storing all others."""
    made(engine, "refused")
    bodies = [
        b'{"id":%d,"vector":%s}' % (number, b"[1.0]" if number == 3 else json.dumps(vector(number % SIZE)).encode())
        for number in range(1, 10)
    ]
    rows = [
        LeftOut(
            collection="refused",
            partition=b"",
            id=b"%d" % number,
            survivor=b"99",
            tier="exact",
            similarity=1.0,
            point=body,
        )
        for number, body in enumerate(bodies, 1)
    ]
    with closing(Book(tmp_path / "j.db")) as book:
        book.enter(rows, State.DONE, at=1.0)
    options = Arguments(journal=tmp_path / "j.db", url=engine[0], apply=True, requests_per_second=1000.0)
    assert run(options) == 1
    assert "1 were not stored: 3: " in capsys.readouterr().err
    assert ids(engine, "refused") == [1, 2, 4, 5, 6, 7, 8, 9]
    assert run(options) == 1
    direct(engine).delete_collection("refused")
    assert run(options) == 1


@pytest.mark.parametrize("mode", ["skip", "merge"])
@TRANSPORTS
def test_of_two_writers_of_one_text_at_once_one_point_stays_or_both(
    engine: Engine, tmp_path: Path, transport: str, mode: str
) -> None:
    """Never neither: who is not stored is in the journal, and the other is stored."""
    journal, name, rounds = tmp_path / "j.db", f"at_once_{mode}_{transport}", 20
    made(engine, name)
    draw = random.Random(mode)
    vectors = [[draw.gauss(0.0, 1.0) for _ in range(SIZE)] for _ in range(rounds)]
    pauses = [[draw.choice((0.0, 0.005, 0.02)) for _ in range(rounds)] for _ in range(2)]
    together = threading.Barrier(2)

    def write(client: QdrantClient, first: int) -> None:
        for number, embedding in enumerate(vectors):
            together.wait(30)
            time.sleep(pauses[first][number])
            payload = {"text": f"the words of text {number}"}
            client.upsert(name, [models.PointStruct(id=2 * number + first, vector=embedding, payload=payload)])

    with (
        gated_for(2, engine, journal, transport, mode) as clients,
        ThreadPoolExecutor(2) as threads,
    ):
        for identifier in (900, 901):  # one after the other, so that there is a journal
            clients[0].upsert(name, [struct(identifier, 0, text_with("alpha"))])
        for done in [threads.submit(write, client, first) for first, client in enumerate(clients)]:
            done.result(120)
    left = set(ids(engine, name))
    assert all(left & {2 * number, 2 * number + 1} for number in range(rounds))
    undo(journal, engine)
    assert set(ids(engine, name)) == {*range(2 * rounds), 900, 901}


@pytest.mark.parametrize("change", ["member", "vector", "list", "nothing"])
def test_a_stored_point_that_another_client_changes_while_it_is_replaced_stays(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A conditional deletion compares what was judged: not a member that was added, nor vectors and lists."""
    name = f"replaced_{change}"
    client = made(engine, name)
    client.upsert(name, [struct(1, 0, text_with("alpha"), tags=["a"])])

    def changed() -> None:
        if change == "member":
            client.set_payload(name, {"more": 1}, [1])
        elif change == "list":
            client.set_payload(name, {"tags": ["a", "b"]}, [1])
        elif change == "vector":
            other = struct(1, 3, "").vector
            assert isinstance(other, list)
            client.update_vectors(name, [models.PointVectors(id=1, vector=other)])

    with (
        changing(engine[0], changed) as between,
        gated((between, *engine[1:]), tmp_path / "j.db", "rest", "merge") as other,
    ):
        other.upsert(name, [struct(2, 0, text_with("alpha"), tags=["a"])])
    assert ids(engine, name) == ([2] if change == "nothing" else [1, 2])


@contextmanager
def changing(engine: str, change: Callable[[], None]) -> Iterator[str]:
    """A relay before the engine that changes a point right before it passes an upsert on."""

    class Relay(Script):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.content()
            if self.command == "PUT" and "/points" in self.path:
                change()
            answer = stack.exchange(engine, self.command, self.path, body, {"Content-Type": "application/json"})
            self.answer(answer.body, answer.status)

        do_GET = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815 - the library's names

    with in_a_thread(Relay) as url:
        yield url


def test_a_stored_point_that_changed_meanwhile_is_not_removed(engine: Engine) -> None:
    """What the gate sends to remove a point names what the point was when it was judged."""
    client = made(engine, "meanwhile")
    client.upsert("meanwhile", [struct(1, 0, "new text"), struct(2, 0, "same", n=3, is_=True)])
    verbs, write = QdrantRestWrites(), Operation(backend="qdrant", name="upsert", collection="meanwhile")
    any_write = b'{"points":[{"id":9,"vector":[1,2]}]}'
    points = verbs.parse(write, any_write, WriteNeeds(vector_name=None, keys=("text",), most=9))
    victims = {
        b"1": b'{"id":1,"payload":{"text":"old text"}}',
        b"2": b'{"id":2,"payload":{"text":"same","n":3,"is_":true}}',
    }
    (question,) = verbs.ask_removed(write, points, victims)
    assert stack.exchange(engine[0], question.method, question.target, question.body).status == 200
    assert ids(engine, "meanwhile") == [1]


def test_a_write_that_is_not_waited_for_removes_nothing(engine: Engine, tmp_path: Path) -> None:
    made(engine, "async")
    with gated(engine, tmp_path / "j.db", "rest", "merge") as client:
        client.upsert("async", [struct(1, 0, text_with("alpha"))])
        client.upsert("async", [struct(2, 0, text_with("alpha"))], wait=False)
        client.upsert("async", [struct(3, 1, text_with("beta"))])  # behind it in the same queue
    assert ids(engine, "async") == [1, 2, 3]
