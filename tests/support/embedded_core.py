"""The embedded server's verbs without a transport, on data in a temporary directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from vecsieve.proxy.demo.embedded.registry import Call, Registry, Verb
from vecsieve.proxy.demo.embedded.replies import dumps


class Core:
    """Calls verbs as a transport would, and shows their answers as a client would read them."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def call(self, verb: Verb, body: object = None, *, name: str = "c", **path: str) -> Any:
        """The verb's answer after a trip through JSON."""
        return orjson.loads(dumps(verb(self.registry, Call({"collection": name, **path}, {"wait": "true"}, body))))


@contextmanager
def core() -> Iterator[Core]:
    """An empty server without a transport."""
    registry = Registry()
    try:
        yield Core(registry)
    finally:
        registry.close()
