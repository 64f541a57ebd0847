"""A model of Weaviate's searches, small and exact, after its source (1.39): what is asked, in what order, how it is answered.

It knows collections with an unnamed vector, with named ones, and tenants; cosine distances; keywords as words in common.
Of filters it knows AND, EQUAL of a text or an integer, and CONTAINS_ANY of texts. What else it leaves out (references, modules) it
passes over or refuses; it is no database.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.weaviate.messages import message_type, packed

QUERY_DEFAULTS_LIMIT = 10
QUERY_MAXIMUM_RESULTS = 10_000
QUERY_HYBRID_MAXIMUM_RESULTS = 100
TOOK = 0.25  # so that two replies to one message are one


EQUAL, AND, CONTAINS_ANY = 1, 7, 12  # operators of filters


class RefusalError(Exception):
    """What the server ends a call with, always under the code UNKNOWN."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One object. ``vector``: the unnamed one; None where it has none."""

    id: str
    properties: Mapping[str, Any]
    vector: Sequence[float] | None = None
    vectors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tenant: str = ""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A result in the making. ``number``: its distance, or its score; None where the search has neither."""

    stored: Stored
    number: float | None = None


@dataclass(kw_only=True)
class Collection:
    """``named``: its named vectors; none: it has an unnamed one. ``default_limit``: what its operator chose."""

    name: str
    properties: tuple[str, ...]
    named: tuple[str, ...] = ()
    objects: list[Stored] = field(default_factory=list)
    default_limit: int = QUERY_DEFAULTS_LIMIT

    def store(self, one: Stored) -> None:
        """In place of any of the same id and tenant."""
        self.objects = [stored for stored in self.objects if (stored.id, stored.tenant) != (one.id, one.tenant)]
        self.objects.append(one)

    def answer(self, raw: bytes) -> bytes:
        """The reply to a SearchRequest. Raises RefusalError."""
        request = message_type("SearchRequest").FromString(raw)
        limit = request.limit or self.default_limit
        if request.offset + limit > QUERY_MAXIMUM_RESULTS:
            raise RefusalError(
                "query maximum results exceeded: the total limit calculated from the provided offset "
                f"'{request.offset}' and limit '{limit}' exceeds the configured value for QUERY_MAXIMUM_RESULTS "
                f"'{QUERY_MAXIMUM_RESULTS}'."
            )
        ranked = self.ranked(request)[request.offset : request.offset + limit]
        return bytes(self.reply(ranked, request).SerializeToString(deterministic=True))

    def reply(self, hits: Sequence[Hit], request: Any) -> Any:
        """The SearchReply of these hits. Raises RefusalError."""
        reply = message_type("SearchReply")(took=TOOK, generative_grouped_result="")
        names = self._visible(request)
        for hit in hits:
            result = reply.results.add()
            result.properties.target_collection = self.name
            for name in names:
                spell(result.properties.non_ref_props.fields[name], hit.stored.properties.get(name))
            result.metadata.SetInParent()
            self._describe(result.metadata, hit, request)
        return reply

    def _visible(self, request: Any) -> tuple[str, ...]:
        properties = request.properties
        if not request.HasField("properties") or properties.return_all_nonref_properties:
            return self.properties
        names = tuple(name[:1].lower() + name[1:] for name in properties.non_ref_properties)
        for name in names:
            if name not in self.properties:
                raise RefusalError(f"no such prop with name '{name}' found in class '{self.name}' in the schema.")
        return names

    def _describe(self, metadata: Any, hit: Hit, request: Any) -> None:
        requested, stored = request.metadata, hit.stored
        if requested.uuid:
            metadata.id, metadata.id_as_bytes = stored.id, uuid.UUID(stored.id).bytes
        if requested.vector and stored.vector is not None:
            metadata.vector.extend(stored.vector)
            metadata.vector_bytes = packed(stored.vector)
        for name in self.named if requested.vector and self.named else requested.vectors:
            if name in stored.vectors:
                metadata.vectors.add(name=name, vector_bytes=packed(stored.vectors[name]), type=1)
        is_near = is_measured(request)
        if requested.distance and is_near and hit.number is not None:
            metadata.distance, metadata.distance_present = hit.number, True
        if requested.certainty and is_near and hit.number is not None:
            metadata.certainty, metadata.certainty_present = 1 - hit.number / 2, True
        if requested.score:
            metadata.score = 0.0 if is_near or hit.number is None else hit.number
            metadata.score_present = True
        if requested.creation_time_unix:
            metadata.creation_time_unix, metadata.creation_time_unix_present = 1_700_000_000_000, True

    def ranked(self, request: Any) -> list[Hit]:
        """The hits of a search, the best first."""
        those = [stored for stored in self.objects if stored.tenant == request.tenant]
        if request.HasField("filters"):
            those = [stored for stored in those if passes(stored, request.filters)]
        if request.HasField("near_vector"):
            return self._near(
                those, query_of(request.near_vector), self._target(request.near_vector), request.near_vector
            )
        if request.HasField("near_object"):
            target = self._target(request.near_object)
            matches = [stored for stored in those if stored.id == request.near_object.id]
            if not matches:
                raise RefusalError("vector not found")
            return self._near(those, vector_of(matches[0], target), target, request.near_object)
        if request.HasField("hybrid_search"):
            return self._hybrid(those, request)
        if request.HasField("bm25_search"):
            return by_words(those, request.bm25_search.query)
        if request.HasField("near_text"):
            raise RefusalError("could not vectorize input: no vectorizer module configured")
        return [Hit(stored=stored) for stored in those]

    def _target(self, near: Any) -> str:
        names = list(near.targets.target_vectors if near.HasField("targets") else near.target_vectors)
        for name in names:
            if name not in self.named:
                available = " ".join(self.named)
                raise RefusalError(
                    f"extract target vectors: class {self.name} does not have named vector {name} configured. "
                    f"Available named vectors [{available}]"
                )
        if not names and len(self.named) > 1:
            raise RefusalError(f"class {self.name} has multiple vectors, but no target vectors were provided")
        first: str = (names or list(self.named) or [""])[0]
        return first

    def _near(self, those: Sequence[Stored], query: Any, target: str, near: Any) -> list[Hit]:
        hits = []
        for stored in those:
            vector = vector_of(stored, target)
            if vector is None:
                continue
            if len(vector) != len(query):
                raise RefusalError(f"vector lengths don't match: {len(vector)} vs {len(query)}")
            hits.append(Hit(stored=stored, number=cosine(query, vector)))
        hits.sort(key=lambda hit: hit.number or 0.0)
        bound = near.distance if near.HasField("distance") else None
        return [hit for hit in hits if bound is None or (hit.number or 0.0) <= bound]

    def _hybrid(self, those: Sequence[Stored], request: Any) -> list[Hit]:
        """Relative score fusion, each part as long as the server has it."""
        search = request.hybrid_search
        depth = max(QUERY_HYBRID_MAXIMUM_RESULTS, request.limit or self.default_limit)
        vectors = list(search.vectors)
        near = []
        if vectors:
            near = self._near(
                those, np.frombuffer(vectors[0].vector_bytes, "<f4"), self._target(search), search.near_vector
            )
        parts = [
            (1 - search.alpha, by_words(those, search.query)[:depth]),
            (search.alpha, [Hit(stored=hit.stored, number=1 - (hit.number or 0.0)) for hit in near[:depth]]),
        ]
        fused: dict[str, float] = {}
        for weight, hits in parts:
            numbers = [hit.number or 0.0 for hit in hits]
            low, high = min(numbers, default=0.0), max(numbers, default=0.0)
            for hit, number in zip(hits, numbers, strict=True):
                share = 1.0 if high == low else (number - low) / (high - low)
                fused[hit.stored.id] = fused.get(hit.stored.id, 0.0) + weight * share
        by_id = {stored.id: stored for stored in those}
        hits = [Hit(stored=by_id[identifier], number=float(np.float32(score))) for identifier, score in fused.items()]
        return sorted(hits, key=lambda hit: -(hit.number or 0.0))


def is_measured(request: Any) -> bool:
    """Whether a request is ranked by distance."""
    return any(request.HasField(name) for name in ("near_vector", "near_object", "near_text", "near_image"))


def vector_of(stored: Stored, target: str) -> Sequence[float] | None:
    """An object's vector of that name."""
    return stored.vectors.get(target) if target else stored.vector


def query_of(near: Any) -> Any:
    """The vector of a NearVector, in the order of spellings that the server has."""
    if near.vectors:
        return np.frombuffer(near.vectors[0].vector_bytes, "<f4")
    if near.vector_bytes:
        return np.frombuffer(near.vector_bytes, "<f4")
    if near.vector:
        return np.array(near.vector, dtype=np.float32)
    if near.vector_for_targets:
        only = near.vector_for_targets[0]
        return np.frombuffer(only.vectors[0].vector_bytes if only.vectors else only.vector_bytes, "<f4")
    raise RefusalError("near_vector: vector is required")


def cosine(one: Any, other: Any) -> float:
    """A distance, as float32."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.float32(1.0 - (float(a @ b) / lengths if lengths else 0.0)))


def by_words(those: Sequence[Stored], query: str) -> list[Hit]:
    """Keywords: the share of the query's words that a text has."""
    words = set(query.lower().split())
    hits = []
    for stored in those:
        vocabulary = {
            word for value in stored.properties.values() if isinstance(value, str) for word in value.lower().split()
        }
        if common := words & vocabulary:
            hits.append(Hit(stored=stored, number=float(np.float32(len(common) / max(len(words), 1)))))
    return sorted(hits, key=lambda hit: -(hit.number or 0.0))


def spell(value: Any, thing: Any) -> None:
    """Write a property's value."""
    if isinstance(thing, dict):
        value.object_value.SetInParent()
        for name, inner in thing.items():
            spell(value.object_value.fields[name], inner)
    elif isinstance(thing, list):
        value.list_value.SetInParent()
        if thing:
            _LISTS[type(thing[0])](value.list_value, thing)
    else:
        setattr(value, _KINDS[type(thing)], 0 if thing is None else thing)


_KINDS: Mapping[type, str] = {
    bool: "bool_value", int: "int_value", float: "number_value", str: "text_value", type(None): "null_value",
}  # fmt: skip
_LISTS: Mapping[type, Callable[[Any, list[Any]], None]] = {
    str: lambda value, things: value.text_values.values.extend(things),
    bool: lambda value, things: value.bool_values.values.extend(things),
    int: lambda value, things: setattr(value.int_values, "values", np.array(things, "<i8").tobytes()),
    float: lambda value, things: setattr(value.number_values, "values", np.array(things, "<f8").tobytes()),
}


def passes(stored: Stored, filters: Any) -> bool:
    """Whether an object passes a filter. Raises RefusalError."""
    if filters.operator == AND:
        return all(passes(stored, part) for part in filters.filters)
    name = filters.target.property
    value = stored.id if name == "_id" else stored.properties.get(name)
    if filters.operator == CONTAINS_ANY:
        return value in filters.value_text_array.values
    if filters.operator == EQUAL:
        return bool(value == (filters.value_text if filters.HasField("value_text") else filters.value_int))
    raise RefusalError(f"unknown operator {filters.operator}")
