"""JSON as the service writes it. Two writers stand behind its edge.

`transcoded` is Envoy's gRPC-JSON transcoder, which answers for the vectors: compact, fields in the order of their numbers,
lists and scalars there even when empty (`"results":[]`, `"values":[]`), messages only when set, 64-bit integers as text,
float32 with six digits where they suffice and nine where they do not, every number of the metadata a double, `<` and `>`
escaped. `plain` answers for records, documents and the control plane: snake_case names, float32 widened to a double and
printed as one (`0.9281134605407715`).

Quirks of the public OpenAPI descriptions, for whoever validates an answer against them:

* `required` stands inside single properties (`topK`, `id`, `values`, `indices`), where it means nothing; 2024 also has
  `default: 'false'`, a string, for booleans.
* `record_count` is said to be an integer and arrives as text; so does every other 64-bit integer.
* `memory_fullness` and `storage_fullness` are snake_case beside `indexFullness`; an example writes `index_fullness`.
* `ScoredVector.score` is said to be the higher the closer; under `euclidean` it is a squared distance.
* The query request's `minLength` and `maxLength` on arrays stand for numbers of items.
* `X-Pinecone-Api-Version` is required since 2025-10; clients that do not send it are answered.
* Before 2024-07 a 404 of the control plane is described without a body; it has one.
* 2026-07 is not published: its shapes here come from the models of the clients that speak it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

Json = Any
Reals = NDArray[np.float32]

_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True, slots=True)
class Struct:
    """A google.protobuf.Struct: its numbers are doubles, whatever they were sent as."""

    fields: Mapping[str, Json]


def transcoded(message: Json) -> bytes:
    """A protobuf message as the transcoder prints it: int, float (a float32), str, bool, list, dict, array, Struct."""
    return _written(message).encode()


def plain(value: Json) -> bytes:
    """JSON of the services that are no gRPC."""
    return orjson.dumps(value)


@functools.lru_cache(maxsize=4096)
def _reals32(raw: bytes) -> str:
    values = np.frombuffer(raw, dtype="<f4")
    numbers = values.tolist()
    short = [f"{number:.6g}" for number in numbers]
    exact = (np.array(short, dtype=np.float64).astype(np.float32) == values).tolist()
    return "[" + ",".join(s if ok else f"{n:.9g}" for s, n, ok in zip(short, numbers, exact, strict=True)) + "]"


def widened(value: float) -> float:
    """A float32 as the double that `plain` prints."""
    return float(np.float32(value))


def _written(value: Json) -> str:  # noqa: PLR0911 - one line a type
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # A float32 in protobuf's spelling: six digits if they say the same number, else nine.
        short = f"{value:.6g}"
        return short if np.float32(short) == np.float32(value) else f"{value:.9g}"
    if isinstance(value, np.ndarray):
        # Remembered: the same vectors are sent again with every page.
        return _reals32(value.astype("<f4", copy=False).tobytes())
    if isinstance(value, Struct):
        return _struct(value.fields)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quoted(name)}:{_written(item)}" for name, item in value.items()) + "}"
    return "[" + ",".join(map(_written, value)) + "]"


def _struct(value: Json) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quoted(name)}:{_struct(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_struct, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return _real64(float(value))


def _real64(value: float) -> str:
    short = f"{value:.15g}"
    return short if float(short) == value else f"{value:.17g}"


def _quoted(text: str) -> str:
    quoted = orjson.dumps(text).decode()
    for character, escaped in _ESCAPED.items():
        quoted = quoted.replace(character, escaped)
    return quoted
