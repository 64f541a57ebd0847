"""Points as they go out: the server's field order, absent fields absent, vectors in the shortest digits of float32.

`orjson` with OPT_SERIALIZE_NUMPY prints a float32 as Rust does (`0.98058069`), a Python float of the same value would not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from vecsieve.proxy.demo.embedded.fields import Json


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
