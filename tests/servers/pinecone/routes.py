"""The paths of both planes, each with its call and the versions that have it.

Paths are split before they are decoded, so `%2F` stays inside a name; doubled slashes at the front are one (the Python
clients 5 to 8 send `//query` for a host with a slash at its end); an empty namespace is a segment like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from servers.pinecone import control, document_edits, documents, listing, namespaces, queries, records, vectors
from servers.pinecone.calls import Answer, Call
from servers.pinecone.project import Project
from servers.pinecone.store import Index
from servers.pinecone.versions import DEDICATED, NAMESPACES, OLDEST, has_documents

Target = TypeVar("Target")
"""What a call is made on: an index, or the project."""

_INTEGRATED = "2025-01"
_DOCUMENTS = "/namespaces/{namespace}/documents"


def _ever(_version: str) -> bool:
    return True


def _since(first: str) -> Callable[[str], bool]:
    return lambda version: version >= first


@dataclass(frozen=True, slots=True)
class Route(Generic[Target]):
    """A path, `{name}` standing for one segment, its call, and which versions have it."""

    method: str
    path: str
    verb: Callable[[Target, Call], Answer]
    serves: Callable[[str], bool] = _ever


DATA: tuple[Route[Index], ...] = (
    Route("POST", "/query", queries.query),
    Route("POST", "/vectors/upsert", vectors.upsert),
    Route("POST", "/vectors/update", vectors.update),
    Route("POST", "/vectors/delete", vectors.delete),
    Route("GET", "/vectors/fetch", vectors.fetch),
    Route("GET", "/vectors/list", listing.list_ids),
    Route("POST", "/vectors/fetch_by_metadata", vectors.fetch_by_metadata, _since(DEDICATED)),
    Route("POST", "/describe_index_stats", namespaces.stats),
    Route("GET", "/describe_index_stats", namespaces.stats, lambda version: version <= OLDEST),
    Route("GET", "/namespaces", namespaces.list_namespaces, _since(NAMESPACES)),
    Route("POST", "/namespaces", namespaces.create, _since(DEDICATED)),
    Route("GET", "/namespaces/{namespace}", namespaces.describe, _since(NAMESPACES)),
    Route("DELETE", "/namespaces/{namespace}", namespaces.delete, _since(NAMESPACES)),
    Route("POST", "/records/namespaces/{namespace}/upsert", records.upsert, _since(_INTEGRATED)),
    Route("POST", "/records/namespaces/{namespace}/search", records.search, _since(_INTEGRATED)),
    Route("POST", f"{_DOCUMENTS}/upsert", document_edits.upsert, has_documents),
    Route("POST", f"{_DOCUMENTS}/update", document_edits.update, has_documents),
    Route("POST", f"{_DOCUMENTS}/delete", document_edits.delete, has_documents),
    Route("POST", f"{_DOCUMENTS}/search", documents.search, has_documents),
    Route("POST", f"{_DOCUMENTS}/fetch", documents.fetch, has_documents),
    Route("POST", f"{_DOCUMENTS}/list", documents.list_documents, has_documents),
)
CONTROL: tuple[Route[Project], ...] = (
    Route("GET", "/indexes", control.list_indexes),
    Route("POST", "/indexes", control.create),
    # Before the name: `create-for-model` would be one.
    Route("POST", "/indexes/create-for-model", control.create_for_model, _since(_INTEGRATED)),
    Route("GET", "/indexes/{index}", control.describe),
    Route("PATCH", "/indexes/{index}", control.configure),
    Route("DELETE", "/indexes/{index}", control.delete),
    Route("GET", "/collections", control.list_collections),
)


def find_route(
    routes: tuple[Route[Target], ...], method: str, raw_path: str, version: str
) -> tuple[Callable[[Target, Call], Answer], dict[str, str]] | None:
    """The call and the parameters of a raw path, decoded; None when this version has no such path."""
    parts = raw_path.lstrip("/").split("/")
    for route in routes:
        wanted = route.path.lstrip("/").split("/")
        if route.method != method or len(wanted) != len(parts) or not route.serves(version):
            continue
        pairs = list(zip(wanted, parts, strict=True))
        if all(name == part for name, part in pairs if not name.startswith("{")):
            return route.verb, {name[1:-1]: unquote(part) for name, part in pairs if name.startswith("{")}
    return None
