"""The methods of Pinecone's gRPC service, each with the REST call it is at the edge: both sides answer from one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import orjson
from servers.pinecone.calls import Call, Limits
from servers.pinecone.errors import Code, Refusal, too_long
from servers.pinecone.grpc_messages import as_bytes, as_json
from servers.pinecone.routes import DATA, find_route
from servers.pinecone.store import Index

Json = Any

SERVICE = "VectorService"
_UNIMPLEMENTED = Code(12, 501, "UNIMPLEMENTED")


@dataclass(frozen=True, slots=True)
class Method:
    """A method's messages and its REST call. Of a GET, fields are the query; braces in the path name one that is a part of it."""

    request: str
    reply: str
    verb: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A reply's message, and the headers that the edge sends before it."""

    message: bytes
    headers: Mapping[str, str]


METHODS: Mapping[str, Method] = {
    "Upsert": Method("UpsertRequest", "UpsertResponse", "POST", "/vectors/upsert"),
    "Delete": Method("DeleteRequest", "DeleteResponse", "POST", "/vectors/delete"),
    "Fetch": Method("FetchRequest", "FetchResponse", "GET", "/vectors/fetch"),
    "List": Method("ListRequest", "ListResponse", "GET", "/vectors/list"),
    "Query": Method("QueryRequest", "QueryResponse", "POST", "/query"),
    "Update": Method("UpdateRequest", "UpdateResponse", "POST", "/vectors/update"),
    "DescribeIndexStats": Method(
        "DescribeIndexStatsRequest", "DescribeIndexStatsResponse", "POST", "/describe_index_stats"
    ),
    "ListNamespaces": Method("ListNamespacesRequest", "ListNamespacesResponse", "GET", "/namespaces"),
    "DescribeNamespace": Method("DescribeNamespaceRequest", "NamespaceDescription", "GET", "/namespaces/{namespace}"),
    "DeleteNamespace": Method("DeleteNamespaceRequest", "DeleteResponse", "DELETE", "/namespaces/{namespace}"),
    "CreateNamespace": Method("CreateNamespaceRequest", "NamespaceDescription", "POST", "/namespaces"),
    "FetchByMetadata": Method(
        "FetchByMetadataRequest", "FetchByMetadataResponse", "POST", "/vectors/fetch_by_metadata"
    ),
}


def answered(index: Index, name: str, version: str, raw: bytes, limits: Limits) -> Said:
    """One call of a method of the table. Raises Refusal."""
    method = METHODS[name]
    # Counted here, as protobuf: the JSON it becomes is several times as long, and nobody sent it.
    if method.request == "UpsertRequest" and len(raw) > limits.upsert:
        raise too_long(len(raw), limits.upsert)
    given = as_json(method.request, raw)
    part = str(given.pop("namespace", "")) if "{namespace}" in method.path else ""
    path = method.path.replace("{namespace}", quote(part, safe=""))
    found = find_route(DATA, method.verb, path, version)
    if found is None:
        raise Refusal(_UNIMPLEMENTED, f"unknown method {name} for service {SERVICE}")
    verb, parameters = found
    is_posted = method.verb == "POST"
    call = Call(
        version=version,
        parameters=parameters,
        query=() if is_posted else _query(given),
        body=orjson.dumps(given) if is_posted else b"",
        limits=replace(limits, upsert=_UNCOUNTED),
    )
    answer = verb(index, call)
    headers = {header: value for header, value in answer.headers.items() if header != "grpc-status"}
    return Said(message=as_bytes(method.reply, orjson.loads(answer.body)), headers=headers)


_UNCOUNTED = 2**62


def _query(given: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    several = ((name, value if isinstance(value, list) else [value]) for name, value in given.items())
    return tuple((name, str(item)) for name, items in several for item in items)
