"""Documents of the newest API: scored, searched, fetched, written. A document is its fields, the vectors among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servers.pinecone.calls import ALPHA, Answer, Call, plain
from servers.pinecone.errors import UNPROCESSABLE, RefusalError, invalid, too_long
from servers.pinecone.fields import mapping, read_filter, reals, record_id, sparse, text, texts, whole
from servers.pinecone.queries import MAX_TOP_K
from servers.pinecone.ranking import (
    Passing,
    Scored,
    check_dense,
    embed_dense,
    embed_sparse,
    nearest,
    nearest_sparse,
    ordered,
    words,
)
from servers.pinecone.shapes import Reals, widened
from servers.pinecone.store import Dense, Description, Index, Namespace, Record, Sparse
from servers.pinecone.vectors import MAX_FETCH, MAX_UPSERT, metadata, page_of

# How a document search scores: one vector clause on its own, or any number of text clauses added up.


Json = Any
Clause = Mapping[str, Any]

MAX_CLAUSES = 100
_TEXT = ("text", "query_string")
_VECTOR = ("dense_vector", "sparse_vector", "embed", "sparse_embed")


def scored(namespace: Namespace, description: Description, score_by: Json, passing: Passing) -> list[Scored]:
    """Every document found, the best first. Refuses clauses that cannot stand together."""
    clauses = _clauses(score_by)
    if clauses[0]["type"] in _VECTOR:
        if len(clauses) > 1:
            raise invalid("score_by: a clause on a vector must stand alone")
        return _by_vector(namespace, description, clauses[0], passing)
    return _by_text(namespace, description, clauses, passing)


def tokens_of(score_by: Json) -> int:
    """How many words the index embeds to answer."""
    return sum(len(words(one["query"])) for one in _clauses(score_by) if one["type"] in {"embed", "sparse_embed"})


def _clauses(score_by: Json) -> list[Clause]:
    if not isinstance(score_by, list) or not 1 <= len(score_by) <= MAX_CLAUSES:
        raise invalid(f"score_by: a list of 1 to {MAX_CLAUSES} clauses is wanted")
    clauses = [mapping(one, "score_by") for one in score_by]
    for one in clauses:
        if one.get("type") not in (*_TEXT, *_VECTOR):
            raise invalid(f"score_by: the type is one of {', '.join((*_TEXT, *_VECTOR))}")
        if one["type"] not in {"dense_vector", "sparse_vector"} and not text(one.get("query"), "score_by.query"):
            raise invalid("score_by.query: a text is wanted")
    kinds = {one["type"] in _VECTOR for one in clauses}
    if len(kinds) > 1:
        raise invalid("score_by: a clause on a vector must stand alone")
    return clauses


def _fields(clause: Clause) -> list[str]:
    """`field`, or `fields`; one of the two."""
    single = text(clause.get("field"), "score_by.field")
    several = texts(clause.get("fields"), "score_by.fields")
    if bool(single) == bool(several):
        raise invalid("score_by: one of field and fields is wanted")
    return several or [single]


def _by_vector(namespace: Namespace, description: Description, clause: Clause, passing: Passing) -> list[Scored]:
    names = _fields(clause)
    if len(names) != 1:
        raise invalid("score_by: a clause on a vector names exactly one field")
    name, kind = names[0], clause["type"]
    if kind in {"dense_vector", "embed"}:
        field = description.dense().get(name)
        if field is None:
            raise invalid(f"score_by: {name!r} is no field of dense vectors")
        return nearest(namespace, field, _dense(clause, field), passing)
    if name not in description.sparse():
        raise invalid(f"score_by: {name!r} is no field of sparse vectors")
    weights = _sparse(clause)
    return [] if weights is None else nearest_sparse(namespace, name, weights, passing)


def _dense(clause: Clause, field: Dense) -> Reals:
    if clause["type"] == "embed":
        return embed_dense(clause["query"], field.dimension)
    values = reals(clause.get("values"), "score_by.values")
    check_dense(field, len(values))
    return values


def _sparse(clause: Clause) -> Sparse | None:
    if clause["type"] == "sparse_embed":
        return embed_sparse(clause["query"])
    return sparse(clause.get("sparse_values"), "score_by.sparse_values")


def _by_text(namespace: Namespace, description: Description, clauses: list[Clause], passing: Passing) -> list[Scored]:
    """A toy of a full-text score: how many of the wanted words a field has, over all clauses. No match, not found."""
    searchable = [name for name, field in description.fields.items() if field.get("full_text_search") is not None]
    terms_by_field: list[tuple[str, set[str]]] = []
    for clause in clauses:
        terms_by_field += _text_terms(clause, searchable)
    hits = []
    for record in namespace.records.values():
        score = sum(len(terms & set(words(str(record.metadata.get(name, ""))))) for name, terms in terms_by_field)
        if score and passing(record):
            hits.append(Scored(record, float(score)))
    return ordered(hits)


def _text_terms(clause: Clause, searchable: list[str]) -> list[tuple[str, set[str]]]:
    """Fields and the words wanted in them. A query string may say `field:word` and `field:(words)`."""
    if clause["type"] == "text":
        names = _fields(clause)
        unknown = [name for name in names if name not in searchable]
        if unknown:
            raise invalid(f"score_by: {unknown[0]!r} has no full-text search")
        return [(name, set(words(clause["query"]))) for name in names]
    if clause.get("field") or clause.get("fields"):
        raise invalid("score_by: a query string names its fields in the string")
    qualifier, colon, rest = clause["query"].partition(":")
    if colon and qualifier in searchable:
        return [(qualifier, set(words(rest)))]
    return [(name, set(words(clause["query"]))) for name in searchable]


# Documents of the newest API, read: search, fetch. A document is its fields, the vectors among them.
#
# `include_fields` inverts between the two: left out or empty, a search shows no field and a fetch shows all. That a search
# shows a vector field that is named is inferred; no description says it, and none says it does not.


def search(index: Index, call: Call) -> Answer:
    """The best documents of a namespace."""
    body, name = call.json(), call.parameters["namespace"]
    if call.version == ALPHA and "include_fields" not in body:
        raise RefusalError(UNPROCESSABLE, "include_fields: the field is missing")
    top_k = whole(body.get("top_k"), "top_k", least=1, most=MAX_TOP_K)
    fields = texts(body.get("include_fields"), "include_fields")
    passes = read_filter(body.get("filter"))
    namespace = index.namespace(name) or Namespace()
    hits = scored(namespace, index.description, body.get("score_by"), lambda one: passes(one.metadata))
    matches = [
        {"_id": one.record.id, "_score": widened(one.score), **_selected(one.record, fields)} for one in hits[:top_k]
    ]
    tokens = tokens_of(body["score_by"])
    usage = {"read_units": 1, **({"embed_total_tokens": tokens} if tokens else {})}
    answer = plain({"matches": matches, "namespace": name, "usage": usage}, index.seen())
    if len(answer.body) > call.limits.result:
        raise too_long(len(answer.body), call.limits.result)
    return answer


def fetch(index: Index, call: Call) -> Answer:
    """Documents by id, or a page of those that pass a filter."""
    body, name = call.json(), call.parameters["namespace"]
    ids = texts(body.get("ids"), "ids", most=MAX_FETCH)
    if bool(ids) == (body.get("filter") is not None):
        raise invalid("one of ids and filter is wanted")
    fields = texts(body.get("include_fields"), "include_fields") or ["*"]
    records = (index.namespace(name) or Namespace()).records
    pagination: Mapping[str, Json] = {}
    if not ids:
        passes = read_filter(body["filter"])
        limit = whole(body.get("limit", 100), "limit", least=1, most=MAX_TOP_K)
        matching = sorted(one.id for one in records.values() if passes(one.metadata))
        ids, pagination = page_of(matching, limit, text(body.get("pagination_token"), "pagination_token"))
    documents = {one: {"_id": one, **_selected(records[one], fields)} for one in dict.fromkeys(ids) if one in records}
    usage = {"read_units": max(1, -(-len(documents) // 10))}
    return plain({"documents": documents, "namespace": name, "usage": usage, **pagination})


def _selected(record: Record, fields: list[str]) -> dict[str, Json]:
    every: dict[str, Json] = {name: _numbers(values) for name, values in record.dense.items()}
    every |= {
        name: {"indices": list(one.indices), "values": _numbers(one.values)} for name, one in record.sparse.items()
    }
    every |= record.metadata  # last: a field that embeds shows its text, not its vector
    return every if "*" in fields else {name: every[name] for name in fields if name in every}


def _numbers(values: Reals) -> list[float]:
    return [widened(value) for value in values.tolist()]


# Documents of the newest API, written: upsert.


def upsert(index: Index, call: Call) -> Answer:
    """Write up to 1,000 documents in up to 2 MB. All or nothing."""
    if len(call.body) > call.limits.upsert:
        raise too_long(len(call.body), call.limits.upsert)
    given = _documents(call.json())
    records = [_record(index.description, one) for one in given]
    index.opened(call.parameters["namespace"]).put(records)
    tokens = sum(_tokens(index.description, one) for one in given)
    usage = {"usage": {"embed_total_tokens": tokens}} if tokens else {}
    return plain({"upserted_count": len(records), **usage}, index.written(), status=202)


def _documents(body: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    given = body.get("documents")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_UPSERT:
        raise invalid(f"documents: a list of 1 to {MAX_UPSERT} is wanted")
    return [mapping(one, "documents") for one in given]


def _record(description: Description, document: Mapping[str, Json]) -> Record:
    """A document sorted into vectors and the rest; a field that embeds keeps its text and gets its vector too."""
    dense: dict[str, Reals] = {}
    weights: dict[str, Sparse | None] = {}
    rest: dict[str, Json] = {}
    for name, value in document.items():
        field = description.fields.get(name, {})
        if field.get("type") == "dense_vector":
            dense[name] = reals(value, name)
            check_dense(description.dense()[name], len(dense[name]))
        elif field.get("type") == "sparse_vector":
            weights[name] = sparse(value, name)
        elif name != "_id":
            rest[name] = value
        if isinstance(value, str) and field.get("embed") is not None:
            dense[name] = embed_dense(value, description.dense()[name].dimension)
        if isinstance(value, str) and field.get("sparse_embed") is not None:
            weights[name] = embed_sparse(value)
    present = {name: one for name, one in weights.items() if one is not None}
    identifier = record_id(document.get("_id"), "_id")
    return Record(id=identifier, dense=dense, sparse=present, metadata=metadata(rest, identifier))


def _tokens(description: Description, document: Mapping[str, Json]) -> int:
    embedding = [name for name, one in description.fields.items() if one.get("embed") or one.get("sparse_embed")]
    return sum(len(words(str(document.get(name, "")))) for name in embedding)
