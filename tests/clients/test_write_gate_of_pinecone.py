"""The write gate of Pinecone, through its official clients over REST and gRPC: annotate, skip, merge, reject, observe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pinecone import Pinecone
from pinecone.errors import ConflictError, PineconeError
from pinecone.grpc import GrpcIndex
from servers.pinecone.server import Emulator

from support.backends.write_gates import (
    SIZE,
    originals,
    restored,
    settings,
    ten_minutes_later,
    text_with,
    undone,
    vector,
)
from support.pinecone.loading import KEY, index_url, loaded, loaded_emulator
from support.process.running import running
from support.process.stack import exchange, serve


def eventually(read: Callable[[], Any], expected: Any) -> None:
    """An index may need a moment to show what was stored."""
    for _ in range(100):
        if (seen := read()) == expected:
            return
    assert seen == expected


REFUSALS = {"rest": ConflictError, "grpc": PineconeError}
METRICS = ("cosine", "euclidean", "dotproduct")


def plan() -> dict[str, Any]:
    made = {"dimension": SIZE, "metric": "cosine"}
    return {"indexes": {name: {"created": {**made, "metric": name}, "records": {}} for name in METRICS}}


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with loaded(plan()) as url:
        yield url


@pytest.mark.parametrize("name", ["cosine", "euclidean"])
def test_copies_in_pinecone_are_annotated_in_their_namespace(control: str, name: str, tmp_path: Path) -> None:
    options = "--config", str(settings(tmp_path))
    with (
        serve(control, "--backend", "pinecone", *options) as (url, _),
        Pinecone(api_key=KEY, host=url) as client,
        client.index(name) as index,
    ):
        assert originals_of_copies(index) == ORIGINALS


@pytest.mark.parametrize("name", ["cosine", "euclidean"])
async def test_copies_in_pinecone_are_annotated_over_grpc_in_their_namespace_and_tenant(name: str) -> None:
    policy = {"tenant_keys": ("team",), "write": {"mode": "annotate"}}
    with loaded_emulator(plan(), grpc=True) as emulator:
        changes = {"index_host": emulator.project.indexes[name].host}
        async with running(emulator.url, backend="pinecone", policy=policy, pinecone=changes) as proxy:
            assert await asyncio.to_thread(store_over_grpc, f"http://127.0.0.1:{proxy.port}") == ORIGINALS
            assert proxy.count("write_copies_total", backend="pinecone") == 2


FIRST: list[dict[str, Any]] = [
    {"id": "a", "values": [0.1] * SIZE, "metadata": {"text": text_with("alpha"), "n": 7, "tags": ["x"], "own": "ü"}},
    {"id": "b", "values": vector(1), "metadata": {"text": text_with("beta")}},
]


THEN: list[dict[str, Any]] = [
    {"id": "b", "values": vector(3), "metadata": {"text": text_with("delta")}},  # an update
    {"id": "d", "values": vector(2), "metadata": {"text": text_with("gamma"), "n": 1, "more": "x"}},
    {"id": "e", "values": vector(2), "metadata": {"text": text_with("Gamma"), "n": 5}},
    {"id": "f", "values": vector(4), "metadata": {"text": text_with("phi")}},
    {"id": "g", "values": [0.1] * SIZE, "metadata": {"text": text_with("Alpha"), "n": 0.1, "tags": ["y"], "is": True}},
]


IGNORED = {
    "keep-newest": ("n", "tags", "own", "more", "is"),
    "keep-oldest": ("n", "tags", "own", "more", "is"),
    "merge": ("n",),  # the rest is united
}


MERGED = {
    "e": {"text": text_with("Gamma"), "n": 5, "more": "x"},
    "g": {"text": text_with("Alpha"), "n": 7, "tags": ["x", "y"], "own": "ü", "is": True},
}


def whole_of(index: Any, namespace: str) -> dict[str, Any]:
    records = index.fetch(ids=list("abcdefg"), namespace=namespace).vectors
    return {key: (list(record.values), record.metadata, str(record.sparse_values)) for key, record in records.items()}


def store_in_two(index: Any, namespace: str, journal: Path) -> None:
    index.upsert(vectors=FIRST, namespace=namespace)
    eventually(lambda: sorted(whole_of(index, namespace)), ["a", "b"])
    ten_minutes_later(journal)
    index.upsert(vectors=THEN, namespace=namespace)


TRANSPORTS = pytest.mark.parametrize("transport", ["rest", "grpc"])


@contextmanager
def connected(url: str, transport: str) -> Iterator[Any]:
    if transport == "grpc":
        with GrpcIndex(host=url, api_key=KEY, secure=False) as index:
            yield index
    else:
        with Pinecone(api_key=KEY) as client, client.index(host=url) as index:
            yield index


@asynccontextmanager
async def gated(emulator: Emulator, metric: str, journal: Path, **policy: object) -> AsyncIterator[str]:
    """The URL of a proxy before one index, until the block ends."""
    changes = {"index_host": emulator.project.indexes[metric].host}
    settings: dict[str, Any] = {"pinecone": changes, "journal": {"path": str(journal)}, "policy": policy}
    async with running(emulator.url, backend="pinecone", **settings) as proxy:
        yield f"http://127.0.0.1:{proxy.port}"


@pytest.mark.parametrize(("transport", "metric"), [("rest", "cosine"), ("rest", "dotproduct"), ("grpc", "cosine")])
async def test_copies_are_left_out_of_pinecone_and_undo_stores_all_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str, metric: str
) -> None:
    monkeypatch.setenv("PINECONE_API_KEY", KEY)
    journal, third = tmp_path / "j.db", [0.1] * SIZE
    first: list[dict[str, Any]] = [
        {"id": "a", "values": third, "metadata": {"text": text_with("alpha")}},
        {"id": "b", "values": vector(1), "metadata": {"text": text_with("beta")}},
    ]
    odd = {"n": 0.1, "tags": ["x", "ü"], "is": True}
    more: list[dict[str, Any]] = [
        {"id": "c", "values": third, "metadata": {"text": text_with("ALPHA"), **odd}},
        {"id": "d", "values": vector(2), "metadata": {"text": text_with("delta")}},
        {"id": "b", "values": third, "metadata": {"text": text_with("alpha")}},  # an update
        {"id": "e", "values": vector(2), "metadata": {"text": text_with("Delta")}},
    ]
    if metric == "dotproduct":  # the others take none
        more[-1]["sparse_values"] = {"indices": [3], "values": [0.5]}

    def store(index: Any, namespace: str) -> list[int]:
        counts = [index.upsert(vectors=first, namespace=namespace).upserted_count]
        eventually(lambda: sorted(whole_of(index, namespace)), ["a", "b"])
        ten_minutes_later(journal)
        return [*counts, index.upsert(vectors=more, namespace=namespace).upserted_count]

    def left_out(url: str) -> None:
        with connected(url, transport) as index:
            for namespace in ("skipped", ""):
                assert store(index, namespace) == [2, 2]
                eventually(lambda: sorted(whole_of(index, namespace)), ["a", "b", "d"])  # noqa: B023 - called at once
            ten_minutes_later(journal)
            assert index.upsert(vectors=more[3:], namespace="skipped").upserted_count == 0

    def undo_all(url: str) -> None:
        code, words = undone(journal, index_url(url, "euclidean"), "pinecone")
        assert (code, "--collection" in words) == (1, True)
        restored(journal, index_url(url, metric), "pinecone")
        with connected(index_url(url, metric), "rest") as index:
            assert store(index, "plain") == [2, 4]
            for namespace in ("skipped", ""):
                eventually(lambda: whole_of(index, namespace), whole_of(index, "plain"))  # noqa: B023 - the same

    with loaded_emulator(plan(), grpc=transport == "grpc") as emulator:
        async with gated(emulator, metric, journal, ignore=("n", "tags", "is"), write={"mode": "skip"}) as url:
            await asyncio.to_thread(left_out, url)
        await asyncio.to_thread(undo_all, emulator.url)


@TRANSPORTS
@pytest.mark.parametrize(("merge", "left"), [("keep-newest", "befg"), ("keep-oldest", "abdf"), ("merge", "befg")])
async def test_of_copies_in_pinecone_one_stays_and_undo_stores_the_others_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merge: str, left: str, transport: str
) -> None:
    monkeypatch.setenv("PINECONE_API_KEY", KEY)
    journal = tmp_path / "j.db"

    def store(url: str) -> None:
        with connected(url, transport) as index:
            store_in_two(index, "n", journal)

    def checked(host: str) -> None:
        with connected(host, "rest") as index:
            store_in_two(index, "plain", journal)
            records = whole_of(index, "n")
            assert sorted(records) == sorted(left)
            if merge == "merge":
                assert {key: records[key][1] for key in "eg"} == MERGED
            ten_minutes_later(journal)
            restored(journal, host, "pinecone")
            assert whole_of(index, "n") == whole_of(index, "plain")
            assert "0 points were left out" in restored(journal, host, "pinecone")

    with loaded_emulator(plan(), grpc=transport == "grpc") as emulator:
        write = {"mode": "merge", "merge": merge}
        async with gated(emulator, "cosine", journal, ignore=IGNORED[merge], write=write) as url:
            await asyncio.to_thread(store, url)
        await asyncio.to_thread(checked, index_url(emulator.url, "cosine"))


@TRANSPORTS
async def test_a_write_with_copies_is_refused_as_pinecone_refuses(tmp_path: Path, transport: str) -> None:
    def store(url: str) -> None:
        with connected(url, transport) as index:
            same = [
                {"id": identifier, "values": vector(0), "metadata": {"text": text_with("alpha")}} for identifier in "ab"
            ]
            with pytest.raises(REFUSALS[transport], match="1 of 2 points are copies"):
                index.upsert(vectors=same, namespace="n")
            assert index.upsert(vectors=same[:1], namespace="n").upserted_count == 1
            eventually(lambda: sorted(whole_of(index, "n")), ["a"])

    with loaded_emulator(plan(), grpc=transport == "grpc") as emulator:
        async with gated(emulator, "cosine", tmp_path / "j.db", write={"mode": "reject"}) as url:
            await asyncio.to_thread(store, url)


def store_over_grpc(url: str) -> dict[str, Any]:
    with GrpcIndex(host=url, api_key=KEY, secure=False) as index:
        return originals_of_copies(index)


# By id, the point that a note names; ``a`` of the other namespace has no original there.
ORIGINALS = {"x": None, "y": None, "a": "y", "b": None, "c": "b", "bare": None, "other a": None}


def originals_of_copies(index: Any) -> dict[str, Any]:
    """Store copies, an update, other tenants and another namespace; what the notes name then."""
    first = [
        {"id": record, "values": vector(0), "metadata": {"text": text_with("alpha"), "team": record}}
        for record in ("x", "y")
    ]
    assert index.upsert(vectors=first, namespace="n").upserted_count == 2
    eventually(lambda: sorted(index.fetch(ids=["x", "y"], namespace="n").vectors), ["x", "y"])
    more: list[Any] = [
        {"id": "a", "values": vector(0), "metadata": {"text": text_with("Alpha"), "team": "y", "tags": ["t"]}},
        {"id": "b", "values": vector(1), "metadata": {"text": text_with("beta"), "team": "y"}},
        {"id": "c", "values": vector(1), "metadata": {"text": text_with("beta"), "team": "y"}},
        {"id": "x", "values": vector(0), "metadata": {"text": text_with("alpha"), "team": "x"}},
        {"id": "bare", "values": vector(0)},
    ]
    assert index.upsert(vectors=more, namespace="n").upserted_count == 5
    assert index.upsert(vectors=more[:1], namespace="other").upserted_count == 1

    def seen() -> dict[str, Any]:
        records = index.fetch(ids=["x", "y", "a", "b", "c", "bare"], namespace="n").vectors
        others = index.fetch(ids=["a"], namespace="other").vectors
        named = {**records, **{f"other {key}": other for key, other in others.items()}}
        return {key: originals([record.metadata])[0] for key, record in named.items()}

    eventually(seen, ORIGINALS)
    return seen()


def test_observing_counts_and_changes_nothing(control: str) -> None:
    environment = {"VECSIEVE_POLICY_WRITE_MODE": "observe"}
    with (
        serve(control, "--backend", "pinecone", environment=environment) as (url, admin),
        Pinecone(api_key=KEY, host=url) as client,
        client.index("cosine") as index,
    ):
        same = [{"id": record, "values": vector(3), "metadata": {"text": text_with("t")}} for record in ("1", "2")]
        index.upsert(vectors=same, namespace="observed")
        eventually(
            lambda: b'vecsieve_write_copies_total{backend="pinecone"} 1.0' in exchange(admin, "GET", "/metrics").body,
            True,
        )
        records = index.fetch(ids=["1", "2"], namespace="observed").vectors
    assert {key: record.metadata for key, record in records.items()} == {
        "1": {"text": text_with("t")},
        "2": {"text": text_with("t")},
    }
