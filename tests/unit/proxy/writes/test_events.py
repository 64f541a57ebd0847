"""Events for who listens: bounded queues, counted drops, an end, and signatures."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from vecsieve.proxy.telemetry.labels import EventSink, WriteTier
from vecsieve.proxy.writes.events import (
    MOST_READERS,
    READER_BYTES,
    EncodedEvent,
    EventName,
    EventPoint,
    Feed,
    Listener,
    key_of,
    signed,
)


class Counted:
    def __init__(self) -> None:
        self.dropped = dict.fromkeys(EventSink, 0)

    def __call__(self, sink: EventSink, count: int) -> None:
        self.dropped[sink] += count


def feed(counted: Counted | None = None) -> Feed:
    return Feed(now=lambda: 1_800_000_000.5, dropped=Counted() if counted is None else counted)


async def test_an_event_has_ids_tier_similarity_and_collection() -> None:
    event_feed = feed()
    reader = event_feed.reader()
    assert reader is not None
    copy = EventPoint(id=Raw(b"7"), duplicate_of=Raw(b'"a-b"'), tier=WriteTier.EXACT, similarity=0.9931)
    event_feed.emit(EventName.DUPLICATE_FOUND, "articles", [copy, EventPoint(id=Raw(b"8"))])
    taken = await reader.take()
    assert taken is not None
    ((name, data),) = taken.events
    assert name == "duplicate-found"
    assert json.loads(data) == {
        "event": "duplicate-found",
        "at": "2027-01-15T08:00:00.500+00:00",
        "collection": "articles",
        "points": [{"id": 7, "duplicateOf": "a-b", "tier": "exact", "similarity": 0.9931}, {"id": 8}],
    }


async def test_nothing_is_heard_without_listeners_and_readers_are_bounded() -> None:
    event_feed = feed()
    assert not event_feed.is_heard
    readers = [event_feed.reader() for _ in range(MOST_READERS)]
    assert event_feed.reader() is None
    assert event_feed.readers == MOST_READERS
    assert readers[0] is not None
    event_feed.leave(readers[0])
    assert event_feed.reader() is not None
    event_feed.listener(EventSink.WEBHOOK, 9)
    assert event_feed.readers == MOST_READERS


async def test_when_the_process_ends_readers_get_what_waits_and_then_the_end_and_none_is_new() -> None:
    event_feed = feed()
    reader, webhook = event_feed.reader(), event_feed.listener(EventSink.WEBHOOK, READER_BYTES)
    assert reader is not None
    event_feed.emit(EventName.ADDED, "c", [EventPoint(id=Raw(b"1"))])
    event_feed.hang_up()
    taken = await reader.take()
    assert taken is not None
    assert len(taken.events) == 1
    assert await reader.take() is None
    assert event_feed.reader() is None
    event_feed.emit(EventName.ADDED, "c", [EventPoint(id=Raw(b"2"))])
    heard = await webhook.take()
    assert heard is not None
    assert len(heard.events) == 2


async def test_one_who_waits_is_woken_by_an_event_and_by_the_end_and_gets_nothing_after_its_time() -> None:
    event_feed = feed()
    reader = event_feed.reader()
    assert reader is not None
    assert await reader.take(seconds=0.0) == ([], 0)
    waiting = asyncio.create_task(reader.take())
    await asyncio.sleep(0)
    event_feed.emit(EventName.ADDED, "c", [EventPoint(id=Raw(b"1"))])
    taken = await waiting
    assert taken is not None
    assert len(taken.events) == 1
    waiting = asyncio.create_task(reader.take())
    await asyncio.sleep(0)
    event_feed.hang_up()
    assert await waiting is None


@given(
    sizes=st.lists(st.one_of(st.integers(1, 12), st.none()), max_size=40),
    most=st.integers(1, 30),
    at_once=st.integers(1, 30),
)
def test_every_event_is_taken_in_order_or_counted_and_no_more_bytes_wait_than_may(
    sizes: list[int | None], most: int, at_once: int
) -> None:
    """Invariant: what is taken is what was put and not dropped, in order; None in the list takes a batch."""

    async def run() -> None:
        counted = Counted()
        listener = Listener(EventSink.READER, most, counted)
        put: list[EncodedEvent] = []
        taken: list[EncodedEvent] = []
        dropped = 0

        async def take() -> int:
            batch = await listener.take(most_bytes=at_once, seconds=0.0)
            assert batch is not None
            assert len(batch.events) <= 1 or sum(len(event.data) for event in batch.events) <= at_once
            taken.extend(batch.events)
            return batch.dropped

        for number, size in enumerate(sizes):
            if size is None:
                dropped += await take()
                continue
            before = counted.dropped[EventSink.READER]
            listener.put(encoded := EncodedEvent(EventName.ADDED, bytes([number]) * size))
            if counted.dropped[EventSink.READER] == before:
                put.append(encoded)
            assert sum(len(encoded.data) for encoded in put[len(taken) :]) <= most
        for _ in sizes:
            dropped += await take()
        assert dropped == counted.dropped[EventSink.READER]
        assert taken == put
        assert len(put) + dropped == sum(size is not None for size in sizes)

    asyncio.run(run())


async def test_what_waits_at_the_end_is_dropped_and_counted() -> None:
    counted = Counted()
    webhook = feed(counted).listener(EventSink.WEBHOOK, READER_BYTES)
    for _ in range(3):
        webhook.put(EncodedEvent(EventName.ADDED, b"{}"))
    webhook.end()
    webhook.forget()
    assert counted.dropped[EventSink.WEBHOOK] == 3
    assert await webhook.take() is None


@given(secret=st.binary(min_size=16), body=st.binary(), seconds=st.integers(0, 2**33))
def test_a_signature_is_that_of_standard_webhooks(secret: bytes, body: bytes, seconds: int) -> None:
    """Invariant: HMAC-SHA256 of id.timestamp.body; a secret with `whsec_` is base64, any other the key itself."""
    fields = signed(secret, body, id="m1", seconds=seconds)
    digest = hmac.new(secret, b"m1.%d." % seconds + body, hashlib.sha256).digest()
    assert fields["webhook-signature"] == "v1," + b64encode(digest).decode()
    assert (fields["webhook-id"], fields["webhook-timestamp"]) == ("m1", str(seconds))
    assert key_of(b"whsec_" + b64encode(secret)) == secret
    assert key_of(b"plain " + secret) == b"plain " + secret


def test_a_secret_that_only_looks_like_base64_is_the_key_itself() -> None:
    assert key_of(b"whsec_no base64!") == b"whsec_no base64!"
