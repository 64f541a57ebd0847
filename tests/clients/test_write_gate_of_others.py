"""The write gate of Chroma and Pinecone, through their official clients: annotate, observe, off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pinecone import Pinecone
from pinecone.grpc import GrpcIndex

from support import chroma_server as chroma
from support.chroma_server import NEEDS_CHROMA
from support.pinecone_loading import KEY, loaded, loaded_emulator
from support.running import running
from support.stack import exchange, serve
from vecsieve.proxy.demo.chroma import chroma_server

SIZE = 8
ANNOTATE = {"VECSIEVE_POLICY_WRITE_MODE": "annotate"}


def vector(axis: int, *, length: float = 1.0) -> list[float]:
    return [length if each == axis else 0.0 for each in range(SIZE)]


def settings(folder: Path) -> Path:
    """A file with a tenant's key."""
    made = folder / "settings.yaml"
    made.write_text("policy: {tenant_keys: [team], write: {mode: annotate}}\n")
    return made


def eventually(found: Callable[[], Any], expected: Any) -> None:
    """An index may need a moment to show what was stored."""
    for _ in range(100):
        if (seen := found()) == expected:
            return
    assert seen == expected


@pytest.fixture(scope="module")
def chroma_urls() -> Iterator[tuple[str, str]]:
    with chroma_server() as direct, serve(direct, "--backend", "chroma", environment=ANNOTATE) as (url, _):
        yield direct, url


def originals(metadatas: list[Any]) -> list[object]:
    notes = [json.loads((each or {}).get("_vecsieve", "null")) for each in metadatas]
    return [None if note is None else note["duplicate_of"] for note in notes]


@NEEDS_CHROMA
@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
def test_copies_in_chroma_are_annotated_whatever_the_space(chroma_urls: tuple[str, str], space: str) -> None:
    direct, url = chroma_urls
    chroma.create(direct, f"annotated-{space}", space)
    collection = chroma.connected(url).get_collection(f"annotated-{space}")
    collection.add(ids=["a", "b"], embeddings=[vector(0), vector(1)], documents=["alpha", "beta"])
    collection.upsert(ids=["a"], embeddings=[vector(0)], documents=["alpha"])  # an update
    collection.upsert(
        ids=["c", "d", "e"],
        embeddings=np.array([vector(0), vector(2), vector(2)], np.float32),
        documents=["Alpha", "gamma", "gamma"],
        metadatas=[{"n": 1}, {"n": 2}, {"n": 3}],
    )
    found = collection.get(include=["metadatas"])
    assert dict(zip(found["ids"], originals(found["metadatas"]), strict=True)) == {
        "a": None,
        "b": None,
        "c": "a",
        "d": None,
        "e": "d",
    }
    assert [each["n"] for each in found["metadatas"] if each] == [1, 2, 3]


@NEEDS_CHROMA
def test_a_tenant_of_chromas_metadata_is_compared_with_its_own_alone(
    chroma_urls: tuple[str, str], tmp_path: Path
) -> None:
    direct, _ = chroma_urls
    own = "--config", str(settings(tmp_path))
    with serve(direct, "--backend", "chroma", *own) as (url, _):
        chroma.create(direct, "tenants", "cosine")
        collection = chroma.connected(url).get_collection("tenants")
        collection.add(ids=["a", "b"], embeddings=[vector(0)] * 2, metadatas=[{"team": "x"}, {"team": "y"}])
        collection.add(ids=["c", "d"], embeddings=[vector(0)] * 2, metadatas=[{"team": "y"}, {"team": "x"}])
        found = collection.get(include=["metadatas"])
    assert dict(zip(found["ids"], originals(found["metadatas"]), strict=True)) == {
        "a": None,
        "b": None,
        "c": "b",
        "d": "a",
    }


def plan() -> dict[str, Any]:
    made = {"dimension": SIZE, "metric": "cosine"}
    return {"indexes": {name: {"created": {**made, "metric": name}, "records": {}} for name in ("cosine", "euclidean")}}


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with loaded(plan()) as url:
        yield url


@pytest.mark.parametrize("name", ["cosine", "euclidean"])
def test_copies_in_pinecone_are_annotated_in_their_namespace(control: str, name: str, tmp_path: Path) -> None:
    own = "--config", str(settings(tmp_path))
    with (
        serve(control, "--backend", "pinecone", *own) as (url, _),
        Pinecone(api_key=KEY, host=url) as client,
        client.index(name) as index,
    ):
        store_and_check(index)


@pytest.mark.parametrize("name", ["cosine", "euclidean"])
async def test_copies_in_pinecone_are_annotated_over_grpc_in_their_namespace_and_tenant(name: str) -> None:
    policy = {"tenant_keys": ("team",), "write": {"mode": "annotate"}}
    with loaded_emulator(plan(), grpc=True) as emulator:
        own = {"index_host": emulator.project.indexes[name].host}
        async with running(emulator.url, backend="pinecone", policy=policy, pinecone=own) as proxy:
            await asyncio.to_thread(store_over_grpc, f"http://127.0.0.1:{proxy.port}")
            assert proxy.count("write_copies_total", backend="pinecone") == 2


def store_over_grpc(url: str) -> None:
    with GrpcIndex(host=url, api_key=KEY, secure=False) as index:
        store_and_check(index)


def store_and_check(index: Any) -> None:
    """Copies, an update, other tenants and another namespace."""
    first = [{"id": each, "values": vector(0), "metadata": {"text": "alpha", "team": each}} for each in ("x", "y")]
    assert index.upsert(vectors=first, namespace="n").upserted_count == 2
    eventually(lambda: sorted(index.fetch(ids=["x", "y"], namespace="n").vectors), ["x", "y"])
    more: list[Any] = [
        {"id": "a", "values": vector(0), "metadata": {"text": "Alpha", "team": "y", "tags": ["t"]}},
        {"id": "b", "values": vector(1), "metadata": {"text": "beta", "team": "y"}},
        {"id": "c", "values": vector(1), "metadata": {"text": "beta", "team": "y"}},
        {"id": "x", "values": vector(0), "metadata": {"text": "alpha", "team": "x"}},
        {"id": "bare", "values": vector(0)},
    ]
    assert index.upsert(vectors=more, namespace="n").upserted_count == 5
    assert index.upsert(vectors=more[:1], namespace="other").upserted_count == 1

    def seen() -> dict[str, Any]:
        found = index.fetch(ids=["x", "y", "a", "b", "c", "bare"], namespace="n").vectors
        return {key: originals([each.metadata])[0] for key, each in found.items()}

    eventually(seen, {"x": None, "y": None, "a": "y", "b": None, "c": "b", "bare": None})
    assert originals([index.fetch(ids=["a"], namespace="other").vectors["a"].metadata]) == [None]


def test_observing_counts_and_changes_nothing(control: str) -> None:
    own = {"VECSIEVE_POLICY_WRITE_MODE": "observe"}
    with (
        serve(control, "--backend", "pinecone", environment=own) as (url, admin),
        Pinecone(api_key=KEY, host=url) as client,
        client.index("cosine") as index,
    ):
        same = [{"id": each, "values": vector(3), "metadata": {"text": "t"}} for each in ("1", "2")]
        index.upsert(vectors=same, namespace="observed")
        eventually(
            lambda: b'vecsieve_write_copies_total{backend="pinecone"} 1.0' in exchange(admin, "GET", "/metrics").body,
            True,
        )
        found = index.fetch(ids=["1", "2"], namespace="observed").vectors
    assert {key: each.metadata for key, each in found.items()} == {"1": {"text": "t"}, "2": {"text": "t"}}
