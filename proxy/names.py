"""What collections are called, learned from descriptions that pass by: policy rules name collections, paths may carry ids.

No request is sent for a name. Until one is known a collection is ruled by what stands before its name, and counted. Nothing
in here belongs to a client: ids are the database's own, and a name decides about a policy, never about access.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.naming import Naming, Unsettled
from vecsieve.proxy.labels import Named

ENTRIES = 4096  # collections remembered: about 1 MB

Learn = Callable[[bytes], None]


class Names:
    """Of one process. At most ``entries`` names; the one used longest ago leaves first.

    ``naming``: None where paths say names, then nothing is remembered. ``counted``: hears of each search by an id.
    """

    __slots__ = ("_counted", "_entries", "_held", "_naming")

    def __init__(self, naming: Naming | None, counted: Callable[[Named], None], *, entries: int = ENTRIES) -> None:
        self._naming = naming
        self._counted = counted
        self._entries = entries
        self._held: OrderedDict[str, str] = OrderedDict()

    def known(self, operation: Operation) -> tuple[Operation, str]:
        """The operation by its collection's name, and what policy rules are to match: that name, or, while it is not known,
        what stands before it.
        """
        if not operation.id:
            return operation, operation.collection
        name = self._held.get(operation.id)
        self._counted(Named.UNKNOWN if name is None else Named.KNOWN)
        if name is None:
            return operation, operation.collection.removesuffix(operation.id)
        self._held.move_to_end(operation.id)
        return replace(operation, collection=name), name

    @contextmanager
    def passing(self, head: RequestHead) -> Iterator[Learn | None]:
        """While this request is passed through: what reads a success of it; None for one that describes nothing.

        What it may rename is forgotten before it goes out, and again when it is done: a description that overtook it is old.
        """
        naming = self._naming
        if naming is None:
            yield None
            return
        unsettled = naming.unsettles(head)
        if unsettled is not None:
            self._forget(unsettled)
        try:
            yield self._learn if naming.describes(head) else None
        finally:
            if unsettled is not None:
                self._forget(unsettled)

    def _learn(self, body: bytes) -> None:
        assert self._naming is not None  # noqa: S101 - handed out only where there is one
        for called in self._naming.described(body):
            self._held[called.id] = called.name
            self._held.move_to_end(called.id)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)

    def _forget(self, unsettled: Unsettled) -> None:
        key, scope = unsettled.key, unsettled.scope
        gone = [
            identifier
            for identifier, name in self._held.items()
            if key in {identifier, name} or (scope is not None and name.startswith(scope))
        ]
        for identifier in gone:
            del self._held[identifier]
