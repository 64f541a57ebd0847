"""Documents of the newest API, written: upsert, update, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servers.pinecone.calls import Answer, Call, plain
from servers.pinecone.embedding import embed_dense, embed_sparse, words
from servers.pinecone.errors import invalid, too_long
from servers.pinecone.fields import boolean, mapping, reals, record_id, sparse, texts
from servers.pinecone.filters import read_filter
from servers.pinecone.probes import check_dense
from servers.pinecone.schema import Description
from servers.pinecone.shapes import Reals
from servers.pinecone.store import Index, Namespace, Record, Sparse
from servers.pinecone.vectors import MAX_FETCH, MAX_UPSERT, metadata

Json = Any


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


def update(index: Index, call: Call) -> Answer:
    """Change fields of documents named one by one, or of all that pass a filter."""
    body = call.json()
    namespace = index.namespace(call.parameters["namespace"]) or Namespace()
    if body.get("filter") is None:
        patches = _documents(body)
        for patch in patches:
            _patch(index, namespace, record_id(patch.get("_id"), "_id"), patch)
        return plain({}, index.written())
    passes = read_filter(body["filter"])
    changes = mapping(body.get("set_fields") or {}, "set_fields")
    removed = texts(body.get("remove_fields"), "remove_fields")
    chosen = [one.id for one in namespace.records.values() if passes(one.metadata)]
    for wanted in chosen:
        _patch(index, namespace, wanted, {**changes, **dict.fromkeys(removed)})
    return plain({"matched_records": len(chosen)}, index.written())


def delete(index: Index, call: Call) -> Answer:
    """Forget documents by id, by filter, or all of a namespace."""
    body = call.json()
    ids = texts(body.get("ids"), "ids", most=MAX_FETCH)
    everything = boolean(body.get("delete_all"), "delete_all")
    by_filter = body.get("filter") is not None
    if [bool(ids), everything, by_filter].count(True) != 1:
        raise invalid("exactly one of ids, delete_all and filter is wanted")
    namespace = index.namespace(call.parameters["namespace"]) or Namespace()
    passes = read_filter(body.get("filter"))
    if not ids:
        ids = [one.id for one in namespace.records.values() if everything or passes(one.metadata)]
    namespace.remove(ids)
    return plain({"matched_records": len(ids)} if by_filter else {}, index.written(), status=202)


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
    own = record_id(document.get("_id"), "_id")
    return Record(id=own, dense=dense, sparse=present, metadata=metadata(rest, own))


def _patch(index: Index, namespace: Namespace, wanted: str, changes: Mapping[str, Json]) -> None:
    """Lay changes over a document, null taking a field away; a document that is not there stays so."""
    old = namespace.records.get(wanted)
    if old is None:
        return
    removed = {name for name, value in changes.items() if value is None}
    new = _record(index.description, {**{k: v for k, v in changes.items() if k not in removed}, "_id": wanted})
    merged = Record(
        id=wanted,
        dense={name: one for name, one in {**old.dense, **new.dense}.items() if name not in removed},
        sparse={name: one for name, one in {**old.sparse, **new.sparse}.items() if name not in removed},
        metadata={name: one for name, one in {**old.metadata, **new.metadata}.items() if name not in removed},
    )
    namespace.put([merged])


def _tokens(description: Description, document: Mapping[str, Json]) -> int:
    embedding = [name for name, one in description.fields.items() if one.get("embed") or one.get("sparse_embed")]
    return sum(len(words(str(document.get(name, "")))) for name in embedding)
