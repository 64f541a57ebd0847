"""The `query` member of one level as the engine's scoring query: nearest with MMR or without, and fusion.

A variant is a row of `KINDS`. The reader of a level takes the table as an argument: a server that knows more variants passes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vecsieve.proxy.demo.embedded.collections import Collection
from vecsieve.proxy.demo.embedded.configs import DEFAULT_VECTOR
from vecsieve.proxy.demo.embedded.engine import edge
from vecsieve.proxy.demo.embedded.errors import bad_format, bad_value, not_found, not_served
from vecsieve.proxy.demo.embedded.fields import (
    Body,
    Json,
    is_point_id,
    items,
    mapping,
    number,
    optional_number,
    point_id,
    read,
    required,
    text,
    unsigned,
)

# Vectors as they come in: written out, or named by the id of a point that has them.
#
# A vector in JSON is `[x, ..]` (dense), `{"indices": [..], "values": [..]}` (sparse) or `[[x, ..], ..]` (several).

_INFERENCE = ("text", "image", "object")


def is_document(value: Body) -> bool:
    """Whether it is to be embedded: it names a model. Vectors may be called `text` and `model` too, but then those are vectors."""
    return any(name in value for name in _INFERENCE) and isinstance(value.get("model"), str)


def read_vector(value: Json, *, expected: str = "VectorInput") -> Any:
    """The engine's form of one vector. `expected`: what the server calls it when it is none."""
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
    """Whether it is a row of numbers or several such rows. NaN and infinity, which gRPC can say and JSON cannot, are numbers."""
    if value and isinstance(value[0], list):
        return all(isinstance(row, list) and _are_numbers(row) for row in value)
    return _are_numbers(value)


def _are_numbers(row: list[Json]) -> bool:
    """Nothing but numbers: to the server neither null nor true is one."""
    return {*map(type, row)} <= {int, float}


def read_vectors(value: Json) -> Any:
    """The vectors of a point to be stored: one unnamed, or an object of named ones."""
    if value is None:
        return {}
    if isinstance(value, dict) and not is_document(value):
        return {name: read_vector(vector, expected="VectorStruct") for name, vector in value.items()}
    return read_vector(value, expected="VectorStruct")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the ids of one query level are looked up: a collection, and the name of the vector in it."""

    collection: Collection
    vector: str

    def resolve(self, value: Json) -> Any:
        """The engine's vector for an input: a vector as it is, an id as the vector of that point."""
        if not is_point_id(value):
            return read_vector(value)
        identifier = point_id(value)
        records = self.collection.shard.retrieve([identifier], False, [self.vector])
        if not records:
            raise not_found(f"No point with id {identifier} found")
        stored = records[0].vector
        if isinstance(stored, dict):
            stored = stored.get(self.vector)
        if stored is None:
            raise not_found(f'Vector with name "{self.vector}" for point not found')
        return stored


def read_source(body: Body, searched: Collection, find: Callable[[str], Collection]) -> Source:
    """`using` and `lookup_from` of one level: by default the searched collection and the searched vector."""
    using = vector_name(body)
    lookup = read(body, "lookup_from")
    if lookup is None:
        return Source(searched, using)
    where = mapping(lookup)
    named = read(where, "vector")
    name = text(required(where, "collection"))
    if name == searched.name:
        return Source(searched, using if named is None else text(named))
    return Source(find(name), using if named is None else text(named))


def vector_name(body: Body) -> str:
    """`using`, the unnamed vector when absent."""
    using = read(body, "using")
    return DEFAULT_VECTOR if using is None else text(using)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a query body: the whole body, where its ids are looked up, and its own limit."""

    body: Body
    source: Source
    limit: int

    @property
    def using(self) -> str:
        """The vector that is searched."""
        return vector_name(self.body)


@dataclass(frozen=True, slots=True)
class Kind:
    """A variant of `query`: how it becomes the engine's, and which values in it may be ids of points."""

    read: Callable[[Json, Level], Any]
    inputs: Callable[[Json], list[Json]]


Kinds = Mapping[str, Kind]
"""Variants by tag."""

_TAGS = (
    "nearest",
    "recommend",
    "discover",
    "context",
    "relevance_feedback",
    "order_by",
    "fusion",
    "rrf",
    "formula",
    "sample",
)
"""Of the real server, served here or not."""


def tag_of(query: Json) -> str | None:
    """Which variant it is: a tag, `nearest` for a bare vector input, None for no query."""
    if query is None:
        return None
    if isinstance(query, dict):
        return next((tag for tag in _TAGS if tag in query), "nearest")
    return "nearest"


def referenced_ids(query: Json, kinds: Kinds) -> list[int | str]:
    """The points a query names by id; the answer leaves them out."""
    kind = _kind_of(query, kinds)
    return [] if kind is None else [point_id(value) for value in kind.inputs(query) if is_point_id(value)]


def read_query(level: Level, kinds: Kinds) -> Any:
    """The engine's query of a level, None without one. Raises the 501 of a variant that is not among `kinds`."""
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
        k, weights = body.get("k"), body.get("weights")
        return fusion.Rrf(
            _RRF_K if k is None else unsigned(k), None if weights is None else [number(item) for item in items(weights)]
        )
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
