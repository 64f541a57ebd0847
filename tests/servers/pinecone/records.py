"""Integrated records: text in, embedded by the index, searched by text, vector or id, and perhaps reranked.

The vectors themselves are never shown: there is no parameter for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from servers.pinecone.calls import Answer, Call, plain
from servers.pinecone.errors import invalid, too_long
from servers.pinecone.fields import mapping, read_filter, reals, record_id, sparse_of, text, texts, whole
from servers.pinecone.queries import MAX_TOP_K
from servers.pinecone.ranking import (
    Probe,
    Scored,
    checked,
    embed_dense,
    embed_sparse,
    probe_of_id,
    ranked,
    reranked,
    words,
)
from servers.pinecone.shapes import widened
from servers.pinecone.store import DENSE, SPARSE, Description, Index, Record
from servers.pinecone.vectors import metadata

Json = Any
Body = Mapping[str, Any]

MAX_RECORDS = 96
MAX_RERANKED = 100
"""What the rerank models take at once [inferred]."""


def upsert(index: Index, call: Call) -> Answer:
    """Write up to 96 records, one JSON object a line. All or nothing; the answer has no body."""
    if len(call.body) > call.limits.upsert:
        raise too_long(len(call.body), call.limits.upsert)
    field = index.description.text_field()
    lines = [line for line in call.body.split(b"\n") if line.strip()]
    if not 1 <= len(lines) <= MAX_RECORDS:
        raise invalid(f"1 to {MAX_RECORDS} records are wanted, got {len(lines)}")
    records = [_record(index.description, field, line, number) for number, line in enumerate(lines, 1)]
    index.opened(call.parameters["namespace"]).put(records)
    return Answer(status=201, headers=index.written())


def _record(description: Description, field: str, line: bytes, number: int) -> Record:
    where = f"record {number}"
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid(f"{where}: invalid JSON: {error}") from None
    body = dict(mapping(value, where))
    identifier = record_id(body.pop("_id", None) or body.pop("id", None), f"{where}: _id")
    if not isinstance(body.get(field), str):
        raise invalid(f"{where}: the field {field!r}, whose text is embedded, is wanted")
    dense, sparse = embedded(description, body[field])
    return Record(id=identifier, dense=dense, sparse=sparse, metadata=metadata(body, where))


def embedded(description: Description, value: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dense and the sparse vectors of a text: one of the two, as the index's model has it."""
    field = description.dense().get(DENSE)
    if field is not None:
        return {DENSE: embed_dense(value, field.dimension)}, {}
    weights = embed_sparse(value)
    return {}, ({} if weights is None else {SPARSE: weights})


def search(index: Index, call: Call) -> Answer:
    """The records closest to a text, a vector or a record."""
    body = call.json()
    query = mapping(body.get("query"), "query")
    top_k = whole(query.get("top_k"), "query.top_k", least=1, most=MAX_TOP_K)
    name = call.parameters["namespace"]
    question = _question(index, query)
    probe = _probe(index, name, query, question)
    passes, terms = read_filter(query.get("filter")), _terms(index.description, query.get("match_terms"))
    fields = None if body.get("fields") is None else texts(body["fields"], "fields", most=100)
    hits = [] if probe is None else ranked(index, name, probe, lambda one: passes(one.metadata) and terms(one))
    hits = hits[:top_k]
    usage = {"read_units": 1}
    if question is not None:
        usage["embed_total_tokens"] = max(1, len(words(question)))
    if body.get("rerank") is not None:
        hits = _reranked(hits, mapping(body["rerank"], "rerank"), question, top_k)
        usage["rerank_units"] = 1
    return plain({"result": {"hits": [_hit(one, fields) for one in hits]}, "usage": usage}, index.seen())


def _question(index: Index, query: Body) -> str | None:
    """The text to search for; None when it is a vector or an id."""
    given = [name for name in ("inputs", "vector", "id") if query.get(name)]
    if len(given) != 1:
        raise invalid("query: exactly one of inputs, vector and id is wanted")
    if given != ["inputs"]:
        return None
    index.description.text_field()
    question = text(mapping(query["inputs"], "query.inputs").get("text"), "query.inputs.text")
    if not question:
        raise invalid("query.inputs.text: a text is wanted")
    return question


def _probe(index: Index, name: str, query: Body, question: str | None) -> Probe | None:
    if question is not None:
        dense, sparse = embedded(index.description, question)
        probe = Probe(dense=dense.get(DENSE), sparse=sparse.get(SPARSE))
        return None if probe.dense is None and probe.sparse is None else probe
    if query.get("id"):
        return probe_of_id(index, name, text(query["id"], "query.id"))
    vector = mapping(query["vector"], "query.vector")
    values = vector.get("values")
    weights = sparse_of(vector.get("sparse_indices") or [], vector.get("sparse_values") or [], "query.vector")
    return checked(
        index.description, Probe(dense=reals(values, "query.vector.values") if values else None, sparse=weights)
    )


def _terms(description: Description, value: Json) -> Any:
    """Which records have every word of `match_terms` in their text; all when there is none."""
    if value is None:
        return lambda _: True
    body = mapping(value, "query.match_terms")
    if description.vector_type() != "sparse" or body.get("strategy", "all") != "all":
        raise invalid("match_terms: sparse integrated indexes only, with the strategy 'all'")
    terms = {word for term in texts(body.get("terms"), "match_terms.terms") for word in words(term)}
    field = description.text_field()
    return lambda record: terms <= set(words(str(record.metadata.get(field, ""))))


def _reranked(hits: list[Scored], rerank: Body, default_query: str | None, top_k: int) -> list[Scored]:
    text(rerank.get("model"), "rerank.model")
    fields = texts(rerank.get("rank_fields"), "rerank.rank_fields")
    if not rerank.get("model") or not fields:
        raise invalid("rerank: model and rank_fields are wanted")
    question = text(rerank.get("query"), "rerank.query") or default_query
    if not question:
        raise invalid("rerank.query: a search by vector or id does not say what to rank by")
    top_n = whole(rerank.get("top_n") or top_k, "rerank.top_n", least=1, most=MAX_TOP_K)
    if len(hits) > MAX_RERANKED:
        raise invalid(f"rerank: at most {MAX_RERANKED} documents, got {len(hits)}")
    ranking = reranked(question, [_ranked_text(one.record, fields) for one in hits])
    return [Scored(hits[place].record, score) for place, score in ranking[:top_n]]


def _ranked_text(record: Record, fields: list[str]) -> str:
    for name in fields:
        if not isinstance(record.metadata.get(name), str):
            raise invalid(f"rerank: the record {record.id!r} has no text in the field {name!r}")
    return " ".join(str(record.metadata[name]) for name in fields)


def _hit(item: Scored, names: list[str] | None) -> dict[str, Json]:
    fields = item.record.metadata
    if names is not None and "*" not in names:
        fields = {name: fields[name] for name in names if name in fields}
    return {"_id": item.record.id, "_score": widened(item.score), "fields": fields}
