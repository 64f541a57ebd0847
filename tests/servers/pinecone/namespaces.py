"""Namespaces: list, describe, create, delete; and the statistics of an index, which count by namespace."""

from __future__ import annotations

from typing import Any

from servers.pinecone.calls import DEDICATED, NAMESPACES, Answer, Call, transcoded
from servers.pinecone.errors import ALREADY_EXISTS, MISSING, RefusalError, invalid
from servers.pinecone.fields import mapping, message, text
from servers.pinecone.store import DEFAULT, DENSE, Index, Namespace
from servers.pinecone.vectors import limit_of, page_of, token_of

Json = Any

_TYPED = "2025-01"
"""Since then the statistics say the metric and the type of the vectors."""


def stats(index: Index, call: Call) -> Answer:
    """How many records every namespace has. The default one is called `__default__` since namespaces can be listed."""
    if message(call.json(), ("filter",)).get("filter"):
        raise invalid("Serverless and Starter indexes do not support describing index stats with metadata filtering")
    field = index.description.dense().get(DENSE)
    counts = {
        "" if name == DEFAULT and call.version < NAMESPACES else name: {"vectorCount": len(one.records)}
        for name, one in index.namespaces.items()
    }
    members: dict[str, Json] = {"namespaces": counts}
    if field is not None:
        members["dimension"] = field.dimension
    members |= {"indexFullness": 0.0, "totalVectorCount": sum(one["vectorCount"] for one in counts.values())}
    if call.version >= _TYPED:
        members["metric"] = "dotproduct" if field is None else field.metric
        members["vectorType"] = index.description.vector_type()
    return transcoded(members)


def list_namespaces(index: Index, call: Call) -> Answer:
    """A page of the namespaces with a prefix."""
    prefix = call.requested("prefix") or ""
    names = sorted(name for name in index.namespaces if name.startswith(prefix))
    page, pagination = page_of(names, limit_of(call), token_of(call))
    total = {"total_count": len(names)} if call.version >= DEDICATED else {}
    listed = [_namespace_json(name, index.namespaces[name]) for name in page]
    return transcoded({"namespaces": listed, **pagination, **total})


def describe(index: Index, call: Call) -> Answer:
    """One namespace."""
    name = call.parameters["namespace"] or DEFAULT
    return transcoded(_namespace_json(name, _known(index, name)))


def create(index: Index, call: Call) -> Answer:
    """An empty namespace, perhaps with the list of its indexed fields."""
    body = message(call.json(), ("name", "schema"))
    name = text(body.get("name"), "name")
    if not name:
        raise invalid("name: a name is wanted")
    if name in index.namespaces:
        raise RefusalError(ALREADY_EXISTS, f"Namespace {name} already exists")
    schema = body.get("schema")
    if schema is not None:
        mapping(mapping(schema, "schema").get("fields"), "schema.fields")
    index.namespaces[name] = Namespace(schema=schema)
    return transcoded(_namespace_json(name, index.namespaces[name]))


def delete(index: Index, call: Call) -> Answer:
    """A namespace and all it holds."""
    name = call.parameters["namespace"] or DEFAULT
    _known(index, name)
    del index.namespaces[name]
    return transcoded({}, index.written())


def _known(index: Index, name: str) -> Namespace:
    namespace = index.namespace(name)
    if namespace is None:
        raise RefusalError(MISSING, "Namespace not found")
    return namespace


def _namespace_json(name: str, namespace: Namespace) -> dict[str, Json]:
    # A 64-bit integer, hence text; the public description says a number.
    members: dict[str, Json] = {"name": name, "record_count": str(len(namespace.records))}
    if namespace.schema is not None:
        fields = namespace.schema["fields"]
        members |= {"schema": namespace.schema, "indexed_fields": {"fields": sorted(fields)}}
    return members
