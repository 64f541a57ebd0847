"""Every database behind the proxy, asked by its own client with headers of ours: what came for each vector, as (id, text).

Weaviate's client lives in an environment of its own, so its messages are sent as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np
import pytest
from pinecone import Pinecone
from qdrant_client import QdrantClient, models

from support.chroma import server as chroma_server
from support.milvus import server as milvus_server
from support.pinecone.loading import KEY, loaded
from support.pinecone.planted import plan
from support.process.stack import serve
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_grpc_process
from support.weaviate import planted as weaviate_planted
from support.weaviate.conversations import search
from support.weaviate.front import answered, fronted
from support.weaviate.messages import message_type, single

Row = tuple[Any, str]
Headers = Mapping[str, str]
Ask = Callable[[Sequence[int], int, Headers], list[list[Row]]]
"""The lists for queries by these seeds, of so many results each, asked with these headers."""

FAMILIES, COPIES = 24, 3
WORDS = 9


@contextmanager
def qdrant(settings: Path, *, prefers_grpc: bool) -> Iterator[tuple[Ask, Ask]]:
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        client = QdrantClient(url=url, timeout=30)
        _load(client)
        client.close()
        proxy, _ = opened.enter_context(serve(url, "--grpc-upstream", rpc, "--config", str(settings)))

        def client_of(rest: str, grpc_url: str) -> Ask:
            def ask(seeds: Sequence[int], limit: int, headers: Headers) -> list[list[Row]]:
                port = int(grpc_url.rpartition(":")[2])
                with_headers: dict[str, Any] = {"headers": dict(headers)}
                made = QdrantClient(
                    url=rest,
                    grpc_port=port,
                    prefer_grpc=prefers_grpc,
                    timeout=30,
                    check_compatibility=False,
                    **with_headers,
                )
                requests = [
                    models.QueryRequest(query=planted.query_vector(seed), limit=limit, with_payload=["text"])
                    for seed in seeds
                ]
                results = made.query_batch_points("docs", requests)
                made.close()
                return [[(point.id, (point.payload or {})["text"]) for point in result.points] for result in results]

            return ask

        yield client_of(proxy, proxy), client_of(url, rpc)


def _load(client: QdrantClient) -> None:
    shape = models.VectorParams(size=planted.DIMENSION, distance=models.Distance.COSINE)
    client.create_collection("docs", shape)
    rng = np.random.default_rng(planted.RNG_SEED)
    points = [
        models.PointStruct(
            id=base * 10 + copy,
            vector=(vector + rng.normal(scale=0.003, size=planted.DIMENSION)).tolist(),
            payload={"text": f"é {' '.join(f'word{base}x{place}' for place in range(WORDS))}"},
        )
        for base, vector in enumerate(planted.bases()[:FAMILIES])
        for copy in range(COPIES)
    ]
    client.upsert("docs", points, wait=True)


@cache
def _chroma_client(url: str, headers: frozenset[tuple[str, str]]) -> Any:
    """One for each URL and headers: a client that is closed closes others."""
    package, parts = import_module("chromadb"), urlsplit(url)
    quiet = package.Settings(anonymized_telemetry=False)
    return package.HttpClient(host=parts.hostname, port=parts.port, headers=dict(headers), settings=quiet)


@contextmanager
def chroma(settings: Path) -> Iterator[tuple[Ask, Ask]]:
    def client_of(url: str) -> Ask:
        def ask(seeds: Sequence[int], limit: int, headers: Headers) -> list[list[Row]]:
            client = _chroma_client(url, frozenset(headers.items()))
            vectors = [chroma_server.near(seed) for seed in seeds]
            results = client.get_collection("copied-cosine").query(
                query_embeddings=vectors, n_results=limit, include=["documents"]
            )
            pairs = zip(results["ids"], results["documents"], strict=True)
            return [[(one, text or "") for one, text in zip(ids, texts, strict=True)] for ids, texts in pairs]

        return ask

    with chroma_server.planted() as url, serve(url, "--backend", "chroma", "--config", str(settings)) as (proxy, _):
        yield client_of(proxy), client_of(url)


class _Adding(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, headers: Headers) -> None:
        self._pairs = tuple(headers.items())

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details._replace(metadata=(*(details.metadata or ()), *self._pairs)), request)


@contextmanager
def milvus(settings: Path) -> Iterator[tuple[Ask, Ask]]:
    def client_of(url: str) -> Ask:
        def ask(seeds: Sequence[int], limit: int, headers: Headers) -> list[list[Row]]:
            client = import_module("pymilvus").MilvusClient(uri=url, timeout=20)
            handler = client._get_connection()  # it has no setting for metadata
            channel = grpc.intercept_channel(handler._channel, _Adding(headers))
            handler._stub = import_module("pymilvus.grpc_gen.milvus_pb2_grpc").MilvusServiceStub(channel)
            lists = client.search(
                "copied_COSINE", [milvus_server.near(seed) for seed in seeds], limit=limit, output_fields=["text"]
            )
            rows = [[(hit["id"], hit["entity"]["text"]) for hit in hits] for hits in lists]
            client.close()
            return rows

        return ask

    with milvus_server.planted() as url, serve(url, "--backend", "milvus", "--config", str(settings)) as (proxy, _):
        yield client_of(proxy), client_of(url)


@contextmanager
def pinecone(settings: Path) -> Iterator[tuple[Ask, Ask]]:
    """Its queries have one vector each."""
    everything = plan()
    plain = {query["name"]: query for query in everything["queries"]}["copied.vector.bare"]

    def client_of(control: str) -> Ask:
        def ask(seeds: Sequence[int], limit: int, headers: Headers) -> list[list[Row]]:
            lists = []
            with (
                Pinecone(api_key=KEY, host=control, additional_headers=dict(headers)) as client,
                client.index("copied") as index,
            ):
                for seed in seeds:
                    vector = plain["vector"][seed:] + plain["vector"][:seed]
                    results = index.query(vector=vector, top_k=limit, include_metadata=True)
                    lists.append([(match.id, (match.metadata or {})["text"]) for match in results.matches])
            return lists

        return ask

    with loaded(everything) as url, serve(url, "--backend", "pinecone", "--config", str(settings)) as (proxy, _):
        yield client_of(proxy), client_of(url)


@contextmanager
def weaviate(settings: Path) -> Iterator[tuple[Ask, Ask]]:
    """Its searches have one list each."""

    def client_of(place: Any) -> Ask:
        def ask(seeds: Sequence[int], limit: int, headers: Headers) -> list[list[Row]]:
            lists = []
            for seed in seeds:
                vector = weaviate_planted.VECTOR[seed:] + weaviate_planted.VECTOR[:seed]
                message = search(
                    collection="Copied",
                    limit=limit,
                    near_vector={"vectors": [single(vector)]},
                    metadata={"uuid": True},
                    properties={"non_ref_properties": ["text"]},
                )
                (seen,) = answered(place, [message], tuple(headers.items()))
                if seen.code is not grpc.StatusCode.OK:
                    raise ValueError(seen.details)
                results = message_type("SearchReply").FromString(seen.messages[0]).results
                lists.append(
                    [(one.metadata.id, one.properties.non_ref_props.fields["text"].text_value) for one in results]
                )
            return lists

        return ask

    with weaviate_planted.planted() as server, fronted(server, None, "--config", str(settings)) as place:
        from support.weaviate.front import direct

        yield client_of(place), client_of(direct(server))


DATABASES: Mapping[str, Callable[[Path], Any]] = {
    "qdrant": lambda settings: qdrant(settings, prefers_grpc=False),
    "qdrant over gRPC": lambda settings: qdrant(settings, prefers_grpc=True),
    "chroma": chroma,
    "milvus": milvus,
    "pinecone": pinecone,
    "weaviate": weaviate,
}
PARAMETERS = [
    pytest.param(name, marks=marks)
    for name, marks in (
        ("qdrant", ()),
        ("qdrant over gRPC", ()),
        ("chroma", chroma_server.NEEDS_CHROMA),
        ("milvus", milvus_server.NEEDS_MILVUS),
        ("pinecone", ()),
        ("weaviate", ()),
    )
]
