"""Every gRPC call of the real Pinecone client that the emulator serves, as an application makes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pinecone import Pinecone, ServerlessSpec
from pinecone.errors import NotFoundError, PineconeError, UnauthorizedError
from pinecone.grpc import GrpcIndex
from servers.pinecone.server import Emulator

from support.pinecone.emulator import emulated

KEY = "pcsk_test"
SPEC = ServerlessSpec(cloud="aws", region="us-east-1")
NS = {"namespace": "ns"}
VECTORS: list[Any] = [
    {"id": "a", "values": [1.0, 0.0], "metadata": {"genre": "x", "year": 2020, "tags": ["t"]}},
    {"id": "b", "values": [0.6, 0.8], "metadata": {"genre": "y"}},
    {"id": "c", "values": [0.1, 0.3]},
]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with emulated(api_key=KEY, grpc=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Iterator[Pinecone]:
    with Pinecone(api_key=KEY, host=emulator.url) as made:
        yield made


def opened(emulator: Emulator, name: str, key: str = KEY) -> Any:
    return GrpcIndex(host=f"http://{emulator.grpc_address(name)}", api_key=key, secure=False)


def made(emulator: Emulator, client: Pinecone, name: str, **how: Any) -> Any:
    client.indexes.create(name=name, spec=SPEC, **how)
    return opened(emulator, name)


@pytest.fixture(scope="module")
def index(emulator: Emulator, client: Pinecone) -> Iterator[Any]:
    with made(emulator, client, "filled", dimension=2, metric="cosine") as one:
        assert one.upsert(vectors=VECTORS, **NS).upserted_count == 3
        yield one


def test_a_query_by_vector_with_everything(index: Any) -> None:
    found = index.query(
        vector=[1.0, 0.0],
        top_k=2,
        include_values=True,
        include_metadata=True,
        filter={"genre": {"$in": ["x", "y"]}},
        **NS,
    )
    assert [match.id for match in found.matches] == ["a", "b"]
    assert found.matches[0].score == 1
    assert list(found.matches[1].values) == pytest.approx([0.6, 0.8])
    assert found.matches[0].metadata == {"genre": "x", "year": 2020, "tags": ["t"]}
    assert (found.namespace, found.usage.read_units) == ("ns", 1)


def test_a_query_by_id_with_nothing(index: Any) -> None:
    found = index.query(id="b", top_k=10, **NS)
    assert found.matches[0].id == "b"
    assert all(not match.values and not match.metadata for match in found.matches)


def test_both_transports_say_the_same(index: Any, client: Pinecone) -> None:
    asked: dict[str, Any] = {"vector": [0.3, 0.7], "top_k": 3, "include_values": True, "include_metadata": True, **NS}
    with client.index("filled") as rest:
        over_grpc, over_rest = (single(one.query(**asked)) for one in (index, rest))
    assert over_grpc == over_rest


def single(answer: Any) -> list[tuple[Any, ...]]:
    """Matches with every number as a float32: over gRPC one arrives as it is, over REST as digits that say the same one."""
    return [(one.id, np.float32(one.score), np.float32(one.values).tolist(), one.metadata) for one in answer.matches]


def test_records_are_fetched_listed_and_counted(index: Any) -> None:
    fetched = index.fetch(ids=["a", "nobody"], **NS)
    assert list(fetched.vectors) == ["a"]
    assert list(fetched.vectors["a"].values) == [1, 0]
    pages = list(index.list(limit=2, **NS))
    assert [[item.id for item in page.vectors] for page in pages] == [["a", "b"], ["c"]]
    by_metadata = index.fetch_by_metadata(filter={"genre": {"$eq": "y"}}, **NS)
    assert list(by_metadata.vectors) == ["b"]
    stats = index.describe_index_stats()
    assert (stats.dimension, stats.total_vector_count, stats.namespaces["ns"].vector_count) == (2, 3, 3)


def test_records_are_updated_and_deleted(emulator: Emulator, client: Pinecone) -> None:
    with made(emulator, client, "edited", dimension=2, metric="cosine") as one:
        one.upsert(vectors=VECTORS, **NS)
        one.update(id="a", values=[0.0, 1.0], set_metadata={"new": True}, **NS)
        changed = one.fetch(ids=["a"], **NS).vectors["a"]
        assert (list(changed.values), changed.metadata["new"]) == ([0, 1], True)
        one.delete(ids=["a"], **NS)
        one.delete(filter={"genre": {"$eq": "y"}}, **NS)
        assert [item.id for page in one.list(**NS) for item in page.vectors] == ["c"]


def test_sparse_and_hybrid_queries(emulator: Emulator, client: Pinecone) -> None:
    sparse = {"indices": [1, 5], "values": [0.5, 0.25]}
    with made(emulator, client, "hybrid", dimension=2, metric="dotproduct") as one:
        one.upsert(
            vectors=[{"id": "h", "values": [1.0, 0.0], "sparse_values": sparse}, {"id": "d", "values": [1.0, 0.0]}]
        )
        found = one.query(vector=[1.0, 0.0], sparse_vector=sparse, top_k=2, include_values=True).matches
        assert [(match.id, match.score) for match in found] == [("h", 1.3125), ("d", 1)]
        assert list(found[0].sparse_values.indices) == [1, 5]
    with made(emulator, client, "sparse", metric="dotproduct", vector_type="sparse") as one:
        one.upsert(vectors=[{"id": "s", "sparse_values": sparse}])
        (match,) = one.query(sparse_vector=sparse, top_k=2).matches
        assert (match.id, match.score) == ("s", 0.3125)


def test_namespaces_are_made_listed_described_and_deleted(emulator: Emulator, client: Pinecone) -> None:
    with made(emulator, client, "spaces", dimension=2, metric="cosine") as one:
        one.upsert(vectors=VECTORS, **NS)
        one.create_namespace(name="empty")
        listed = [space for page in one.list_namespaces() for space in page.namespaces]
        assert [(space.name, space.record_count) for space in listed] == [("empty", 0), ("ns", 3)]
        assert one.describe_namespace(name="ns").record_count == 3
        one.delete_namespace(name="ns")
        with pytest.raises(NotFoundError, match="Namespace not found"):
            one.describe_namespace(name="ns")


def test_refusals_are_the_clients_own_errors(emulator: Emulator, index: Any) -> None:
    with pytest.raises(PineconeError, match="Vector dimension 1 does not match the dimension of the index 2"):
        index.query(vector=[1.0], top_k=1)
    with opened(emulator, "filled", key="pcsk_wrong") as stranger, pytest.raises(UnauthorizedError):
        stranger.query(id="a", top_k=1)
