"""Documents written, read and deleted by their ids: `_doc`, `_create`, `_update`, `_bulk`, `_mget`, `_delete_by_query`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from servers.opensearch.errors import RefusedError, invalid
from servers.opensearch.hits import source_filter, source_json
from servers.opensearch.matching import Matching
from servers.opensearch.store import Document, Index, Node, Product
from servers.opensearch.writing import written

Json = dict[str, Any]
_REFRESHED = {"", "true", "wait_for"}


def put(index: Index, identifier: str | None, raw: bytes, *, is_new: bool, refresh: str | None) -> tuple[int, Json]:
    """Write one document; ``is_new``: only where there is none of this id."""
    identifier = identifier or secrets.token_urlsafe(15)
    is_there = identifier in index.documents
    if is_new and is_there:
        current = index.versions[identifier]
        reason = f"[{identifier}]: version conflict, document already exists (current version [{current}])"
        raise RefusedError(
            409, "version_conflict_engine_exception", reason, index=index.name, shard="0", index_uuid=index.uuid
        )
    try:
        document = index.put(identifier, raw)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, "mapper_parsing_exception", "failed to parse") from error
    result = "updated" if is_there else "created"
    return 200 if is_there else 201, _done(index, identifier, document.version, result, document.sequence, refresh)


def update(index: Index, identifier: str, body: Json, *, refresh: str | None) -> tuple[int, Json]:
    """Lay `doc` over a document."""
    if identifier not in index.documents:
        if "upsert" in body or body.get("doc_as_upsert"):
            return put(index, identifier, written(body.get("upsert", body.get("doc"))), is_new=False, refresh=refresh)
        reason = f"[{identifier}]: document missing"
        raise RefusedError(
            404, "document_missing_exception", reason, index=index.name, shard="0", index_uuid=index.uuid
        )
    document = index.put(identifier, written({**index.documents[identifier].source, **body["doc"]}))
    return 200, _done(index, identifier, document.version, "updated", document.sequence, refresh)


def delete(index: Index, identifier: str, about: Mapping[str, Any], *, refresh: str | None) -> tuple[int, Json]:
    """``about``: with the number that the document must have, if any."""
    number, there = about.get("if_seq_no"), index.documents.get(identifier)
    if number is not None and (there is None or there.sequence != int(number)):
        seen = (
            f"current document has seqNo [{there.sequence}] and primary term [1]"
            if there
            else "but no document was found"
        )
        reason = f"[{identifier}]: version conflict, required seqNo [{number}], primary term [1]. {seen}"
        raise RefusedError(
            409, "version_conflict_engine_exception", reason, index=index.name, shard="0", index_uuid=index.uuid
        )
    version, sequence, is_there = index.delete(identifier)
    result = "deleted" if is_there else "not_found"
    return 200 if is_there else 404, _done(index, identifier, version, result, sequence, refresh)


def _done(index: Index, identifier: str, version: int, result: str, sequence: int, refresh: str | None) -> Json:
    made: Json = {"_index": index.name, "_id": identifier, "_version": version, "result": result}
    if refresh in _REFRESHED:
        made["forced_refresh"] = refresh != "wait_for"
    return {**made, "_shards": {"total": 1, "successful": 1, "failed": 0}, "_seq_no": sequence, "_primary_term": 1}


def bulk(node: Node, default: str, raw: bytes, refresh: str | None) -> Json:
    """What became of each line. Raises RefusedError for what is no list of writes."""
    if not raw.endswith(b"\n"):
        raise invalid("The bulk request must be terminated by a newline [\\n]")
    started, lines, items = time.monotonic(), iter(raw.split(b"\n")), []
    for line in lines:
        if not line.strip():
            continue
        ((verb, about),) = orjson.loads(line).items()
        body = b"" if verb == "delete" else next(lines)
        items.append({verb: _item(node, verb, about.get("_index", default), about, body, refresh)})
    errors = any("error" in item for entry in items for item in entry.values())
    took = round(1000 * (time.monotonic() - started))
    if node.product is Product.OPENSEARCH:
        return {"took": took, "errors": errors, "items": items}
    return {"errors": errors, "took": took, "items": items}


def _item(node: Node, verb: str, name: str, about: Json, body: bytes, refresh: str | None) -> Json:
    index, identifier = node.written(name), None if about.get("_id") is None else str(about["_id"])
    try:
        match verb:
            case "index" | "create":
                status, made = put(index, identifier, body, is_new=verb == "create", refresh=refresh)
            case "update":
                status, made = update(index, identifier or "", orjson.loads(body), refresh=refresh)
            case "delete":
                status, made = delete(index, identifier or "", about, refresh=refresh)
            case _:
                raise invalid(
                    f"Malformed action/metadata line [1], expected one of [create, delete, index, update] but found [{verb}]"
                )
    except RefusedError as refused:
        return {"_index": index.name, "_id": identifier, "status": refused.status, "error": refused.cause}
    return {**made, "status": status}


def get(index: Index, identifier: str, body: Json, url: Mapping[str, str]) -> tuple[int, Json]:
    document = index.documents.get(identifier)
    if document is None:
        return 404, {"_index": index.name, "_id": identifier, "found": False}
    return 200, _read(index, document, body, url)


def _read(index: Index, document: Document, body: Json, url: Mapping[str, str]) -> Json:
    selection = source_filter(body, url)
    made: Json = {
        "_index": index.name,
        "_id": document.id,
        "_version": document.version,
        "_seq_no": document.sequence,
        "_primary_term": 1,
        "found": True,
    }
    return {**made, "_source": source_json(index, document, selection)} if selection.has_source else made


def mget(node: Node, default: str, body: Json, url: Mapping[str, str]) -> Json:
    docs = body.get("docs") or [{"_id": identifier} for identifier in body.get("ids", [])]
    read = []
    for doc in docs:
        selected = {"_source": doc["_source"]} if "_source" in doc else {}
        read.append(get(node.one(doc.get("_index", default)), doc["_id"], selected, url)[1])
    return {"docs": read}


def delete_by_query(node: Node, expression: str, body: Json) -> Json:
    started, deleted = time.monotonic(), 0
    for index in node.resolved(expression):
        scores = Matching(index, 10).scores(body.get("query"))
        for identifier, score in zip(list(index.documents), scores, strict=True):
            if not np.isnan(score):
                index.delete(identifier)
                deleted += 1
    took = round(1000 * (time.monotonic() - started))
    counts: Json = {"took": took, "timed_out": False, "total": deleted, "deleted": deleted, "batches": int(deleted > 0)}
    retries: Json = {"version_conflicts": 0, "noops": 0, "retries": {"bulk": 0, "search": 0}, "throttled_millis": 0}
    return {**counts, **retries, "requests_per_second": np.float32(-1), "throttled_until_millis": 0, "failures": []}
