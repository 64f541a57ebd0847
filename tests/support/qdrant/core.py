"""The verbs of the tests' larger embedded server, without a transport."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from servers.embedded.collections import Call, Registry, Verb
from servers.embedded.replies import dumps
from servers.qdrant.catalogue import FullRegistry


class Core:
    """Calls verbs as a transport would, and shows their answers as a client would read them."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def call(self, verb: Verb, body: object = None, *, name: str = "c", **path: str) -> Any:
        """The verb's answer after a trip through JSON."""
        return orjson.loads(dumps(verb(self.registry, Call({"collection": name, **path}, {"wait": "true"}, body))))


@contextmanager
def full_core() -> Iterator[Core]:
    """The tests' larger server, empty, without a transport."""
    registry = FullRegistry()
    try:
        yield Core(registry)
    finally:
        registry.close()
