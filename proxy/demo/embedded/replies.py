"""Points in responses, in the server's field order; and the selectors of payloads, vectors and search parameters.

`orjson` with OPT_SERIALIZE_NUMPY writes a float32 as Rust does (`0.98058069`); a Python float would have more digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from vecsieve.proxy.demo.embedded.engine import Translated, edge
from vecsieve.proxy.demo.embedded.fields import (
    Json,
    bad_format,
    boolean,
    mapping,
    number,
    optional,
    texts,
    unsigned,
)
from vecsieve.proxy.demo.embedded.filters import read_filter


def scored(point: Any, *, with_vector: bool = True) -> dict[str, Json]:
    shown: dict[str, Json] = {"id": shown_id(point.id), "version": point.version, "score": shown_score(point)}
    return shown | _body(point, with_vector=with_vector)


def shown_score(point: Any) -> Json:
    """A number that is not finite becomes null, as the server writes it."""
    return np.float32(point.score)


def record(point: Any) -> dict[str, Json]:
    return {"id": shown_id(point.id)} | _body(point, with_vector=True)


def shown_id(identifier: Any) -> int | str:
    return identifier if isinstance(identifier, int) else str(identifier)


def shown_vector(vector: Any) -> Json:
    if isinstance(vector, dict):
        return {name: shown_vector(part) for name, part in vector.items()}
    if isinstance(vector, list):
        return np.asarray(vector, dtype=np.float32)
    return {"indices": vector.indices, "values": np.asarray(vector.values, dtype=np.float32)}


def dumps(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _body(point: Any, *, with_vector: bool) -> dict[str, Json]:
    shown: dict[str, Json] = {}
    if point.payload is not None:
        shown["payload"] = point.payload
    if with_vector and point.vector is not None:
        shown["vector"] = shown_vector(point.vector)
    if point.order_value is not None:
        shown["order_value"] = point.order_value
    return shown


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
