"""What Pinecone writes for a search, byte for byte, over records whose rank is given.

Written from the wire format alone and sharing nothing with the adapter: stored JSON texts are joined, never re-encoded.
Ranking is not modelled: records come in the order in which they are stored, reranked or not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

JsonMember = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One record: JSON texts for everything. ``fields``: its metadata, or its fields beside the vector."""

    id: str
    score: str
    fields: tuple[JsonMember, ...] = ()
    values: str = "[]"
    sparse: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A namespace in rank order. ``vector_field``: where documents keep the dense vector."""

    records: tuple[Stored, ...]
    vector_field: str = "_values"
    namespace: str = ""

    def answer(self, operation: str, body: bytes) -> bytes:
        """The 200 this service gives."""
        request = json.loads(body)
        written = {"query": self._query, "records_search": self._records, "documents_search": self._documents}
        return written[operation](request).encode(errors="surrogatepass")

    def _query(self, request: dict[str, Any]) -> str:
        page = self.records[: _either(request, "topK", "top_k")]
        values = _either(request, "includeValues", "include_values")
        metadata = _either(request, "includeMetadata", "include_metadata")
        matches = ",".join(_match(record, values=values, metadata=metadata) for record in page)
        namespace = json.dumps(self.namespace)
        return f'{{"results":[],"matches":[{matches}],"namespace":{namespace},"usage":{{"readUnits":6}}}}'

    def _records(self, request: dict[str, Any]) -> str:
        page = self.records[: request["query"]["top_k"]]
        rerank = request.get("rerank")
        usage = '{"read_units":5,"embed_total_tokens":10}'
        if rerank is not None:
            page = page[: rerank.get("top_n")]
            usage = '{"read_units":5,"rerank_units":1}'
        fields = request.get("fields")
        hits = ",".join(
            f'{{"_id":{record.id},"_score":{record.score},"fields":{_object(_chosen(record.fields, ["*"] if fields is None else fields))}}}'
            for record in page
        )
        return f'{{"result":{{"hits":[{hits}]}},"usage":{usage}}}'

    def _documents(self, request: dict[str, Any]) -> str:
        included = request.get("include_fields") or []
        matches = []
        for record in self.records[: request["top_k"]]:
            fields = [*record.fields, (self.vector_field, record.values)]
            members = [("_id", record.id), ("_score", record.score)]
            matches.append(_object([*members, *_chosen(fields, included)]))
        return f'{{"matches":[{",".join(matches)}],"namespace":"ns","usage":{{"read_units":1}}}}'


def _match(record: Stored, *, values: Any, metadata: Any) -> str:
    members = [("id", record.id), ("score", record.score), ("values", record.values if values else "[]")]
    if values and record.sparse is not None:
        members.append(("sparseValues", record.sparse))
    if metadata and record.fields:
        members.append(("metadata", _object(record.fields)))
    return _object(members)


def _either(request: dict[str, Any], name: str, other: str) -> Any:
    return request.get(name, request.get(other))


def _chosen(fields: Sequence[JsonMember], names: Sequence[str]) -> list[JsonMember]:
    return [member for member in fields if "*" in names or member[0] in names]


def _object(members: Sequence[JsonMember]) -> str:
    return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{text}" for key, text in members) + "}"
