"""Qdrant's paths, each with the verb that answers it. Paths are matched after merging `//` and dropping a trailing `/`."""

from __future__ import annotations

import re
from urllib.parse import unquote

from vecsieve.proxy.embedded import catalog, groups, indexes, points, searches, updates, vector_names
from vecsieve.proxy.embedded.core import Verb
from vecsieve.proxy.embedded.matrix import matrix_offsets, matrix_pairs

# Order matters where a literal and a parameter could both match: the literal stands first.
_TABLE: tuple[tuple[str, str, Verb], ...] = (
    ("GET", "/collections", catalog.listing),
    ("GET", "/aliases", catalog.aliases),
    ("POST", "/collections/aliases", catalog.change_aliases),
    ("GET", "/collections/{collection}", catalog.info),
    ("PUT", "/collections/{collection}", catalog.create),
    ("PATCH", "/collections/{collection}", catalog.change),
    ("DELETE", "/collections/{collection}", catalog.delete),
    ("GET", "/collections/{collection}/exists", catalog.exists),
    ("GET", "/collections/{collection}/aliases", catalog.aliases_of),
    ("PUT", "/collections/{collection}/vectors/{vector}", vector_names.create),
    ("DELETE", "/collections/{collection}/vectors/{vector}", vector_names.delete),
    ("PUT", "/collections/{collection}/index", indexes.create),
    ("DELETE", "/collections/{collection}/index/{field}", indexes.delete),
    ("POST", "/collections/{collection}/facet", points.facet),
    ("PUT", "/collections/{collection}/points", updates.upsert),
    ("POST", "/collections/{collection}/points", points.retrieve),
    ("GET", "/collections/{collection}/points/{id}", points.get),
    ("POST", "/collections/{collection}/points/scroll", points.scroll),
    ("POST", "/collections/{collection}/points/count", points.count),
    ("POST", "/collections/{collection}/points/delete", updates.delete),
    ("POST", "/collections/{collection}/points/batch", updates.batch),
    ("POST", "/collections/{collection}/points/payload", updates.set_payload),
    ("PUT", "/collections/{collection}/points/payload", updates.overwrite_payload),
    ("POST", "/collections/{collection}/points/payload/delete", updates.delete_payload),
    ("POST", "/collections/{collection}/points/payload/clear", updates.clear_payload),
    ("PUT", "/collections/{collection}/points/vectors", updates.update_vectors),
    ("POST", "/collections/{collection}/points/vectors/delete", updates.delete_vectors),
    ("POST", "/collections/{collection}/points/query", searches.query),
    ("POST", "/collections/{collection}/points/query/batch", searches.query_batch),
    ("POST", "/collections/{collection}/points/query/groups", groups.query_groups),
    ("POST", "/collections/{collection}/points/search", searches.search),
    ("POST", "/collections/{collection}/points/search/batch", searches.search_batch),
    ("POST", "/collections/{collection}/points/search/groups", groups.search_groups),
    ("POST", "/collections/{collection}/points/search/matrix/pairs", matrix_pairs),
    ("POST", "/collections/{collection}/points/search/matrix/offsets", matrix_offsets),
    ("POST", "/collections/{collection}/points/recommend", searches.recommend),
    ("POST", "/collections/{collection}/points/recommend/batch", searches.recommend_batch),
    ("POST", "/collections/{collection}/points/recommend/groups", groups.recommend_groups),
    ("POST", "/collections/{collection}/points/discover", searches.discover),
    ("POST", "/collections/{collection}/points/discover/batch", searches.discover_batch),
)
_ROUTES = tuple((method, tuple(path.split("/")[1:]), verb) for method, path, verb in _TABLE)


def normalised(raw_path: str) -> str:
    """The path as actix's `NormalizePath::trim` leaves it: `//` merged, no `/` at the end, `/` for nothing."""
    return re.sub("/+", "/", raw_path).rstrip("/") or "/"


def find_verb(method: str, raw_path: str) -> tuple[Verb, dict[str, str]] | None:
    """The verb and its path parameters, percent-decoded after splitting so that `%2F` stays inside a name."""
    parts = normalised(raw_path).split("/")[1:]
    for known, pattern, verb in _ROUTES:
        if known != method or len(pattern) != len(parts):
            continue
        values = _matched(pattern, parts)
        if values is not None:
            return verb, values
    return None


def _matched(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    values = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            values[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return values
