"""Collections and aliases: made, listed, described, changed, removed."""

from __future__ import annotations

from collections.abc import Mapping

from vecsieve.proxy.embedded.configs import shown_config
from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.errors import bad_format
from vecsieve.proxy.embedded.fields import Json, items, mapping, required, text
from vecsieve.proxy.embedded.indexes import shown_schema
from vecsieve.proxy.embedded.registry import Registry

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
