"""What Chroma writes for a query, byte for byte, over records whose rank is given.

Written from the wire format alone and sharing nothing with the adapter: stored JSON texts are joined, never re-encoded.
Ranking and filters are not modelled: each query embedding has its records in the order in which they are stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

DEFAULT_INCLUDE = ["documents", "metadatas", "distances"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One record: JSON texts for everything. ``metadata``: its members, None for a record without any."""

    id: str
    distance: str
    embedding: str = "null"
    document: str = "null"
    uri: str = "null"
    metadata: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The records near each query embedding. ``is_old``: as servers before 0.6 wrote, which had a column more and forgot the order."""

    lists: tuple[tuple[Stored, ...], ...]
    is_old: bool = False

    def answer(self, body: bytes) -> bytes:
        """The 200 this server gives."""
        request = json.loads(body)
        count = request.get("n_results")
        lists = [near[: 10 if count is None else count] for near in self.lists[: len(request["query_embeddings"])]]
        include = request.get("include", DEFAULT_INCLUDE)

        def column(name: str, cell: Callable[[Stored], str]) -> str:
            return f'"{name}":{_rows(lists, cell) if name in include else "null"}'

        columns = [
            f'"ids":{_rows(lists, lambda record: record.id)}',
            column("embeddings", lambda record: record.embedding),
            column("documents", lambda record: record.document),
            column("uris", lambda record: record.uri),
            column("metadatas", _metadata),
            column("distances", lambda record: record.distance),
        ]
        listed = json.dumps(sorted(set(include)) if self.is_old else include, separators=(",", ":"))
        columns += [f'"data":null,"included":{listed}'] if self.is_old else [f'"include":{listed}']
        return ("{" + ",".join(columns) + "}").encode(errors="surrogatepass")


def _rows(lists: Sequence[Sequence[Stored]], cell: Callable[[Stored], str]) -> str:
    return "[" + ",".join("[" + ",".join(cell(record) for record in near) + "]" for near in lists) + "]"


def _metadata(record: Stored) -> str:
    if record.metadata is None:
        return "null"
    members: list[Any] = [f"{json.dumps(key, ensure_ascii=False)}:{text}" for key, text in record.metadata]
    return "{" + ",".join(members) + "}"
