"""A verb's argument, free of transport: path and query parameters and the parsed body. Results are plain JSON values.

Every verb is a function `(Registry, Call) -> value` in the file of its subject; a transport finds the verb, makes the Call,
wraps the value. A verb raises Refusal for everything the server would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vecsieve.proxy.embedded.fields import Body, Json, mapping
from vecsieve.proxy.embedded.registry import Collection, Registry


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `body` is None when the verb has none."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json = None

    def collection(self, registry: Registry) -> Collection:
        """The collection the path names, alias or not."""
        return registry.find(self.path["collection"])

    def object(self) -> Body:
        """The body as an object."""
        return mapping(self.body, what="a request object")


Verb = Callable[[Registry, Call], Json]
