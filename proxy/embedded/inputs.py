"""Vectors as they come in: written out, or named by the id of a point that has them.

A vector in JSON is `[x, ..]` (dense), `{"indices": [..], "values": [..]}` (sparse) or `[[x, ..], ..]` (several).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vecsieve.proxy.embedded.configs import DEFAULT_VECTOR
from vecsieve.proxy.embedded.engine import edge
from vecsieve.proxy.embedded.errors import bad_format, bad_value, not_found, not_served
from vecsieve.proxy.embedded.fields import Body, Json, is_point_id, items, mapping, point_id, read, required, text
from vecsieve.proxy.embedded.registry import Collection

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
