"""Collections: made, listed, described, removed."""

from __future__ import annotations

from vecsieve.proxy.demo.embedded.configs import shown_config
from vecsieve.proxy.demo.embedded.fields import Json
from vecsieve.proxy.demo.embedded.registry import Call, Registry


def create(registry: Registry, call: Call) -> Json:
    """Make a collection; True."""
    registry.create(call.path["collection"], call.object())
    return True


def delete(registry: Registry, call: Call) -> Json:
    """Remove a collection; False when there was none."""
    return registry.delete(call.path["collection"])


def exists(registry: Registry, call: Call) -> Json:
    """`{"exists": bool}`."""
    return {"exists": registry.has(call.path["collection"])}


def listing(registry: Registry, _call: Call) -> Json:
    """`{"collections": [{"name"}]}`."""
    return {"collections": [{"name": name} for name in registry.names()]}


def info(registry: Registry, call: Call) -> Json:
    """Status, counts and config; no payload key has an index."""
    collection = call.collection(registry)
    counted = collection.shard.info()
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": counted.indexed_vectors_count,
        "points_count": counted.points_count,
        "segments_count": counted.segments_count,
        "config": shown_config(collection.settings),
        "payload_schema": {},
        "update_queue": {"length": 0},
    }
