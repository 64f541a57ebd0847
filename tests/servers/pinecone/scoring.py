"""How a document search scores: one vector clause on its own, or any number of text clauses added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servers.pinecone.embedding import embed_dense, embed_sparse, words
from servers.pinecone.errors import invalid
from servers.pinecone.fields import mapping, reals, sparse, text, texts
from servers.pinecone.probes import check_dense
from servers.pinecone.ranking import Passing, Scored, nearest, nearest_sparse, ordered
from servers.pinecone.schema import Dense, Description
from servers.pinecone.shapes import Reals
from servers.pinecone.store import Namespace, Sparse

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
    wanted: list[tuple[str, set[str]]] = []
    for clause in clauses:
        wanted += _text_terms(clause, searchable)
    found = []
    for record in namespace.records.values():
        score = sum(len(terms & set(words(str(record.metadata.get(name, ""))))) for name, terms in wanted)
        if score and passing(record):
            found.append(Scored(record, float(score)))
    return ordered(found)


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
