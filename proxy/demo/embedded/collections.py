"""Collections and aliases: made, listed, described, changed, removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecsieve.proxy.demo.embedded.configs import adding, choose, dense_settings, removing, shown_config, vector_settings
from vecsieve.proxy.demo.embedded.engine import Translated, edge
from vecsieve.proxy.demo.embedded.errors import bad_format, bad_input, bad_value
from vecsieve.proxy.demo.embedded.fields import Body, Json, boolean, items, mapping, required, text, texts, unsigned
from vecsieve.proxy.demo.embedded.points import applied, wants_to_wait
from vecsieve.proxy.demo.embedded.registry import Call, Collection, Registry

# Payload indexes: created, deleted, and shown in a collection's info.

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


def create_index(registry: Registry, call: Call) -> Json:
    """Index a payload key: `{"field_name", "field_schema"}`."""
    body, collection = call.object(), call.collection(registry)
    name, schema = text(required(body, "field_name")), body.get("field_schema", body.get("field_type"))
    if schema is None:
        raise bad_input(f"Unable to infer type for the field '{name}'. Please specify `field_type`")
    with Translated():
        operation = edge().UpdateOperation.create_field_index(name, _schema(schema))
    return applied(collection, call, operation)


def delete_index(registry: Registry, call: Call) -> Json:
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


# Named vectors of a collection that exists: added, and removed with all their values.

_MOST_NAME_BYTES = 200
# A vector's name is a directory's name in the server.
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')
_SCHEMA = ("size", "distance", "multivector_config", "datatype", "modifier", "index")
"""What makes two configurations different; the rest may be tuned afterwards."""


def create_vector(registry: Registry, call: Call) -> Json:
    """Add a vector: `{"dense": {"size", "distance", ..}}` or `{"sparse": {"modifier"?, "datatype"?}}`."""
    name = _checked_name(call.path["vector"])
    kind, added = vector_settings(call.object())
    with Translated():
        operation = adding(name, kind, added)
    collection = call.collection(registry)
    settings = dict(collection.settings)
    vectors = _named(settings, kind)
    if name in vectors or _exists(settings, name, kind):
        _check_same(name, kind, vectors.get(name), added)
    else:
        settings[kind] = vectors | {name: added}
    return _done(collection, call, operation, settings)


def delete_vector(registry: Registry, call: Call) -> Json:
    """Remove a vector; one that does not exist is no error."""
    name = _checked_name(call.path["vector"])
    collection = call.collection(registry)
    settings = dict(collection.settings)
    for kind in ("vectors", "sparse_vectors"):
        vectors = _named(settings, kind)
        if vectors.pop(name, None) is not None:
            settings[kind] = vectors
    with Translated():
        operation = removing(name)
    return _done(collection, call, operation, settings)


def _done(collection: Collection, call: Call, operation: Any, settings: dict[str, Json]) -> Json:
    is_waiting = wants_to_wait(call)
    number = collection.change_vectors(operation, settings)
    return {"operation_id": number, "status": "completed" if is_waiting else "acknowledged"}


def _named(settings: Body, kind: str) -> dict[str, Json]:
    """The vectors of that kind by name, to be changed."""
    return dict(dense_settings(settings) if kind == "vectors" else mapping(settings.get(kind) or {}))


def _exists(settings: Body, name: str, kind: str) -> bool:
    """Whether a vector of the other kind has that name."""
    return name in _named(settings, "vectors" if kind == "sparse_vectors" else "sparse_vectors")


def _check_same(name: str, kind: str, existing: Body | None, added: Body) -> None:
    is_dense = kind == "vectors"
    if existing is None:
        raise bad_input(f"Vector `{name}` already exists as a {'sparse' if is_dense else 'dense'} vector")
    if _vector_schema(existing) != _vector_schema(added):
        raise bad_input(
            f"{'Vector' if is_dense else 'Sparse vector'} `{name}` already exists with a different configuration"
        )


def _vector_schema(body: Body) -> dict[str, Json]:
    kept = {part: body[part] for part in _SCHEMA if body.get(part) is not None}
    datatype = mapping(kept.pop("index", {})).get("datatype")
    return kept if datatype is None else kept | {"datatype": datatype}


def _checked_name(name: str) -> str:
    if len(name.encode()) > _MOST_NAME_BYTES:
        raise bad_value(
            "vector_name", f"vector name must be at most {_MOST_NAME_BYTES} bytes long", where="path parameters"
        )
    if not _FORBIDDEN.isdisjoint(name):
        raise bad_value("vector_name", "vector name cannot contain forbidden characters", where="path parameters")
    return name


_CHANGEABLE = ("hnsw_config", "optimizers_config", "quantization_config", "strict_mode_config", "metadata")


def create(registry: Registry, call: Call) -> Json:
    """Make a collection; True."""
    registry.create(call.path["collection"], call.object())
    return True


def delete(registry: Registry, call: Call) -> Json:
    """Remove a collection; False when there was none."""
    return registry.delete(call.path["collection"])


def exists(registry: Registry, call: Call) -> Json:
    """`{"exists": bool}`; an alias exists too."""
    return {"exists": registry.has(call.path["collection"])}


def listing(registry: Registry, _call: Call) -> Json:
    """`{"collections": [{"name"}]}`."""
    return {"collections": [{"name": name} for name in registry.names()]}


def info(registry: Registry, call: Call) -> Json:
    """Status, counts, config and payload schema."""
    collection = call.collection(registry)
    counted = collection.shard.info()
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": counted.indexed_vectors_count,
        "points_count": counted.points_count,
        "segments_count": counted.segments_count,
        "config": shown_config(collection.settings),
        "payload_schema": shown_schema(counted),
        "update_queue": {"length": 0},
    }


def change(registry: Registry, call: Call) -> Json:
    """Merge new settings into those of a collection; True."""
    collection, body = call.collection(registry), call.object()
    settings = dict(collection.settings)
    for name in _CHANGEABLE:
        given = body.get(name)
        if isinstance(given, Mapping):
            settings[name] = {**mapping(settings.get(name, {})), **given}
    collection.change(settings)
    return True


def aliases(registry: Registry, _call: Call) -> Json:
    """Every alias."""
    return _shown(registry.aliases())


def aliases_of(registry: Registry, call: Call) -> Json:
    """The aliases of one collection."""
    return _shown(registry.aliases(call.collection(registry).name))


def change_aliases(registry: Registry, call: Call) -> Json:
    """Create, delete and rename aliases in the order given; True."""
    for item in items(required(call.object(), "actions")):
        action = mapping(item)
        match action:
            case {"create_alias": body}:
                registry.create_alias(_name(body, "alias_name"), _name(body, "collection_name"))
            case {"delete_alias": body}:
                registry.delete_alias(_name(body, "alias_name"))
            case {"rename_alias": body}:
                registry.rename_alias(_name(body, "old_alias_name"), _name(body, "new_alias_name"))
            case _:
                raise bad_format("data did not match any variant of untagged enum AliasOperations")
    return True


def _name(body: Json, field: str) -> str:
    return text(required(mapping(body), field))


def _shown(pairs: list[tuple[str, str]]) -> Json:
    return {"aliases": [{"alias_name": alias, "collection_name": collection} for alias, collection in pairs]}
