"""The ranked verbs: query, search, recommend, discover, each alone and in a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.fields import Body, Json, items, mapping, required
from vecsieve.proxy.embedded.legacy import from_discover, from_recommend, from_search
from vecsieve.proxy.embedded.registry import Registry
from vecsieve.proxy.embedded.replies import scored, shown_vector
from vecsieve.proxy.embedded.requests import Search, read_search

Said = Callable[[Body], Body]


def query(registry: Registry, call: Call) -> Json:
    """`{"points": [ScoredPoint]}`."""
    return {"points": _ranked(read_search(call.object(), call.collection(registry), registry.find))}


def query_batch(registry: Registry, call: Call) -> Json:
    """A list of what `query` answers, in the order asked."""
    collection = call.collection(registry)
    searches = [read_search(body, collection, registry.find) for body in batch(call)]
    return [{"points": _ranked(search)} for search in searches]


def search(registry: Registry, call: Call) -> Json:
    """A bare list of ScoredPoint."""
    return _legacy(registry, call, from_search)


def search_batch(registry: Registry, call: Call) -> Json:
    """A list of bare lists."""
    return _legacy_batch(registry, call, from_search)


def recommend(registry: Registry, call: Call) -> Json:
    """A bare list of ScoredPoint."""
    return _legacy(registry, call, from_recommend)


def recommend_batch(registry: Registry, call: Call) -> Json:
    """A list of bare lists."""
    return _legacy_batch(registry, call, from_recommend)


def discover(registry: Registry, call: Call) -> Json:
    """A bare list of ScoredPoint."""
    return _legacy(registry, call, from_discover)


def discover_batch(registry: Registry, call: Call) -> Json:
    """A list of bare lists."""
    return _legacy_batch(registry, call, from_discover)


def batch(call: Call) -> list[Body]:
    """The requests of a batch."""
    return [mapping(item) for item in items(required(call.object(), "searches"))]


def _legacy(registry: Registry, call: Call, said: Said) -> Json:
    body = said(call.object())
    return _ranked(read_search(body, call.collection(registry), registry.find, is_legacy=True))


def _legacy_batch(registry: Registry, call: Call, said: Said) -> Json:
    collection = call.collection(registry)
    bodies = [said(body) for body in batch(call)]
    searches = [read_search(body, collection, registry.find, is_legacy=True) for body in bodies]
    return [_ranked(search) for search in searches]


def _ranked(search: Search) -> list[dict[str, Json]]:
    points = search.collection.shard.query(search.request)
    if not search.brings_vectors:
        return [scored(point) for point in points]
    return _with_selected_vectors(search, points)


def _with_selected_vectors(search: Search, points: list[Any]) -> list[dict[str, Json]]:
    """Points whose vectors the engine added for its own use: those are dropped, the selected ones fetched."""
    shown = [scored(point, with_vector=False) for point in points]
    if search.with_vector is False:
        return shown
    records = search.collection.shard.retrieve([point.id for point in points], False, search.with_vector)
    return [point | {"vector": shown_vector(record.vector)} for point, record in zip(shown, records, strict=True)]
