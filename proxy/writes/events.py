"""Events of written points for listeners: readers of the API's feed, and a webhook.

An event belongs to one write, has one kind, and names its points by id. It has no texts, vectors or payloads. It is encoded once for all
listeners, and only if there are any. No listener can slow a write: each has a bounded queue, and events that do not fit are dropped and
counted.
"""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from ..telemetry.labels import EventSink, WriteTier

MOST_READERS = 16
READER_BYTES = 1024 * 1024  # of events that wait for a reader: about 10,000 points
SECRET_FILE = "webhook.secret_file"  # noqa: S105 - the name of a setting
PREFIX = b"whsec_"  # before a secret in base64, as Standard Webhooks writes it


class EventName(StrEnum):
    DUPLICATE_FOUND = "duplicate-found"  # points that are copies; the other events report what happened to them
    ADDED = "added"  # stored unchanged
    SKIPPED = "skipped"  # left out; they are in the journal
    MERGED = "merged"  # stored in place of copies, or with values of copies
    EVICTED = "evicted"  # stored points that were removed; they are in the journal
    SWEEP_COMPLETE = "sweep-complete"


_ID = {"type": ["string", "integer"]}
Id = Annotated[Raw, Meta(extra_json_schema=_ID)]


class EventPoint(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A point of an event. `duplicateOf`: for a copy, its original; for an evicted or skipped point, the point that represents it."""

    id: Id
    duplicate_of: Id | None = None
    tier: WriteTier | None = None
    similarity: float | None = None


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to points of one write; for a sweep, numbers. ``at``: UTC, ISO 8601."""

    event: EventName
    at: str
    collection: str
    points: list[EventPoint] = []
    counts: dict[str, int] | None = None


def moment(now: float) -> str:
    """The time of an event. ``now``: seconds since the epoch."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")


def batch(events: Sequence[bytes], dropped: int) -> bytes:
    """The body of a webhook request."""
    return b'{"events":[%s],"dropped":%d}' % (b",".join(events), dropped)


class EncodedEvent(NamedTuple):
    """An event, encoded as JSON."""

    name: EventName
    data: bytes


class Taken(NamedTuple):
    """Events that a listener received. ``dropped``: events that did not fit since the last call."""

    events: list[EncodedEvent]
    dropped: int


class Listener:
    """The queue of one listener. ``sink``: the label for dropped events."""

    def __init__(self, sink: EventSink, most_bytes: int, dropped: Callable[[EventSink, int], None]) -> None:
        self._sink = sink
        self._most = most_bytes
        self._counted = dropped
        self._waiting: deque[EncodedEvent] = deque()
        self._used = 0
        self._dropped = 0
        self._is_over = False
        self._changed = asyncio.Event()

    def put(self, event: EncodedEvent) -> None:
        if self._is_over or self._used + len(event.data) > self._most:
            self.drop(1)
            return
        self._waiting.append(event)
        self._used += len(event.data)
        self._changed.set()

    def drop(self, count: int) -> None:
        """Count events that did not reach the listener."""
        self._dropped += count
        self._counted(self._sink, count)

    def end(self) -> None:
        """Accept no more events; waiting ones can still be taken."""
        self._is_over = True
        self._changed.set()

    def forget(self) -> None:
        """Drop the waiting events."""
        if self._waiting:
            self.drop(len(self._waiting))
            self._waiting.clear()
            self._used = 0

    async def take(self, *, most_bytes: int = READER_BYTES, seconds: float | None = None) -> Taken | None:
        """The waiting events, at least one; none after ``seconds``, and None at the end."""
        if not self._waiting and not self._is_over:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        if self._is_over and not self._waiting:
            return None
        events: list[EncodedEvent] = []
        size = 0
        while self._waiting and (not events or size + len(self._waiting[0].data) <= most_bytes):
            events.append(event := self._waiting.popleft())
            size += len(event.data)
        self._used -= size
        dropped, self._dropped = self._dropped, 0
        return Taken(events, dropped)


class Feed:
    """The events of one process, for all its listeners. ``now``: seconds since the epoch."""

    def __init__(self, *, now: Callable[[], float], dropped: Callable[[EventSink, int], None]) -> None:
        self._now = now
        self._dropped = dropped
        self._listeners: set[Listener] = set()
        self._readers: set[Listener] = set()
        self._is_over = False

    @property
    def is_heard(self) -> bool:
        return bool(self._listeners)

    @property
    def readers(self) -> int:
        return len(self._readers)

    def listener(self, sink: EventSink, most_bytes: int) -> Listener:
        """Add a listener for the life of the process."""
        added = Listener(sink, most_bytes, self._dropped)
        self._listeners.add(added)
        return added

    def reader(self) -> Listener | None:
        """Add a reader until it calls `leave`; None if there are too many, or the process ends."""
        if self._is_over or len(self._readers) >= MOST_READERS:
            return None
        added = self.listener(EventSink.READER, READER_BYTES)
        self._readers.add(added)
        return added

    def leave(self, reader: Listener) -> None:
        self._readers.discard(reader)
        self._listeners.discard(reader)

    def hang_up(self) -> None:
        """End all readers, because the process ends."""
        self._is_over = True
        for reader in self._readers:
            reader.end()

    def emit(self, name: EventName, collection: str, points: Sequence[EventPoint]) -> None:
        event = Event(event=name, at=moment(self._now()), collection=collection, points=list(points))
        encoded = EncodedEvent(name, msgspec.json.encode(event))
        for listener in self._listeners:
            listener.put(encoded)


def key_of(secret: bytes) -> bytes:
    """The key in a webhook's secret."""
    if secret.startswith(PREFIX):
        with suppress(NotBase64Error):
            return b64decode(secret[len(PREFIX) :], validate=True)
    return secret


def signed(key: bytes, body: bytes, *, id: str, seconds: int) -> dict[str, str]:  # noqa: A002 - as the header
    """The header fields of a signed request (Standard Webhooks). ``seconds``: since the epoch."""
    digest = hmac.digest(key, b"%s.%d.%s" % (id.encode(), seconds, body), "sha256")
    return {
        "webhook-id": id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + b64encode(digest).decode(),
    }
