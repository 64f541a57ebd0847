"""Filters, selectors and search parameters, for the engine; points in responses, in the server's field order.

`orjson` with OPT_SERIALIZE_NUMPY writes a float32 as Rust does (`0.98058069`); a Python float would have more digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from .engine import Translated, edge
from .fields import (
    Body,
    Json,
    bad_format,
    boolean,
    items,
    mapping,
    number,
    one_or_many,
    optional,
    point_ids,
    required,
    text,
    texts,
    unsigned,
)

_CLAUSES = ("must", "should", "must_not", "min_should")
_UNMATCHED = "data did not match any variant of untagged enum Condition"


def read_filter(value: Json) -> Any:
    if value is None:
        return None
    body = mapping(value, what="struct Filter")
    with Translated():
        return edge().Filter(
            must=_conditions(body, "must"),
            should=_conditions(body, "should"),
            must_not=_conditions(body, "must_not"),
            min_should=_min_should(body.get("min_should")),
        )


def excluding(ids: list[int | str], value: Json) -> Any:
    if not ids:
        return read_filter(value)
    engine = edge()
    given = read_filter(value)
    with Translated():
        return engine.Filter(
            must=None if given is None else [given], must_not=[engine.HasIdCondition(point_ids=set(ids))]
        )


def _conditions(body: Body, clause: str) -> list[Any] | None:
    return optional(body.get(clause), lambda value: [read_condition(item) for item in one_or_many(value)])


def _min_should(value: Json) -> Any:
    if value is None:
        return None
    body = mapping(value)
    conditions = [read_condition(item) for item in items(required(body, "conditions"))]
    return edge().MinShould(conditions, unsigned(required(body, "min_count")))


def read_condition(value: Json) -> Any:
    body, engine = mapping(value), edge()
    readers: dict[str, Callable[[Json], Any]] = {
        "key": lambda _: _field(body),
        "has_id": lambda value: engine.HasIdCondition(set(point_ids(value))),
        "has_vector": lambda value: engine.HasVectorCondition(text(value)),
        "is_empty": lambda value: engine.IsEmptyCondition(_key(mapping(value))),
        "is_null": lambda value: engine.IsNullCondition(_key(mapping(value))),
        "nested": lambda value: engine.NestedCondition(_key(mapping(value)), read_filter(required(value, "filter"))),
        **{clause: lambda _: read_filter(body) for clause in _CLAUSES},
    }
    named = next((name for name in readers if name in body), None)
    if named is not None:
        return readers[named](body[named])
    if not body:
        return read_filter(body)
    raise bad_format(_UNMATCHED)


def _field(body: Body) -> Any:
    readers: dict[str, Callable[[Json], Any]] = {
        "match": _match,
        "range": _range,
        "geo_bounding_box": _box,
        "geo_radius": _radius,
        "geo_polygon": _polygon,
        "values_count": _values_count,
        "is_empty": boolean,
        "is_null": boolean,
    }
    tests = {name: read(body[name]) for name, read in readers.items() if body.get(name) is not None}
    if not tests:
        raise bad_format(_UNMATCHED)
    return edge().FieldCondition(_key(body), **tests)


def _key(body: Body) -> str:
    return text(required(body, "key"))


def _match(value: Json) -> Any:
    body, engine = mapping(value), edge()
    if "value" in body:
        value = body["value"]
        # qdrant-edge-py 0.9.0 tries int before bool, and Python's True is an int; numpy's is not.
        return engine.MatchValue(np.bool_(value) if isinstance(value, bool) else value)
    if "any" in body:
        return engine.MatchAny(items(body["any"]))
    if "except" in body:
        return engine.MatchExcept(items(body["except"]))
    for name, kind in (
        ("text", engine.MatchText),
        ("text_any", engine.MatchTextAny),
        ("phrase", engine.MatchPhrase),
        ("prefix", engine.MatchPrefix),
        ("substring", engine.MatchSubstring),
    ):
        if name in body:
            return kind(text(body[name]))
    raise bad_format(_UNMATCHED)


def _range(value: Json) -> Any:
    bounds = _bounds(value)
    if any(isinstance(bound, str) for bound in bounds.values()):
        return edge().RangeDateTime(**{name: text(bound) for name, bound in bounds.items()})
    return edge().RangeFloat(**{name: number(bound, expected="f64") for name, bound in bounds.items()})


def _values_count(value: Json) -> Any:
    return edge().ValuesCount(**{name: unsigned(bound) for name, bound in _bounds(value).items()})


def _bounds(value: Json) -> dict[str, Json]:
    body = mapping(value)
    return {name: body[name] for name in ("gte", "gt", "lte", "lt") if body.get(name) is not None}


def geo_point(value: Json) -> Any:
    body = mapping(value)
    return edge().GeoPoint(number(required(body, "lon"), expected="f64"), number(required(body, "lat"), expected="f64"))


def _box(value: Json) -> Any:
    body = mapping(value)
    return edge().GeoBoundingBox(geo_point(required(body, "top_left")), geo_point(required(body, "bottom_right")))


def _radius(value: Json) -> Any:
    body = mapping(value)
    return edge().GeoRadius(geo_point(required(body, "center")), number(required(body, "radius"), expected="f64"))


def _polygon(value: Json) -> Any:
    body = mapping(value)
    interiors = optional(body.get("interiors"), lambda rings: [_ring(ring) for ring in items(rings)])
    return edge().GeoPolygon(_ring(required(body, "exterior")), interiors)


def _ring(value: Json) -> list[Any]:
    return [geo_point(point) for point in items(required(mapping(value), "points"))]


def scored(point: Any, *, with_vector: bool = True) -> dict[str, Json]:
    members: dict[str, Json] = {"id": id_json(point.id), "version": point.version, "score": score_json(point)}
    return members | _body(point, with_vector=with_vector)


def score_json(point: Any) -> Json:
    """A number that is not finite becomes null, as the server writes it."""
    return np.float32(point.score)


def record(point: Any) -> dict[str, Json]:
    return {"id": id_json(point.id)} | _body(point, with_vector=True)


def id_json(identifier: Any) -> int | str:
    return identifier if isinstance(identifier, int) else str(identifier)


def vector_json(vector: Any) -> Json:
    if isinstance(vector, dict):
        return {name: vector_json(part) for name, part in vector.items()}
    if isinstance(vector, list):
        return np.asarray(vector, dtype=np.float32)
    return {"indices": vector.indices, "values": np.asarray(vector.values, dtype=np.float32)}


def dumps(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _body(point: Any, *, with_vector: bool) -> dict[str, Json]:
    members: dict[str, Json] = {}
    if point.payload is not None:
        members["payload"] = point.payload
    if with_vector and point.vector is not None:
        members["vector"] = vector_json(point.vector)
    if point.order_value is not None:
        members["order_value"] = point.order_value
    return members


def read_payload_selector(value: Json, *, default: bool) -> Any:
    """A boolean, a list of keys, `{"include": [..]}` or `{"exclude": [..]}`."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return texts(value)
    body, selector = mapping(value), edge().PayloadSelector
    with Translated():
        if "include" in body:
            return selector.Include(texts(body["include"]))
        if "exclude" in body:
            return selector.Exclude(texts(body["exclude"]))
    raise bad_format("data did not match any variant of untagged enum WithPayloadInterface")


def read_vector_selector(value: Json) -> bool | list[str]:
    """A boolean or a list of names; False when absent. With an empty list, vectors are `{}`."""
    if value is None:
        return False
    return value if isinstance(value, bool) else texts(value)


def read_params(value: Json) -> Any:
    if value is None:
        return None
    body, engine = mapping(value), edge()
    return engine.SearchParams(
        hnsw_ef=optional(body.get("hnsw_ef"), unsigned),
        exact=_flag(body.get("exact")),
        indexed_only=_flag(body.get("indexed_only")),
        quantization=optional(body.get("quantization"), _quantization),
        acorn=optional(body.get("acorn"), _acorn),
        idf=optional(body.get("idf"), lambda idf: engine.IdfParams(read_filter(mapping(idf).get("corpus")))),
    )


def _quantization(value: Json) -> Any:
    body = mapping(value)
    return edge().QuantizationSearchParams(
        ignore=_flag(body.get("ignore")),
        rescore=optional(body.get("rescore"), boolean),
        oversampling=optional(body.get("oversampling"), number),
    )


def _acorn(value: Json) -> Any:
    body = mapping(value)
    selectivity = optional(body.get("max_selectivity"), number)
    return edge().AcornSearchParams(enable=_flag(body.get("enable")), max_selectivity=selectivity)


def _flag(value: Json) -> bool:
    return optional(value, boolean) is True
