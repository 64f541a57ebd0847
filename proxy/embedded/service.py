"""What the server says about itself: name and version, health, telemetry, a few metrics."""

from __future__ import annotations

from vecsieve.proxy.embedded.fields import Json
from vecsieve.proxy.embedded.registry import Registry

QDRANT_VERSION = "1.19.0"
"""The server whose wire format this is; clients compare it with their own."""
ABOUT = {"title": "qdrant - vector search engine", "version": QDRANT_VERSION}


def answer(registry: Registry, method: str, path: str) -> Json:
    """Plain text, a JSON value, or None for a path that is not ours."""
    if method != "GET":
        return None
    count = len(registry.names())
    known: dict[str, Json] = {
        "/": ABOUT,
        "/healthz": "healthz check passed",
        "/livez": "healthz check passed",
        "/readyz": "all shards are ready",
        "/metrics": f"# TYPE collections_total gauge\ncollections_total {count}\n",
        "/telemetry": {
            "result": {"id": "embedded", "app": ABOUT, "collections": {"number_of_collections": count}},
            "status": "ok",
            "time": 0.0,
        },
    }
    return known.get(path)
