"""The ranked verbs, query and search, single and in batches; and the `query` member of one level: nearest with or without MMR, and fusion.

A variant of `query` is a row of `KINDS`. Readers take the table as an argument, so that a larger server can pass its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .collections import Call, Collection, Registry
from .engine import DEFAULT_VECTOR, Translated, edge
from .fields import (
    Body,
    Json,
    bad_format,
    bad_request,
    bad_value,
    is_point_id,
    items,
    limit_of,
    mapping,
    missing,
    not_served,
    number,
    offset_of,
    one_or_many,
    optional,
    optional_number,
    point_id,
    read,
    required,
    required_limit,
    text,
    unsigned,
)
from .replies import (
    excluding,
    read_filter,
    read_params,
    read_payload_selector,
    read_vector_selector,
    scored,
    vector_json,
)

_INFERENCE = ("text", "image", "object")


def is_document(value: Body) -> bool:
    """Whether it asks for inference: it has a model's name. Named vectors may be called `text` and `model` as well."""
    return any(name in value for name in _INFERENCE) and isinstance(value.get("model"), str)


def read_vector(value: Json, *, expected: str = "VectorInput") -> Any:
    """`[x, ..]` (dense), `{"indices": [..], "values": [..]}` (sparse) or `[[x, ..], ..]` (multivector).

    `expected`: the name of the type in the error.
    """
    if isinstance(value, list) and _is_of_numbers(value):
        return value
    if isinstance(value, dict) and "indices" in value:
        indices, values = items(value["indices"]), items(required(value, "values"))
        if not _are_numbers(values):
            raise bad_format(f"data did not match any variant of untagged enum {expected}")
        if len(indices) != len(values):
            raise bad_value("values", "must be the same length as indices")
        if len(set(indices)) != len(indices):
            raise bad_value("indices", "must be unique")
        return edge().SparseVector(indices, values)
    if isinstance(value, dict) and is_document(value):
        raise not_served("inference; send vectors")
    raise bad_format(f"data did not match any variant of untagged enum {expected}")


def _is_of_numbers(value: list[Json]) -> bool:
    """Whether it is one row of numbers or several. NaN and infinity, which gRPC can carry, are numbers."""
    if value and isinstance(value[0], list):
        return all(isinstance(row, list) and _are_numbers(row) for row in value)
    return _are_numbers(value)


def _are_numbers(row: list[Json]) -> bool:
    """Neither null nor true is a number."""
    return {*map(type, row)} <= {int, float}


def read_vectors(value: Json) -> Any:
    """The vectors of a point to store: one unnamed, or an object of named ones."""
    if value is None:
        return {}
    if isinstance(value, dict) and not is_document(value):
        return {name: read_vector(vector, expected="VectorStruct") for name, vector in value.items()}
    return read_vector(value, expected="VectorStruct")


@dataclass(frozen=True, slots=True)
class Source:
    """Where ids in one query level are looked up."""

    collection: Collection
    vector: str

    def resolve(self, value: Json) -> Any:
        """An input is a vector, or the id of a point with one."""
        if not is_point_id(value):
            return read_vector(value)
        identifier = point_id(value)
        records = self.collection.shard.retrieve([identifier], False, [self.vector])
        if not records:
            raise missing(f"No point with id {identifier} found")
        stored = records[0].vector
        if isinstance(stored, dict):
            stored = stored.get(self.vector)
        if stored is None:
            raise missing(f'Vector with name "{self.vector}" for point not found')
        return stored


def read_source(body: Body, searched: Collection, find: Callable[[str], Collection]) -> Source:
    """From `lookup_from`; by default the searched collection and vector."""
    using = vector_name(body)
    lookup = read(body, "lookup_from")
    if lookup is None:
        return Source(searched, using)
    where = mapping(lookup)
    named = optional(read(where, "vector"), text)
    name = text(required(where, "collection"))
    collection = searched if name == searched.name else find(name)
    return Source(collection, using if named is None else named)


def vector_name(body: Body) -> str:
    using = optional(read(body, "using"), text)
    return DEFAULT_VECTOR if using is None else using


@dataclass(frozen=True, slots=True)
class Level:
    body: Body
    source: Source
    limit: int

    @property
    def using(self) -> str:
        return vector_name(self.body)


@dataclass(frozen=True, slots=True)
class Kind:
    """A variant of `query`. `read`: makes the engine's query. `inputs`: the values that may be ids of points."""

    read: Callable[[Json, Level], Any]
    inputs: Callable[[Json], list[Json]]


Kinds = Mapping[str, Kind]

# Of the real server; the embedded one has some of them.
_TAGS = (
    *("nearest", "recommend", "discover", "context", "relevance_feedback"),
    *("order_by", "fusion", "rrf", "formula", "sample"),
)


def tag_of(query: Json) -> str | None:
    """`nearest` for a bare vector input, None for no query."""
    if query is None:
        return None
    if isinstance(query, dict):
        return next((tag for tag in _TAGS if tag in query), "nearest")
    return "nearest"


def referenced_ids(query: Json, kinds: Kinds) -> list[int | str]:
    """The ids in a query; the response omits these points."""
    kind = _kind_of(query, kinds)
    return [] if kind is None else [point_id(value) for value in kind.inputs(query) if is_point_id(value)]


def read_query(level: Level, kinds: Kinds) -> Any:
    """None without a query. Raises the 501 for a variant that is not in `kinds`."""
    query = read(level.body, "query")
    kind = _kind_of(query, kinds)
    return None if kind is None else kind.read(query, level)


def _kind_of(query: Json, kinds: Kinds) -> Kind | None:
    tag = tag_of(query)
    if tag is not None and tag not in kinds:
        raise not_served(f"a query of the kind `{tag}`")
    return None if tag is None else kinds[tag]


_MOST_MMR_CANDIDATES = 16_384
_MMR_LAMBDA = 0.5
_RRF_K = 2


def _nearest_to(query: Json) -> list[Json]:
    return [query["nearest"] if isinstance(query, dict) and "nearest" in query else query]


def _nearest(query: Json, level: Level) -> Any:
    engine, using = edge(), level.using
    vector = level.source.resolve(_nearest_to(query)[0])
    if not isinstance(query, dict) or "nearest" not in query or query.get("mmr") is None:
        return engine.Query.Nearest(vector, using)
    mmr = mapping(query["mmr"])
    diversity = optional_number(mmr, "diversity")
    if diversity is not None and not 0 <= diversity <= 1:
        raise bad_value("query.mmr.diversity", f"value {diversity} invalid, must be from 0.0 to 1.0")
    candidates = mmr.get("candidates_limit")
    most = level.limit if candidates is None else unsigned(candidates)
    if candidates is not None and most > _MOST_MMR_CANDIDATES:
        raise bad_value(
            "query.mmr.candidates_limit", f"value {most} invalid, must be {_MOST_MMR_CANDIDATES} or smaller"
        )
    return engine.Mmr(vector, _MMR_LAMBDA if diversity is None else 1 - diversity, most, using)


def _no_inputs(_query: Json) -> list[Json]:
    return []


def _fusion(query: Json, _level: Level) -> Any:
    fusion = edge().Fusion
    if "rrf" in query:
        body = mapping(query["rrf"])
        k = optional(body.get("k"), unsigned)
        weights = optional(body.get("weights"), lambda value: [number(item) for item in items(value)])
        return fusion.Rrf(_RRF_K if k is None else k, weights)
    match query["fusion"]:
        case "rrf":
            return fusion.Rrf(_RRF_K)
        case "dbsf":
            return fusion.Dbsf()
    raise bad_format(f"unknown variant `{query['fusion']}`, expected `rrf` or `dbsf`")


KINDS: Kinds = {
    "nearest": Kind(_nearest, _nearest_to),
    "fusion": Kind(_fusion, _no_inputs),
    "rrf": Kind(_fusion, _no_inputs),
}


# Members of a `search` with the same meaning in a `query`.
SHARED = (
    *("filter", "params", "limit", "top", "offset"),
    *("with_payload", "with_vector", "with_vectors", "score_threshold", "shard_key"),
)


def from_search(body: Body) -> dict[str, Json]:
    """A `search` as a `query`. Its vector is bare or `{"name", "vector"}`."""
    vector = required(body, "vector")
    shared = {name: body[name] for name in SHARED if name in body}
    if isinstance(vector, dict):
        return shared | {"query": {"nearest": required(vector, "vector")}, "using": text(required(vector, "name"))}
    return shared | {"query": {"nearest": vector}}


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


def read_search(body: Body, collection: Collection, find: Find, *, kinds: Kinds, is_legacy: bool = False) -> Search:
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
        ids_here = [] if is_elsewhere else referenced_ids(read(body, "query"), self.kinds)
        nested = [self.named_ids(mapping(item)) for item in one_or_many(body.get("prefetch"))]
        return [*ids_here, *(identifier for ids in nested for identifier in ids)]

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


def query(registry: Registry, call: Call, *, kinds: Kinds) -> Json:
    return {"points": ranked(read_search(call.object(), call.collection(registry), registry.find, kinds=kinds))}


def query_batch(registry: Registry, call: Call, *, kinds: Kinds) -> Json:
    collection = call.collection(registry)
    searches = [read_search(body, collection, registry.find, kinds=kinds) for body in batch(call)]
    return [{"points": points} for points in ranked_batch(collection, searches)]


def batch(call: Call) -> list[Body]:
    return [mapping(item) for item in items(required(call.object(), "searches"))]


def ranked(search: Search) -> list[dict[str, Json]]:
    return _as_page(search, search.collection.shard.query(search.request))


def ranked_batch(collection: Collection, searches: Sequence[Search]) -> Iterator[list[dict[str, Json]]]:
    """What `ranked` answers of each. All are of this collection."""
    results = collection.shard.query_batch([search.request for search in searches])
    return map(_as_page, searches, results)


def _as_page(search: Search, points: list[Any]) -> list[dict[str, Json]]:
    if not search.brings_vectors:
        return [scored(point) for point in points]
    return _with_selected_vectors(search, points)


def _with_selected_vectors(search: Search, points: list[Any]) -> list[dict[str, Json]]:
    """Drops vectors that the engine added for its own use, and fetches the selected ones."""
    results = [scored(point, with_vector=False) for point in points]
    if search.with_vector is False:
        return results
    records = search.collection.shard.retrieve([point.id for point in points], False, search.with_vector)
    return [point | {"vector": vector_json(record.vector)} for point, record in zip(results, records, strict=True)]
