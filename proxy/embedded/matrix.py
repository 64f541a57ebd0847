"""The distance matrix, which the engine's Python binding does not offer: refused by name, in Qdrant's shape."""

from __future__ import annotations

from vecsieve.proxy.embedded.core import Call
from vecsieve.proxy.embedded.errors import not_served
from vecsieve.proxy.embedded.fields import Json
from vecsieve.proxy.embedded.registry import Registry


def matrix_pairs(registry: Registry, call: Call) -> Json:
    """Always a 501, after the collection was looked up."""
    call.collection(registry)
    raise not_served("search/matrix/pairs")


def matrix_offsets(registry: Registry, call: Call) -> Json:
    """Always a 501, after the collection was looked up."""
    call.collection(registry)
    raise not_served("search/matrix/offsets")
