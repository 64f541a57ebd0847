"""A copy of a point that a client deletes or changes over gRPC, where reads do not show that yet, is stored: Pinecone, and Weaviate with replicas.

The emulators show what they stored at once, so the original is stored again beside the proxy: reads show it as before. Qdrant: test_write_modes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import numpy as np
import pytest
from pinecone.grpc import GrpcIndex

from support.backends.write_gates import SIZE, ten_minutes_later, text_with, vector
from support.grpc.calls import Seen
from support.grpc.stack import Asker
from support.pinecone.loading import KEY, loaded_emulator, sent
from support.process.running import running
from support.process.stack import exchange
from support.weaviate.messages import message_type
from support.weaviate.server import weaviate

SKIPPING = {"write": {"mode": "skip"}}

# Of point 9 in the namespace "n"; and how many of its copies are stored then.
PINECONE: dict[str, tuple[Callable[[Any], object], int]] = {
    "nothing": (lambda _: None, 0),
    "an id": (lambda index: index.delete(ids=["9"], namespace="n"), 1),
    "a filter": (lambda index: index.delete(filter={"team": {"$eq": "a"}}, namespace="n"), 1),
    "all of the namespace": (lambda index: index.delete(delete_all=True, namespace="n"), 1),
    "metadata": (lambda index: index.update(id="9", set_metadata={"text": text_with("beta")}, namespace="n"), 1),
    "numbers": (lambda index: index.update(id="9", values=vector(1), namespace="n"), 1),
    "another id": (lambda index: index.delete(ids=["8"], namespace="n"), 0),
    "another namespace": (lambda index: index.update(id="9", values=vector(1), namespace="m"), 0),
}


@pytest.mark.parametrize("change", PINECONE)
async def test_a_copy_of_a_point_of_pinecone_that_goes_or_changes_over_grpc(tmp_path: Path, change: str) -> None:
    journal, (request, expected) = tmp_path / "j.db", PINECONE[change]
    original, other = (
        {"id": number, "values": vector(axis), "metadata": {"text": text_with(word), "team": "a"}}
        for number, axis, word in (("9", 0, "alpha"), ("8", 1, "beta"))
    )
    copy = {**original, "id": "1"}

    def stored(url: str, host: str) -> int:
        with GrpcIndex(host=url, api_key=KEY, secure=False) as index:
            index.upsert(vectors=[other], namespace="m")
            index.upsert(vectors=[original, other], namespace="n")
            ten_minutes_later(journal)
            request(index)
            sent(host, "/vectors/upsert", {"vectors": [original], "namespace": "n"})
            count = index.upsert(vectors=[copy], namespace="n").upserted_count
            assert ("1" in index.fetch(ids=["1"], namespace="n").vectors) == bool(count)
            return int(count)

    made = {"dimension": SIZE, "metric": "cosine"}
    with loaded_emulator({"indexes": {"i": {"created": made, "records": {}}}}, grpc=True) as emulator:
        host = emulator.project.indexes["i"].host
        settings = {"pinecone": {"index_host": host}, "policy": SKIPPING, "journal": {"path": str(journal)}}
        async with running(emulator.url, backend="pinecone", **settings) as proxy:
            assert await asyncio.to_thread(stored, f"http://127.0.0.1:{proxy.port}", host) == expected


@pytest.mark.parametrize(
    ("replicas", "deleted", "expected"),
    [(3, {"collection": "Docs"}, True), (3, {"collection": "Docs", "dry_run": True}, False), (1, {"collection": "Docs"}, False), (3, None, False)],
)  # fmt: skip
async def test_a_copy_of_an_object_that_is_deleted_over_grpc(
    tmp_path: Path, replicas: int, deleted: dict[str, Any] | None, expected: bool
) -> None:
    """In one replica's read the deletion shows when the answer has come."""
    journal = tmp_path / "j.db"

    def batch(number: int) -> bytes:
        properties = {"non_ref_properties": {"text": text_with("alpha")}}
        one = {"uuid": str(UUID(int=number)), "collection": "Docs", "properties": properties}
        packed = np.array(vector(0), "<f4").tobytes()
        return bytes(message_type("BatchObjectsRequest")(objects=[{**one, "vector_bytes": packed}]).SerializeToString())

    def call(asker: Asker, method: str, message: bytes) -> Seen:
        seen = asker.raw(f"/weaviate.v1.Weaviate/{method}", message)
        assert seen.code is grpc.StatusCode.OK, seen.details
        return seen

    def stored(port: int, url: str) -> bool:
        with Asker(f"127.0.0.1:{port}") as asker:
            call(asker, "BatchObjects", batch(9))
            if replicas > 1:
                ten_minutes_later(journal)
            if deleted is not None:
                call(asker, "BatchDelete", message_type("BatchDeleteRequest")(**deleted).SerializeToString())
            call(asker, "BatchObjects", batch(1))
        return exchange(url, "GET", f"/v1/objects/Docs/{UUID(int=1)}").status == 200

    with weaviate() as database:
        index = {"vectorIndexConfig": {"distance": "cosine"}, "replicationConfig": {"factor": replicas}}
        created = {"class": "Docs", "properties": [{"name": "text", "dataType": ["text"]}], **index}
        exchange(database.url, "POST", "/v1/schema", json.dumps(created).encode(), {"Content-Type": "application/json"})
        settings = {"grpc": {"listen": "127.0.0.1:0", "upstream": database.grpc}, "journal": {"path": str(journal)}}
        async with running(database.url, backend="weaviate", policy=SKIPPING, **settings) as proxy:
            assert await asyncio.to_thread(stored, proxy.grpc_port, database.url) == expected
