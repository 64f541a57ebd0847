"""What replies and passing requests teach about collections: limits, vectors, descriptions, names.

Bounded, short-lived and about shapes only: nothing here belongs to a client, so clients with different credentials may
share it. A wrong entry costs improvement, never a wrong answer. A request that may change a collection drops its
entries (``WriteInvalidation``), and so does a reply that contradicts them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from vecsieve.adapters.backends import Changes
from vecsieve.adapters.contract import NamesInBody, Naming, Operation, Reply, RequestHead, Unsettled

from ...telemetry.labels import Named

K = TypeVar("K")
V = TypeVar("V")

LEARNED_ENTRIES = 1024  # collections remembered per kind of knowledge: about 200 kB
REFUSED_SECONDS = 60.0  # a refusal that named no limit: retry after a minute, since it may have been temporary
LIMIT_SECONDS = 600.0  # a limit that upstream named is configuration, which changes rarely
HINT_SECONDS = (
    3600.0  # a collection's vectors are fixed when it is created; an hour bounds the error after a recreation
)
# A contradiction this soon after learning points to the database, not to outdated knowledge: asking again would not help.
FRESH_SECONDS = 5.0
NOTHING = 0  # the cap of a collection whose widened requests are refused without a stated limit


@dataclass(frozen=True, slots=True)
class Description:
    """The answer to a description request of an adapter. ``known``: None when there was no readable answer."""

    known: object | None


class Lru(OrderedDict[K, V]):
    """At most ``entries`` values; the least recently used is dropped first."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self._entries = entries

    def use(self, key: K, make: Callable[[], V]) -> V:
        """Return the value, creating it if missing, and mark it as just used."""
        value = self.get(key)
        if value is None:
            self.hold(key, value := make())
        else:
            self.move_to_end(key)
        return value

    def hold(self, key: K, value: V) -> None:
        """Set the value and mark it as just used."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._entries:
            self.popitem(last=False)


class Expiring(Generic[K, V]):
    """At most ``entries`` values, each with its own lifetime; the least recently used is dropped first."""

    __slots__ = ("_clock", "_entries")

    def __init__(self, *, entries: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries = Lru[K, tuple[V, float, float]](entries)  # each value with its expiry and its start

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, expires, _ = entry
        if self._clock() >= expires:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, seconds: float) -> None:
        now = self._clock()
        self._entries.hold(key, (value, now + seconds, now))

    def drop(self, is_wrong: Callable[[K], bool], *, older_seconds: float = 0.0) -> None:
        """Drop the entries whose key satisfies ``is_wrong``, except those set less than ``older_seconds`` ago."""
        until = self._clock() - older_seconds
        for key in [key for key, (_, _, since) in self._entries.items() if since <= until and is_wrong(key)]:
            del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)


class Learned:
    __slots__ = ("_caps", "_hints", "descriptions")

    def __init__(self, clock: Callable[[], float], *, entries: int = LEARNED_ENTRIES) -> None:
        self._caps = Expiring[str, int](entries=entries, clock=clock)
        self._hints = Expiring[str, str](entries=entries, clock=clock)
        # Descriptions by collection name and description request; see ``CollectionInfo``.
        self.descriptions = Expiring[tuple[str, str], Description](entries=entries, clock=clock)

    def cap(self, operation: Operation) -> int | None:
        """The largest limit that upstream accepts; 0 when it refuses any limit above the client's; None when unknown."""
        return self._caps.get(operation.collection)

    def refused(self, operation: Operation, limit: int | None) -> None:
        """Record that a widened request was refused. ``limit``: the largest that upstream named, None if it named none."""
        if limit is None:
            self._caps.put(operation.collection, NOTHING, seconds=REFUSED_SECONDS)
        else:
            self._caps.put(operation.collection, max(limit, NOTHING), seconds=LIMIT_SECONDS)

    def hint(self, operation: Operation) -> str | None:
        """The vector that replies of this collection were compared by; None when unknown."""
        return self._hints.get(operation.collection)

    def learn(self, operation: Operation, reply: Reply | None) -> None:
        """Learn by which vectors a reply was compared."""
        for pool in () if reply is None else reply.pools:
            if pool.vector_name is not None:
                self.compared(operation, pool.vector_name)

    def compared(self, operation: Operation, vector_name: str) -> None:
        self._hints.put(operation.collection, vector_name, seconds=HINT_SECONDS)

    def forget(self, collection: str | None) -> None:
        """Forget this collection, or all for None."""
        self._caps.drop(lambda key: is_of(collection, key))
        self._hints.drop(lambda key: is_of(collection, key))
        self.descriptions.drop(lambda key: is_of(collection, key[0]))

    def contradicted(self, operation: Operation) -> None:
        """A reply contradicts what was learned about this collection's vectors and fields."""
        self._hints.drop(lambda key: key == operation.collection)
        self.descriptions.drop(lambda key: key[0] == operation.collection, older_seconds=FRESH_SECONDS)

    @property
    def capped_collections(self) -> int:
        """Collections with a cap, expired ones included until they are next read."""
        return len(self._caps)


def is_of(collection: str | None, name: str) -> bool:
    """Whether an entry is about this collection or a part of it, such as a tenant; None: about any collection."""
    return collection is None or name == collection or name.startswith(f"{collection}/")


def named_in(adapter: object, body: bytes) -> str:
    """The collection's name where the operation has none; "" for unknown, and for several."""
    names = adapter.collections_in(body) if isinstance(adapter, NamesInBody) else ()
    return next(iter(names))[:LONGEST_NAME] if len(names) == 1 else ""


# Characters of a collection's name, with tenant and database where it has them. No database accepts a longer one, and over gRPC a name may
# have megabytes: whatever is remembered of collections would hold thousands of such names.
LONGEST_NAME = 2048


def nameable(operation: Operation | None) -> Operation | None:
    """The operation; None where its collection cannot exist, so that its request is passed through."""
    return None if operation is None or len(operation.collection) > LONGEST_NAME else operation


NAMES_ENTRIES = 4096  # collections remembered: about 1 MB

_UNTOUCHED = nullcontext()  # the usual reader, of a request that changes nothing
Learn = Callable[[bytes], None]


class Names:
    """Collection names by the ids in paths, learned from descriptions that pass through.

    No request is sent to learn a name. A name selects a policy; it never grants access. ``naming``: None for backends with names in their
    paths; nothing is stored then. ``counted``: called for each search by an id.
    """

    __slots__ = ("_counted", "_entries", "_naming")

    def __init__(
        self, naming: Naming | None, counted: Callable[[Named], None], *, entries: int = NAMES_ENTRIES
    ) -> None:
        self._naming = naming
        self._counted = counted
        self._entries = Lru[str, str](entries)

    def ruled_by(self, operation: Operation) -> str:
        """As `known`, for an operation that is no search: not counted."""
        if not operation.id:
            return operation.collection
        return self._entries.get(operation.id) or operation.collection.removesuffix(operation.id)

    def known(self, operation: Operation) -> tuple[Operation, str]:
        """The operation with its collection's name, and the text that policy rules match: the name, or the path before the id if the name
        is unknown.
        """
        if not operation.id:
            return operation, operation.collection
        name = self._entries.get(operation.id)
        self._counted(Named.UNKNOWN if name is None else Named.KNOWN)
        if name is None:
            return operation, operation.collection.removesuffix(operation.id)
        self._entries.move_to_end(operation.id)
        return replace(operation, collection=name), name

    def passing(self, head: RequestHead) -> AbstractContextManager[Learn | None]:
        """Wrap a request that is passed through; yields the reader of its successful reply, or None for a reply without a description.

        Names that the request may change are forgotten before and after it, because a description that arrives meanwhile may be out of
        date.
        """
        return _UNTOUCHED if self._naming is None else self._unsettling(self._naming, head)

    @contextmanager
    def _unsettling(self, naming: Naming, head: RequestHead) -> Iterator[Learn | None]:
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
            self._entries.hold(called.id, called.name)

    def _forget(self, unsettled: Unsettled) -> None:
        key, scope = unsettled.key, unsettled.scope
        gone = [
            identifier
            for identifier, name in self._entries.items()
            if key in {identifier, name} or (scope is not None and name.startswith(scope))
        ]
        for identifier in gone:
            del self._entries[identifier]


class Forgetful(Protocol):
    def forget(self, collection: str | None) -> None:
        """Forget this collection, or all for None."""
        ...


class WriteInvalidation:
    """Invalidates caches when one transport's requests change collections. ``touches``: None if none is known to."""

    __slots__ = ("_forgetful", "_touches")

    def __init__(self, touches: Changes | None, *forgetful: Forgetful) -> None:
        self._touches = touches
        self._forgetful = forgetful

    def passing(self, head: RequestHead) -> AbstractContextManager[None]:
        """Invalidate before and after a request that is passed through. If the client disconnects, the write may end later, so the feature
        memory stays disabled longer.
        """
        touched = None if self._touches is None else self._touches(head)
        if touched is None or len(touched.collection or "") > LONGEST_NAME:
            return _UNTOUCHED
        return self._forgotten(touched.collection)

    @contextmanager
    def _forgotten(self, collection: str | None) -> Iterator[None]:
        for cache in self._forgetful:
            cache.forget(collection)
        try:
            yield
        finally:
            for cache in self._forgetful:
                cache.forget(collection)
