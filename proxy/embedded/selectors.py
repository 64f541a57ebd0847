"""What of a point goes back: `with_payload` and `with_vector`, and the search parameters beside them."""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.engine import Translated, edge
from vecsieve.proxy.embedded.errors import bad_format
from vecsieve.proxy.embedded.fields import Json, boolean, mapping, number, texts, unsigned
from vecsieve.proxy.embedded.filters import read_filter


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
