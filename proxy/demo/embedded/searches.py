"""The ranked verbs: query and search, single and in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vecsieve.proxy.demo.embedded.collections import Call, Collection, Registry
from vecsieve.proxy.demo.embedded.engine import Translated, edge
from vecsieve.proxy.demo.embedded.fields import (
    Body,
    Json,
    bad_request,
    items,
    limit_of,
    mapping,
    offset_of,
    one_or_many,
    optional_number,
    read,
    required,
    required_limit,
    text,
)
from vecsieve.proxy.demo.embedded.filters import excluding, read_filter
from vecsieve.proxy.demo.embedded.queries import (
    KINDS,
    Kinds,
    Level,
    read_query,
    read_source,
    referenced_ids,
    tag_of,
    vector_name,
)
from vecsieve.proxy.demo.embedded.replies import (
    read_params,
    read_payload_selector,
    read_vector_selector,
    scored,
    shown_vector,
)

# Members of a `search` with the same meaning in a `query`.
SHARED = (
    *("filter", "params", "limit", "top", "offset"),
    *("with_payload", "with_vector", "with_vectors", "score_threshold", "shard_key"),
)


def from_search(body: Body) -> dict[str, Json]:
    """A `search` as a `query`. Its vector is bare or `{"name", "vector"}`."""
    vector = required(body, "vector")
    said = {name: body[name] for name in SHARED if name in body}
    if isinstance(vector, dict):
        return said | {"query": {"nearest": required(vector, "vector")}, "using": text(required(vector, "name"))}
    return said | {"query": {"nearest": vector}}


DEFAULT_LIMIT = 10
_MOST_LEVELS = 64

Find = Callable[[str], Collection]


@dataclass(frozen=True, slots=True)
class Search:
    """One search for the engine. `brings_vectors`: the engine returns vectors whatever was selected (MMR)."""

    collection: Collection
    request: Any
    with_vector: bool | list[str]
    brings_vectors: bool


def read_search(
    body: Body, collection: Collection, find: Find, *, kinds: Kinds = KINDS, is_legacy: bool = False
) -> Search:
    """Raises RefusalError for what the server would refuse. A legacy body must have `limit`, or `top`."""
    limit = required_limit(body, "limit", "top") if is_legacy else limit_of(body, "limit", default=DEFAULT_LIMIT)
    levels = _Levels(collection, find, kinds)
    _check_level(body)
    with_vector = read_vector_selector(read(body, "with_vector", "with_vectors"))
    query = read(body, "query")
    with Translated():
        request = edge().QueryRequest(
            limit=limit,
            offset=offset_of(body),
            query=levels.query(body, limit),
            prefetches=levels.prefetches(body),
            with_vector=with_vector,
            with_payload=read_payload_selector(read(body, "with_payload"), default=False),
            filter=excluding(levels.named_ids(body), read(body, "filter")),
            score_threshold=optional_number(body, "score_threshold"),
            params=read_params(read(body, "params")),
        )
    return Search(collection, request, with_vector, isinstance(query, dict) and query.get("mmr") is not None)


@dataclass(frozen=True, slots=True)
class _Levels:
    collection: Collection
    find: Find
    kinds: Kinds

    def query(self, body: Body, limit: int) -> Any:
        return read_query(Level(body, read_source(body, self.collection, self.find), limit), self.kinds)

    def prefetches(self, body: Body, level: int = 1) -> list[Any]:
        if level > _MOST_LEVELS:
            raise bad_request(f"prefetches depth {level} exceeds max depth {_MOST_LEVELS}")
        return [self._prefetch(mapping(item), level) for item in one_or_many(body.get("prefetch"))]

    def named_ids(self, body: Body) -> list[int | str]:
        """Ids at any level that are looked up in this collection: the root omits these points."""
        lookup = read(body, "lookup_from")
        is_elsewhere = lookup is not None and text(mapping(lookup).get("collection")) != self.collection.name
        own = [] if is_elsewhere else referenced_ids(read(body, "query"), self.kinds)
        nested = [self.named_ids(mapping(item)) for item in one_or_many(body.get("prefetch"))]
        return [*own, *(identifier for ids in nested for identifier in ids)]

    def _prefetch(self, body: Body, level: int) -> Any:
        limit = limit_of(body, "limit", default=DEFAULT_LIMIT)
        _check_level(body)
        return edge().Prefetch(
            limit=limit,
            query=self.query(body, limit),
            prefetches=self.prefetches(body, level + 1),
            params=read_params(read(body, "params")),
            filter=read_filter(read(body, "filter")),
            score_threshold=optional_number(body, "score_threshold"),
        )


def _check_level(body: Body) -> None:
    tag = tag_of(read(body, "query"))
    if tag is None and one_or_many(body.get("prefetch")):
        raise bad_request("A query is needed to merge the prefetches. Can't have prefetches without defining a query.")
    if tag is None and read(body, "score_threshold") is not None:
        raise bad_request(
            "A query is needed to use the score_threshold. Can't have score_threshold without defining a query."
        )
    if tag in {"fusion", "rrf"} and vector_name(body):
        raise bad_request("Fusion queries cannot be combined with the 'using' field.")
    if read(body, "shard_key") is not None:
        raise bad_request(f"cannot specify shard key {body['shard_key']} on collection with auto sharding")


def query(registry: Registry, call: Call, *, kinds: Kinds = KINDS) -> Json:
    return {"points": ranked(read_search(call.object(), call.collection(registry), registry.find, kinds=kinds))}


def query_batch(registry: Registry, call: Call, *, kinds: Kinds = KINDS) -> Json:
    collection = call.collection(registry)
    searches = [read_search(body, collection, registry.find, kinds=kinds) for body in batch(call)]
    return [{"points": points} for points in ranked_batch(collection, searches)]


def search(registry: Registry, call: Call) -> Json:
    body = from_search(call.object())
    return ranked(read_search(body, call.collection(registry), registry.find, is_legacy=True))


def search_batch(registry: Registry, call: Call) -> Json:
    collection = call.collection(registry)
    bodies = [from_search(body) for body in batch(call)]
    searches = [read_search(body, collection, registry.find, is_legacy=True) for body in bodies]
    return list(ranked_batch(collection, searches))


def batch(call: Call) -> list[Body]:
    return [mapping(item) for item in items(required(call.object(), "searches"))]


def ranked(search: Search) -> list[dict[str, Json]]:
    return _shown(search, search.collection.shard.query(search.request))


def ranked_batch(collection: Collection, searches: Sequence[Search]) -> Iterator[list[dict[str, Json]]]:
    """What `ranked` answers of each. All are of this collection."""
    found = collection.shard.query_batch([search.request for search in searches])
    return map(_shown, searches, found)


def _shown(search: Search, points: list[Any]) -> list[dict[str, Json]]:
    if not search.brings_vectors:
        return [scored(point) for point in points]
    return _with_selected_vectors(search, points)


def _with_selected_vectors(search: Search, points: list[Any]) -> list[dict[str, Json]]:
    """Drops vectors that the engine added for its own use, and fetches the selected ones."""
    shown = [scored(point, with_vector=False) for point in points]
    if search.with_vector is False:
        return shown
    records = search.collection.shard.retrieve([point.id for point in points], False, search.with_vector)
    return [point | {"vector": shown_vector(record.vector)} for point, record in zip(shown, records, strict=True)]
