"""Writing and reading records by id, and ids page by page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from servers.pinecone.calls import DEDICATED, Answer, Call, transcoded
from servers.pinecone.errors import MISSING, RefusalError, invalid, too_long, unknown_field
from servers.pinecone.fields import boolean, message, read_filter, reals, record_id, sparse, text, texts, whole
from servers.pinecone.queries import sparse_json
from servers.pinecone.ranking import check_dense
from servers.pinecone.shapes import Struct
from servers.pinecone.store import DENSE, SPARSE, Description, Index, Namespace, Record

# Ids, page by page: `GET /vectors/list`, and the token that every paged call uses.


Json = Any

MAX_LIST = 100


def list_ids(index: Index, call: Call) -> Answer:
    """A page of the ids with a prefix, in the order of their characters."""
    name = call.requested("namespace") or ""
    prefix = call.requested("prefix") or ""
    limit = limit_of(call)
    records = (index.namespace(name) or Namespace()).records
    ids, pagination = page_of(sorted(one for one in records if one.startswith(prefix)), limit, token_of(call))
    vectors = [{"id": one} for one in ids]
    return transcoded({"vectors": vectors, **pagination, "namespace": name, "usage": {"readUnits": 1}})


def limit_of(call: Call) -> int:
    """`limit`, 100 when absent."""
    return whole(call.requested("limit") or MAX_LIST, "limit", least=1, most=MAX_LIST)


def token_of(call: Call) -> str:
    """The pagination token in either spelling."""
    return call.requested("paginationToken", "pagination_token") or ""


def page_of(names: Sequence[str], limit: int, token: str) -> tuple[list[str], dict[str, Json]]:
    """The page after a token from names in order, and `pagination` with the next token while there is more."""
    after = _read(token) if token else None
    rest = [name for name in names if after is None or name > after]
    page = list(rest[:limit])
    return page, ({"pagination": {"next": _written(page[-1])}} if len(rest) > limit else {})


def _written(last: str) -> str:
    return base64.b64encode(orjson.dumps({"skip_past": last})).decode()


def _read(token: str) -> str:
    try:
        value = orjson.loads(base64.b64decode(token, validate=True))
    except (binascii.Error, ValueError):
        raise invalid("Invalid pagination token") from None
    if not isinstance(value, dict) or not isinstance(value.get("skip_past"), str):
        raise invalid("Invalid pagination token")
    return str(value["skip_past"])


# Writing and reading records by id: upsert, update, delete, fetch, fetch_by_metadata.


MAX_UPSERT = 1000
MAX_FETCH = 1000
MAX_METADATA = 40 * 1024
_VECTOR = ("id", "values", "sparseValues", "metadata")


def upsert(index: Index, call: Call) -> Answer:
    """Write up to 1,000 records in up to 2 MB. All or nothing."""
    if len(call.body) > call.limits.upsert:
        raise too_long(len(call.body), call.limits.upsert)
    if not index.description.holds_vectors():
        raise invalid("This index takes documents: its schema names fields of its own")
    body = message(call.json(), ("vectors", "namespace"))
    given = body.get("vectors", [])
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_UPSERT:
        raise invalid(f"vectors: a list of 1 to {MAX_UPSERT} is wanted")
    records = [_record(index.description, one, f"vectors[{place}]") for place, one in enumerate(given)]
    index.opened(text(body.get("namespace"), "namespace")).put(records)
    return transcoded({"upsertedCount": len(records)}, index.written())


def _record(description: Description, value: Json, where: str) -> Record:
    body = message(value, _VECTOR, where=where)
    record = Record(id=record_id(body.get("id"), f"{where}.id"), metadata=metadata(body.get("metadata"), where))
    record = _with_vectors(description, record, body, where)
    if (DENSE in description.dense()) != (DENSE in record.dense):
        reason = "dense values are wanted" if DENSE in description.dense() else "a sparse index takes no dense values"
        raise invalid(f"{where}: {reason}")
    if not record.dense and not record.sparse:
        raise invalid(f"{where}: sparse values are wanted")
    return record


def _with_vectors(description: Description, record: Record, body: Mapping[str, Json], where: str) -> Record:
    """The record with the vectors of a body that has some."""
    field = description.dense().get(DENSE)
    if body.get("values"):
        dense = reals(body["values"], f"{where}.values")
        if field is not None:
            check_dense(field, len(dense))
        if not dense.any():
            raise invalid(f"{where}: Dense vectors must contain at least one non-zero value")
        record = replace(record, dense={DENSE: dense})
    weights = sparse(body.get("sparseValues"), f"{where}.sparseValues")
    if weights is not None:
        if field is not None and field.metric != "dotproduct":
            raise invalid("Index configuration does not support sparse values - only dotproduct indexes do")
        record = replace(record, sparse={SPARSE: weights})
    return record


def metadata(value: Json, where: str) -> dict[str, Json]:
    """Metadata: strings, numbers, booleans and lists of strings, up to 40 KB. Nothing for nothing."""
    members = {} if value is None else value
    if not isinstance(members, dict):
        raise invalid(f"{where}.metadata: expected an object")
    for name, item in members.items():
        is_list = isinstance(item, list) and all(isinstance(part, str) for part in item)
        if not is_list and not isinstance(item, str | bool | int | float):
            raise invalid(
                "Metadata value must be a string, number, boolean or list of strings, "
                f"got {orjson.dumps(item).decode()[:100]!r} for field {name!r}"
            )
    size = len(orjson.dumps(members))
    if size > MAX_METADATA:
        raise invalid(f"Metadata size is {size} bytes, which exceeds the limit of {MAX_METADATA} bytes per vector")
    return members


def update(index: Index, call: Call) -> Answer:
    """Change one record by id, or the metadata of all that pass a filter. An id that is not there changes nothing."""
    body = message(call.json(), ("id", "values", "sparseValues", "setMetadata", "namespace", "filter", "dryRun"))
    for name in ("filter", "dryRun"):
        if name in body and call.version < DEDICATED:
            raise unknown_field(name)
    if ("id" in body) == ("filter" in body):
        raise invalid("one of id and filter is wanted")
    namespace = index.namespace(text(body.get("namespace"), "namespace")) or Namespace()
    changes = metadata(body.get("setMetadata"), "setMetadata")
    if "filter" in body:
        passes = read_filter(body["filter"])
        chosen = [record for record in namespace.records.values() if passes(record.metadata)]
        if not boolean(body.get("dryRun"), "dryRun"):
            namespace.put([replace(record, metadata={**record.metadata, **changes}) for record in chosen])
        return transcoded({"matchedRecords": len(chosen)}, index.written())
    _update_one(index, namespace, body, changes)
    return transcoded({}, index.written())


def _update_one(index: Index, namespace: Namespace, body: Mapping[str, Json], changes: Mapping[str, Json]) -> None:
    identifier = record_id(body["id"], "id")
    template = _with_vectors(index.description, Record(id=identifier), body, "update")
    old = namespace.records.get(identifier)
    if old is not None:
        merged = replace(
            old,
            dense={**old.dense, **template.dense},
            sparse={**old.sparse, **template.sparse},
            metadata={**old.metadata, **changes},
        )
        namespace.put([merged])


def delete(index: Index, call: Call) -> Answer:
    """Forget records by id, by filter, or all of a namespace."""
    body = message(call.json(), ("ids", "deleteAll", "namespace", "filter"))
    ids = texts(body.get("ids"), "ids", most=MAX_FETCH)
    everything = boolean(body.get("deleteAll"), "deleteAll")
    if [bool(ids), everything, "filter" in body].count(True) != 1:
        raise invalid("exactly one of ids, deleteAll and filter is wanted")
    namespace = index.namespace(text(body.get("namespace"), "namespace"))
    if namespace is None:
        raise RefusalError(MISSING, "Namespace not found")
    passes = read_filter(body.get("filter"))
    if not ids:
        ids = [record.id for record in namespace.records.values() if everything or passes(record.metadata)]
    namespace.remove(ids)
    return transcoded({}, index.written())


def fetch(index: Index, call: Call) -> Answer:
    """Records by id, always whole; ids that are not there are left out."""
    ids = [value for name, value in call.query if name == "ids"]
    if not 1 <= len(ids) <= MAX_FETCH:
        raise invalid(f"ids: 1 to {MAX_FETCH} are wanted, got {len(ids)}")
    name = call.requested("namespace") or ""
    records = (index.namespace(name) or Namespace()).records
    fetched = [records[identifier] for identifier in dict.fromkeys(ids) if identifier in records]
    return transcoded(
        {"vectors": {one.id: _vector(one) for one in fetched}, "namespace": name, "usage": read_units(len(fetched))}
    )


def fetch_by_metadata(index: Index, call: Call) -> Answer:
    """A page of the records that pass a filter, by id."""
    body = message(call.json(), ("namespace", "filter", "limit", "paginationToken"))
    if not body.get("filter"):
        raise invalid("filter: a filter is wanted")
    passes = read_filter(body["filter"])
    name = text(body.get("namespace"), "namespace")
    records = (index.namespace(name) or Namespace()).records
    limit = whole(body.get("limit", 100), "limit", least=1, most=10_000)
    matching = sorted(record.id for record in records.values() if passes(record.metadata))
    ids, pagination = page_of(matching, limit, text(body.get("paginationToken"), "paginationToken"))
    vectors = {identifier: _vector(records[identifier]) for identifier in ids}
    return transcoded({"vectors": vectors, "namespace": name, "usage": read_units(len(ids)), **pagination})


def read_units(count: int) -> dict[str, int]:
    """A fetch costs a unit for every ten records, and at least one."""
    return {"readUnits": max(1, -(-count // 10))}


def _vector(record: Record) -> dict[str, Json]:
    members: dict[str, Json] = {"id": record.id, "values": record.dense.get(DENSE, [])}
    if record.metadata:
        members["metadata"] = Struct(record.metadata)
    if SPARSE in record.sparse:
        members["sparseValues"] = sparse_json(record)
    return members
