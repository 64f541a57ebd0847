"""The backends' dialects over REST, for the laws of the adapters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from support.chroma import bodies as chroma_bodies
from support.exchanges.adapter_laws import Dialect
from support.exchanges.conversation import Conversation
from support.opensearch import bodies as opensearch_bodies
from support.pinecone import bodies as pinecone_bodies
from support.qdrant import bodies as qdrant_bodies


@dataclass(frozen=True, slots=True, kw_only=True)
class RestDialect(Dialect):
    """``nested``: parts of a search with declared members of their own. ``everything``: what is laid over a query for all payload of so many
    results. ``payload``: where a result keeps it. ``hidden``: makes of a document what it must look like without what came for comparison
    alone. ``by_get``: whether a search may be a GET with a body.
    """

    nested: frozenset[str] = frozenset()
    everything: Callable[[int], dict[str, Any]]
    results: Callable[[Any], list[dict[str, Any]]]
    payload: str
    hidden: Callable[[Any], None]
    by_get: bool = False
    noise: tuple[bytes, ...] = (b'"', b"]", b"{", b",", b'"vector":[', b'"id":1,')

    def undeclared(self, body: bytes, operation: str) -> object:
        """In order; of a batch and of nested parts what must stay in each."""
        del operation
        return self._undeclared(exact(body))

    def _undeclared(self, item: dict[str, Any]) -> list[Any]:
        if isinstance(item.get("searches"), list):
            inner = [self._undeclared(search) if isinstance(search, dict) else search for search in item["searches"]]
            return [("searches", inner)]
        return [
            (key, self._undeclared(value) if key in self.nested and isinstance(value, dict) else value)
            for key, value in item.items()
            if key not in self.declared
        ]

    def listed(self, body: bytes) -> tuple[list[Any], object]:
        return self.results(exact(body)), None

    def stored(self, talk: Conversation, count: int, keys: Iterable[str]) -> list[dict[str, object]]:
        whole = talk.answer(json.dumps({**json.loads(talk.body), **self.everything(count)}).encode())
        payloads = [result.get(self.payload) or {} for result in self.results(exact(whole))]
        return [{key: payload[key] for key in keys if key in payload} for payload in payloads]

    def value(self, raw: bytes) -> object:
        return exact(raw)

    def seen(self, body: bytes, *, hides: bool = False) -> object:
        document = exact(body)
        if hides:
            self.hidden(document)
        return document


def exact(body: bytes) -> Any:
    """The document with its numbers as they are written, and bytes that are no UTF-8 kept apart."""
    text = body.decode(errors="surrogateescape")
    return json.loads(text, parse_float=lambda digits: ("number", digits), parse_int=lambda digits: ("number", digits))


def without_vectors(document: Any) -> None:
    """As Qdrant writes them: left out, or null where this server writes null."""
    points = document["result"]["points"]
    nulls = any(point.get("vector", 0) is None or point.get("payload", 0) is None for point in points)
    for point in points:
        if nulls and "vector" in point:
            point["vector"] = None
        elif not nulls:
            point.pop("vector", None)


def without_values(document: Any) -> None:
    """As Pinecone writes them: an empty list, and no sparse ones at all."""
    for match in document["matches"]:
        match.pop("sparseValues", None)
        if "values" in match:
            match["values"] = []


def without_embeddings(document: Any) -> None:
    """As Chroma writes them: null, and not among what was included."""
    document["embeddings"] = None
    document["included" if "included" in document else "include"].remove("embeddings")


def without_fields(document: Any) -> None:
    """As both servers write them: no member, if there are no fields."""
    for hit in document["hits"]["hits"]:
        fields = hit.get("fields", {})
        fields.pop("vec", None)
        if not fields:
            hit.pop("fields", None)


def rows(document: Any) -> list[dict[str, Any]]:
    """The first search's results of a table, each with what its columns have for it."""
    columns = {name: column[0] for name, column in document.items() if isinstance(column, list) and name[:3] != "inc"}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


REST_DIALECTS = {
    "chroma": RestDialect(
        conversations=chroma_bodies.conversations,
        path=chroma_bodies.PATHS[0],
        declared=frozenset({"n_results", "include"}),
        content={"n_results": 5, "include": ["embeddings", "metadatas", "distances"], "ids": None},
        plain={"n_results": 5, "include": ["documents", "metadatas", "distances"], "ids": None},
        bare={"include": ["distances"], "ids": None},
        payloads=st.sampled_from([{"include": ["metadatas"]}, {"include": []}, {"include": ["uris", "documents"]}]),
        everything=lambda limit: {"n_results": limit, "include": ["metadatas"]},
        results=rows,
        payload="metadatas",
        hidden=without_embeddings,
    ),
    "qdrant": RestDialect(
        conversations=qdrant_bodies.conversations,
        path="/collections/c/points/query/batch",
        declared=frozenset({"limit", "top", "offset", "with_vector", "with_vectors", "with_payload"}),
        content={"limit": 5, "offset": None, "with_vector": True},
        plain={"limit": 5, "offset": None, "with_vector": False, "with_payload": True},
        bare={"with_payload": False},
        payloads=st.sampled_from([True, False, None, [], ["id"], {"include": ["doc"]}]).map(
            lambda selector: {"with_payload": selector}
        ),
        everything=lambda limit: {"limit": limit, "offset": 0, "with_payload": True},
        results=lambda document: document["result"]["points"],
        payload="payload",
        hidden=without_vectors,
    ),
    "pinecone": RestDialect(
        conversations=pinecone_bodies.conversations,
        path="/query",
        declared=frozenset(
            {
                "topK",
                "top_k",
                "top_n",
                "includeValues",
                "include_values",
                "includeMetadata",
                "include_metadata",
                "fields",
                "include_fields",
            }
        ),
        nested=frozenset({"query", "rerank"}),
        content={"topK": 5, "includeValues": True},
        content_of="query",
        plain={"topK": 5, "includeValues": False, "includeMetadata": True},
        bare={"includeMetadata": False},
        payloads=st.just({"includeMetadata": True}),
        everything=lambda limit: {"topK": limit, "includeMetadata": True},
        results=lambda document: document["matches"],
        payload="metadata",
        hidden=without_values,
    ),
}
REST_DIALECTS["elasticsearch"] = RestDialect(
    conversations=opensearch_bodies.conversations,
    path=opensearch_bodies.PATHS[0],
    declared=frozenset({"size", "from", "_source", "fields", "aggs", "k", "num_candidates", "pagination_depth"}),
    nested=frozenset({"query", "knn", "neural", "vec", "retriever", "hybrid"}),
    content={"size": 5, "from": "absent", "_source": True, "fields": ["vec"]},
    plain={"size": 5, "from": "absent", "_source": True, "fields": "absent", "stored_fields": "absent"},
    bare={"_source": False},
    payloads=st.sampled_from([True, ["id"], ["m*"], {"includes": ["größe"], "excludes": ["id"]}, []]).map(
        lambda selection: {"_source": selection}
    ),
    everything=lambda limit: {"size": limit, "from": 0, "_source": True},
    results=lambda document: document["hits"]["hits"],
    payload="_source",
    hidden=without_fields,
    by_get=True,
    added=re.compile(rb',"aggregations":\{"_vecsieve":\{"doc_count":\d+,"n":\{"doc_count":\d+}}}'),
)
REST_DIALECTS["opensearch"] = replace(
    REST_DIALECTS["elasticsearch"], conversations=partial(opensearch_bodies.conversations, is_opensearch=True)
)
