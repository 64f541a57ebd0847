"""Points as they go out: the server's field order, absent fields absent, vectors in the shortest digits of float32.

`orjson` with OPT_SERIALIZE_NUMPY prints a float32 as Rust does (`0.98058069`), a Python float of the same value would not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from vecsieve.proxy.demo.embedded.engine import Translated, edge
from vecsieve.proxy.demo.embedded.errors import bad_format
from vecsieve.proxy.demo.embedded.fields import (
    Json,
    boolean,
    mapping,
    number,
    texts,
    unsigned,
)
from vecsieve.proxy.demo.embedded.filters import read_filter


def scored(point: Any, *, with_vector: bool = True) -> dict[str, Json]:
    """ScoredPoint: id, version, score, payload?, vector?, order_value?."""
    shown: dict[str, Json] = {"id": shown_id(point.id), "version": point.version, "score": shown_score(point)}
    return shown | _body(point, with_vector=with_vector)


def shown_score(point: Any) -> Json:
    """A float32; JSON has no word for one that is not finite, and the server writes null."""
    return np.float32(point.score)


def record(point: Any) -> dict[str, Json]:
    """Record: id, payload?, vector?, order_value?."""
    return {"id": shown_id(point.id)} | _body(point, with_vector=True)


def shown_id(identifier: Any) -> int | str:
    """A number, or a UUID in its canonical spelling."""
    return identifier if isinstance(identifier, int) else str(identifier)


def shown_vector(vector: Any) -> Json:
    """Bare, named, sparse or of several rows: the shape is the engine's, per point."""
    if isinstance(vector, dict):
        return {name: shown_vector(part) for name, part in vector.items()}
    if isinstance(vector, list):
        return np.asarray(vector, dtype=np.float32)
    return {"indices": vector.indices, "values": np.asarray(vector.values, dtype=np.float32)}


def dumps(value: object) -> bytes:
    """Compact JSON, numpy included."""
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
    """A boolean or a list of names; False when absent. An empty list is a selector too: it answers `{}`."""
    if value is None:
        return False
    return value if isinstance(value, bool) else texts(value)


def read_params(value: Json) -> Any:
    """Search parameters: `hnsw_ef`, `exact`, `indexed_only`, `quantization`, `acorn`."""
    if value is None:
        return None
    body, engine = mapping(value), edge()
    ef, quantization, acorn = body.get("hnsw_ef"), body.get("quantization"), body.get("acorn")
    return engine.SearchParams(
        hnsw_ef=None if ef is None else unsigned(ef),
        exact=_flag(body.get("exact")),
        indexed_only=_flag(body.get("indexed_only")),
        quantization=None if quantization is None else _quantization(quantization),
        acorn=None if acorn is None else _acorn(acorn),
        idf=None if body.get("idf") is None else engine.IdfParams(read_filter(mapping(body["idf"]).get("corpus"))),
    )


def _quantization(value: Json) -> Any:
    body = mapping(value)
    rescore, oversampling = body.get("rescore"), body.get("oversampling")
    return edge().QuantizationSearchParams(
        ignore=_flag(body.get("ignore")),
        rescore=None if rescore is None else boolean(rescore),
        oversampling=None if oversampling is None else number(oversampling),
    )


def _acorn(value: Json) -> Any:
    body = mapping(value)
    selectivity = body.get("max_selectivity")
    return edge().AcornSearchParams(
        enable=_flag(body.get("enable")), max_selectivity=None if selectivity is None else number(selectivity)
    )


def _flag(value: Json) -> bool:
    return False if value is None else boolean(value)
