"""Payload indexes: created, deleted, and shown in a collection's info."""

from __future__ import annotations

from typing import Any

from vecsieve.proxy.embedded.configs import choose
from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.engine import Translated, edge
from vecsieve.proxy.embedded.errors import bad_format, bad_input
from vecsieve.proxy.embedded.fields import Body, Json, boolean, mapping, required, text, texts, unsigned
from vecsieve.proxy.embedded.registry import Registry
from vecsieve.proxy.embedded.updates import applied

_KINDS = ("keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid")
_FLAGS = {
    "keyword": ("is_tenant", "enable_hnsw", "prefix"),
    "integer": ("lookup", "range", "is_principal", "enable_hnsw"),
    "float": ("is_principal", "enable_hnsw"),
    "geo": ("enable_hnsw",),
    "text": ("lowercase", "ascii_folding", "phrase_matching", "enable_hnsw"),
    "bool": ("enable_hnsw",),
    "datetime": ("is_principal", "enable_hnsw"),
    "uuid": ("is_tenant", "enable_hnsw"),
}


def create(registry: Registry, call: Call) -> Json:
    """Index a payload key: `{"field_name", "field_schema"}`."""
    body, collection = call.object(), call.collection(registry)
    name, schema = text(required(body, "field_name")), body.get("field_schema", body.get("field_type"))
    if schema is None:
        raise bad_input(f"Unable to infer type for the field '{name}'. Please specify `field_type`")
    with Translated():
        operation = edge().UpdateOperation.create_field_index(name, _schema(schema))
    return applied(collection, call, operation)


def delete(registry: Registry, call: Call) -> Json:
    """Drop the index of a payload key."""
    collection = call.collection(registry)
    with Translated():
        operation = edge().UpdateOperation.delete_field_index(call.path["field"])
    return applied(collection, call, operation)


def shown_schema(info: Any) -> dict[str, Json]:
    """`payload_schema` of a collection's info: `{key: {"data_type", "points"}}`."""
    return {
        key: {"data_type": _kind_name(index.data_type), "points": index.points}
        for key, index in sorted(info.payload_schema.items())
    }


def _kind_name(data_type: Any) -> str:
    return str(data_type).rsplit(".", 1)[-1].lower()


def _schema(value: Json) -> Any:
    if isinstance(value, str):
        return choose("PayloadSchemaType", value)
    body = mapping(value)
    kind = text(required(body, "type"))
    if kind not in _KINDS:
        raise bad_format(f"unknown variant `{kind}`, expected one of {', '.join(f'`{known}`' for known in _KINDS)}")
    options: dict[str, Json] = {name: boolean(body[name]) for name in _FLAGS[kind] if body.get(name) is not None}
    if kind == "text":
        options |= _text_options(body)
    return getattr(edge(), f"{kind.capitalize()}IndexParams")(**options)


def _text_options(body: Body) -> dict[str, Json]:
    engine, options = edge(), {}
    if body.get("tokenizer") is not None:
        options["tokenizer"] = choose("TokenizerType", body["tokenizer"])
    for name in ("min_token_len", "max_token_len"):
        if body.get(name) is not None:
            options[name] = unsigned(body[name])
    stopwords = body.get("stopwords")
    if isinstance(stopwords, str):
        options["stopwords"] = engine.StopwordsSet(languages={choose("Language", stopwords)})
    elif stopwords is not None:
        given = mapping(stopwords)
        languages = {choose("Language", name) for name in given.get("languages") or []}
        options["stopwords"] = engine.StopwordsSet(languages=languages, custom=set(texts(given.get("custom") or [])))
    return options
