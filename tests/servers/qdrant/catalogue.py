"""Collections with strict mode, aliases, payload indexes, and named vectors that come and go."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from servers.embedded import collections
from servers.embedded.collections import Call, Collection, Registry, write_whole
from servers.embedded.engine import (
    PLACEHOLDER,
    Shard,
    Translated,
    choose,
    dense_settings,
    edge,
    edge_config,
    read_dense,
    read_sparse,
    wants_index,
)
from servers.embedded.fields import (
    Body,
    Json,
    bad_format,
    bad_input,
    bad_value,
    boolean,
    conflict,
    items,
    mapping,
    missing,
    no_collection,
    required,
    text,
    texts,
    unsigned,
)
from servers.embedded.points import applied, wants_to_wait
from servers.qdrant.limits import Rates

# The product's verbs as they are: with these, every verb about collections stands here.
create, delete, exists, listing = collections.create, collections.delete, collections.exists, collections.listing


class FullCollection(Collection):
    """A collection with strict mode's rates, whose settings and vectors may change."""

    def __init__(self, name: str, directory: Path, settings: dict[str, Json], shard: Shard) -> None:
        super().__init__(name, directory, settings, shard)
        self._rates = Rates(settings)

    def read(self, cost: int = 1) -> None:
        """Count reads before they are done. Raises RateExceededError."""
        self._rates.take("read", cost, at_seconds=time.monotonic())

    def write(self, operation: object) -> int:
        """Apply one write, as the product does. Raises RateExceededError."""
        self._rates.take("write", 1, at_seconds=time.monotonic())
        return super().write(operation)

    def change_vectors(self, operation: object, settings: dict[str, Json]) -> int:
        """Apply a write that adds or removes a vector, as `write` does; `settings` are those behind it."""
        # The placeholder stands where there is no vector.
        had, has = bool(vector_names(self.settings)), bool(vector_names(settings))
        made = [edge().UpdateOperation.create_sparse_vector(PLACEHOLDER)] if had and not has else []
        before, after = (made, [_removing(PLACEHOLDER)] if has and not had else [])
        for step in before:
            self.shard.update(step)
        number = self.write(operation)
        for step in after:
            self.shard.update(step)
        self.keep(settings)
        return number

    def change(self, settings: dict[str, Json]) -> None:
        """Take new settings: written down, and the engine opened again with them."""
        config = edge_config(settings)
        self.keep(settings)
        self._rates = Rates(settings)
        self.shard.close()
        with Translated():
            self.shard = Shard(edge().EdgeShard.load(str(self.directory / "shard"), config))
        if wants_index(settings):
            self.shard.optimize()


class FullRegistry(Registry):
    """Collections and aliases. Aliases are kept in `<path>/aliases.json`: `{"alias": "collection", ..}`."""

    collection_class = FullCollection

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path)
        aliases = self.root / "aliases.json"
        self._aliases: dict[str, str] = orjson.loads(aliases.read_bytes()) if aliases.exists() else {}

    def find(self, name: str) -> Collection:
        """The collection of that name or alias, or Qdrant's 404."""
        target = self._aliases.get(name, name)
        if not super().has(target):
            raise no_collection(name)
        return super().find(target)

    def has(self, name: str) -> bool:
        """Whether `find` would find it."""
        return super().has(self._aliases.get(name, name))

    def create(self, name: str, body: Body) -> None:
        """Make an empty collection; refuses the name of an alias, too."""
        if name in self._aliases:
            raise bad_input(f"Can't create collection with name {name}. Alias with the same name already exists")
        super().create(name, body)

    def delete(self, name: str) -> bool:
        """Remove a collection with its aliases."""
        is_removed = super().delete(name)
        if is_removed:
            self._keep_aliases({alias: target for alias, target in self._aliases.items() if target != name})
        return is_removed

    def aliases(self, collection: str | None = None) -> list[tuple[str, str]]:
        """(alias, collection) pairs, of one collection or of all."""
        return [pair for pair in self._aliases.items() if collection is None or pair[1] == collection]

    def create_alias(self, alias: str, collection: str) -> None:
        """Point an alias at a collection, away from whatever it pointed at."""
        if collection not in self.names():
            raise no_collection(collection)
        if alias in self.names():
            raise conflict(f"Collection `{alias}` already exists!")
        self._keep_aliases(self._aliases | {alias: collection})

    def delete_alias(self, alias: str) -> None:
        """Forget an alias; one that does not exist is no error."""
        self._keep_aliases({name: target for name, target in self._aliases.items() if name != alias})

    def rename_alias(self, old: str, new: str) -> None:
        """Give an alias another name."""
        if old not in self._aliases:
            raise missing(f"Alias {old} does not exists!")
        target = self._aliases[old]
        self._keep_aliases({name: to for name, to in self._aliases.items() if name != old} | {new: target})

    def _keep_aliases(self, aliases: dict[str, str]) -> None:
        write_whole(self.root / "aliases.json", aliases)
        self._aliases = aliases


def full(collection: Collection) -> FullCollection:
    """The same, known to be the tests' kind."""
    assert isinstance(collection, FullCollection)
    return collection


def aliased(registry: Registry) -> FullRegistry:
    """The same, known to be the tests' kind."""
    assert isinstance(registry, FullRegistry)
    return registry


def info(registry: Registry, call: Call) -> Json:
    """Status, counts, config and payload schema."""
    counted = call.collection(registry).shard.info()
    return {**collections.info(registry, call), "payload_schema": schema_json(counted)}


_CHANGEABLE = ("hnsw_config", "optimizers_config", "quantization_config", "strict_mode_config", "metadata")


def change(registry: Registry, call: Call) -> Json:
    """Merge new settings into those of a collection; True."""
    collection, body = full(call.collection(registry)), call.object()
    settings = dict(collection.settings)
    for name in _CHANGEABLE:
        given = body.get(name)
        if isinstance(given, Mapping):
            settings[name] = {**mapping(settings.get(name, {})), **given}
    collection.change(settings)
    return True


def aliases(registry: Registry, _call: Call) -> Json:
    """Every alias."""
    return _aliases_json(aliased(registry).aliases())


def aliases_of(registry: Registry, call: Call) -> Json:
    """The aliases of one collection."""
    return _aliases_json(aliased(registry).aliases(call.collection(registry).name))


def change_aliases(registry: Registry, call: Call) -> Json:
    """Create, delete and rename aliases in the order given; True."""
    known = aliased(registry)
    for item in items(required(call.object(), "actions")):
        action = mapping(item)
        match action:
            case {"create_alias": body}:
                known.create_alias(_name(body, "alias_name"), _name(body, "collection_name"))
            case {"delete_alias": body}:
                known.delete_alias(_name(body, "alias_name"))
            case {"rename_alias": body}:
                known.rename_alias(_name(body, "old_alias_name"), _name(body, "new_alias_name"))
            case _:
                raise bad_format("data did not match any variant of untagged enum AliasOperations")
    return True


def _name(body: Json, field: str) -> str:
    return text(required(mapping(body), field))


def _aliases_json(pairs: list[tuple[str, str]]) -> Json:
    return {"aliases": [{"alias_name": alias, "collection_name": collection} for alias, collection in pairs]}


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


def schema_json(info: Any) -> dict[str, Json]:
    """`payload_schema` of a collection's info: `{key: {"data_type", "points"}}`."""
    return {
        key: {"data_type": str(index.data_type).rsplit(".", 1)[-1].lower(), "points": index.points}
        for key, index in sorted(info.payload_schema.items())
    }


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


def _vector_settings(body: Body) -> tuple[str, dict[str, Json]]:
    """Of a call that adds one vector: which settings it belongs to, `vectors` or `sparse_vectors`, and what is kept there."""
    if "dense" in body:
        return "vectors", _kept(mapping(body["dense"]), "size", "distance", "multivector_config", "datatype")
    if "sparse" not in body:
        raise bad_format("data did not match any variant of untagged enum VectorNameConfig")
    given = mapping(body["sparse"])
    index = _kept(given, "datatype")
    return "sparse_vectors", _kept(given, "modifier") | ({"index": index} if index else {})


def _adding(name: str, kind: str, body: Body) -> Any:
    """The engine's operation that adds a vector of these settings. Raises RefusalError for settings that are none."""
    make = edge().UpdateOperation
    if kind == "vectors":
        dense = read_dense(name, body)
        return make.create_dense_vector(name, dense.size, dense.distance, dense.multivector_config, dense.datatype)
    sparse = read_sparse(body)
    return make.create_sparse_vector(name, sparse.modifier, sparse.datatype)


def vector_names(settings: Body) -> list[str]:
    """All vectors of a collection, the dense ones first."""
    return [*dense_settings(settings), *mapping(settings.get("sparse_vectors", {}))]


def _removing(name: str) -> Any:
    """The engine's operation that removes a vector, if there is one of that name."""
    return edge().UpdateOperation.delete_vector_name(name)


def _kept(given: Body, *names: str) -> dict[str, Json]:
    return {name: given[name] for name in names if given.get(name) is not None}


# Named vectors of a collection that exists: added, and removed with all their values.

_MOST_NAME_BYTES = 200
# A vector's name is a directory's name in the server.
_FORBIDDEN = frozenset('<>:"/\\|?*\0\x1f')
_SCHEMA = ("size", "distance", "multivector_config", "datatype", "modifier", "index")
"""What makes two configurations different; the rest may be tuned afterwards."""


def create_vector(registry: Registry, call: Call) -> Json:
    """Add a vector: `{"dense": {"size", "distance", ..}}` or `{"sparse": {"modifier"?, "datatype"?}}`."""
    name = _checked_name(call.path["vector"])
    kind, added = _vector_settings(call.object())
    with Translated():
        operation = _adding(name, kind, added)
    collection = full(call.collection(registry))
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
    collection = full(call.collection(registry))
    settings = dict(collection.settings)
    for kind in ("vectors", "sparse_vectors"):
        vectors = _named(settings, kind)
        if vectors.pop(name, None) is not None:
            settings[kind] = vectors
    with Translated():
        operation = _removing(name)
    return _done(collection, call, operation, settings)


def _done(collection: FullCollection, call: Call, operation: Any, settings: dict[str, Json]) -> Json:
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
