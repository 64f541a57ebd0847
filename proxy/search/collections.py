"""What replies teach about a collection: the largest limit upstream takes, which vector it is compared by, what it is like.

Bounded and short-lived, keyed by backend and collection, and about shapes only: nothing in here belongs to a client, so
requests with different credentials may share it. A wrong entry costs improvement, never a wrong answer. A call that may
change a collection makes everything about it forgotten (``WriteInvalidation``), and so does a reply that contradicts it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from vecsieve.adapters.backends import Changes
from vecsieve.adapters.contract import Naming, Operation, RequestHead, Touched, Unsettled
from vecsieve.proxy.telemetry.labels import Named

V = TypeVar("V")

LEARNED_ENTRIES = 1024  # collections remembered per kind of knowledge: about 200 kB
REFUSED_SECONDS = 60.0  # a refusal that named no limit: try again after a minute, it may have been the moment
LIMIT_SECONDS = 600.0  # a limit that upstream named: configuration, which changes rarely
HINT_SECONDS = 3600.0  # a collection's vectors are fixed when it is created; an hour covers one created anew
# What contradicts something that was learned this short a time ago contradicts the database, not us: asking again would not help.
FRESH_SECONDS = 5.0
NOTHING = 0  # the cap of a collection whose widened requests are refused without saying how many it would take


@dataclass(frozen=True, slots=True)
class Description:
    """What an adapter's question was answered with; None where there was no answer that could be read."""

    known: object | None


class Expiring(Generic[V]):
    """At most ``entries`` values, each for its own time; the least recently used leaves first."""

    __slots__ = ("_clock", "_entries", "_held")

    def __init__(self, *, entries: int, clock: Callable[[], float]) -> None:
        self._entries = entries
        self._clock = clock
        self._held: OrderedDict[tuple[str, str], tuple[V, float, float]] = (
            OrderedDict()
        )  # the value, its end, its beginning

    def get(self, key: tuple[str, str]) -> V | None:
        """The value, when there is one that has not expired."""
        held = self._held.get(key)
        if held is None:
            return None
        value, expires, _ = held
        if self._clock() >= expires:
            del self._held[key]
            return None
        self._held.move_to_end(key)
        return value

    def put(self, key: tuple[str, str], value: V, *, seconds: float) -> None:
        """Hold the value for that long, in place of what was there."""
        now = self._clock()
        self._held[key] = (value, now + seconds, now)
        self._held.move_to_end(key)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)

    def drop(self, is_wrong: Callable[[tuple[str, str]], bool], *, older_seconds: float = 0.0) -> None:
        """Hold nothing under these keys, unless it was put there more recently than that."""
        until = self._clock() - older_seconds
        for key in [key for key, (_, _, since) in self._held.items() if since <= until and is_wrong(key)]:
            del self._held[key]

    def __len__(self) -> int:
        return len(self._held)


class Learned:
    """Everything learned by one process. ``clock``: monotonic seconds."""

    __slots__ = ("_caps", "_hints", "told")

    def __init__(self, clock: Callable[[], float], *, entries: int = LEARNED_ENTRIES) -> None:
        self._caps = Expiring[int](entries=entries, clock=clock)
        self._hints = Expiring[str](entries=entries, clock=clock)
        # What collections are like, under their name and the question that was asked; see ``CollectionInfo``.
        self.told = Expiring[Description](entries=entries, clock=clock)

    def cap(self, operation: Operation) -> int | None:
        """The largest limit upstream is known to take here; 0 when no larger one than asked for; None when unknown."""
        return self._caps.get(_key(operation))

    def refused(self, operation: Operation, limit: int | None) -> None:
        """Remember that a widened request was refused. ``limit``: the largest that upstream named, None if it did not."""
        if limit is None:
            self._caps.put(_key(operation), NOTHING, seconds=REFUSED_SECONDS)
        else:
            self._caps.put(_key(operation), max(limit, NOTHING), seconds=LIMIT_SECONDS)

    def hint(self, operation: Operation) -> str | None:
        """The vector that replies of this collection were compared by; None when unknown."""
        return self._hints.get(_key(operation))

    def compared(self, operation: Operation, vector_name: str) -> None:
        """Remember the vector that a reply was compared by."""
        self._hints.put(_key(operation), vector_name, seconds=HINT_SECONDS)

    def forget(self, collection: str | None) -> None:
        """Unlearn everything about this collection, or about all."""
        self._caps.drop(lambda key: is_of(collection, key[1]))
        self._hints.drop(lambda key: is_of(collection, key[1]))
        self.told.drop(lambda key: is_of(collection, key[0]))

    def contradicted(self, operation: Operation) -> None:
        """A reply shows that what was learned of this collection's vectors and fields is not so, or no longer."""
        self._hints.drop(lambda key: key == _key(operation))
        self.told.drop(lambda key: key[0] == operation.collection, older_seconds=FRESH_SECONDS)

    @property
    def capped_collections(self) -> int:
        """How many collections have a limit remembered, expired ones included until they are next asked for."""
        return len(self._caps)


def is_of(collection: str | None, name: str) -> bool:
    """Whether what is kept under a name is about this collection, or a part of it such as a tenant; None: about any."""
    return collection is None or name == collection or name.startswith(f"{collection}/")


def _key(operation: Operation) -> tuple[str, str]:
    return operation.backend, operation.collection


# What collections are called, learned from descriptions that pass by: policy rules name collections, paths may carry ids.
#
# No request is sent for a name. Until one is known a collection is ruled by what stands before its name, and counted. Nothing
# in here belongs to a client: ids are the database's own, and a name decides about a policy, never about access.

NAMES_ENTRIES = 4096  # collections remembered: about 1 MB

Learn = Callable[[bytes], None]


class Names:
    """Of one process. At most ``entries`` names; the one used longest ago leaves first.

    ``naming``: None where paths say names, then nothing is remembered. ``counted``: hears of each search by an id.
    """

    __slots__ = ("_counted", "_entries", "_held", "_naming")

    def __init__(
        self, naming: Naming | None, counted: Callable[[Named], None], *, entries: int = NAMES_ENTRIES
    ) -> None:
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


# Requests seen passing that change what was learned: it is forgotten before they go out and again when they are done.


class Forgetful(Protocol):
    """What has learned something of collections."""

    def forget(self, collection: str | None) -> None:
        """Unlearn what is known of this collection, or of any."""
        ...


@dataclass(frozen=True, slots=True)
class Invalidation:
    """One kind of change, and who forgets because of it."""

    touches: Changes
    forgetful: tuple[Forgetful, ...]


class WriteInvalidation:
    """Of one transport. Without any kind of change nothing is forgotten."""

    __slots__ = ("_heard",)

    def __init__(self, *heard: Invalidation) -> None:
        self._heard = heard

    @contextmanager
    def passing(self, head: RequestHead) -> Iterator[None]:
        """While this request is passed through. A write whose client goes away may end later: the memory of vectors stays quiet longer."""
        touched = [(heard, found) for heard in self._heard if (found := heard.touches(head)) is not None]
        if not touched:
            yield
            return
        _forget(touched)
        try:
            yield
        finally:
            _forget(touched)


def _forget(touched: list[tuple[Invalidation, Touched]]) -> None:
    for heard, found in touched:
        for each in heard.forgetful:
            each.forget(found.collection)
