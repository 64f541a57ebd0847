"""One connection to the database, on a transport of the test's own: what is read, and when the connection is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.network.upstream_wire import CHUNKED, OK, Line, body_of, outcome
from vecsieve.proxy.http.upstream_connection import (
    REPLY_FIELD_BYTES,
    REPLY_FIELDS,
    UNREAD_BYTES,
    Exchange,
)
from vecsieve.proxy.search.errors import FailureKind, UpstreamExchangeError


def cut_at(data: bytes, places: Sequence[int]) -> list[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(marks)]


def answered(*pieces: bytes) -> tuple[Line, Exchange]:
    """A line on which the database has answered the first request so far."""
    line = Line()
    exchange = line.ask()
    line.hear(*pieces)
    return line, exchange


BODIES = st.binary(max_size=60)
NAMES = st.sampled_from([b"X-A", b"x-a", b"Vary", b"Server", b"Set-Cookie"])
VALUES = st.text("abc ;,=\u00e9", max_size=12).map(lambda text: text.strip().encode())
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4)


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@given(
    fields=FIELDS,
    body=BODIES,
    framing=st.sampled_from(["length", "chunks", "end"]),
    interim=st.booleans(),
    places=st.lists(st.integers(0, 500), max_size=12),
    size=st.integers(1, 20),
)
async def test_any_split_of_its_bytes_gives_the_same_reply(
    fields: list[tuple[bytes, bytes]], body: bytes, framing: str, interim: bool, places: list[int], size: int
) -> None:
    """Invariant: status, reason, fields and body are those that were sent, however the bytes are cut on their way."""
    framing_fields = {
        "length": [(b"Content-Length", b"%d" % len(body))],
        "chunks": [(b"Transfer-Encoding", b"chunked")],
        "end": [],
    }[framing]
    lines = b"".join(b"%s: %s\r\n" % pair for pair in [*fields, *framing_fields])
    sent = (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" if interim else b"") + b"HTTP/1.1 299 Fine\r\n" + lines
    sent += b"\r\n" + (chunked(body, size) if framing == "chunks" else body)
    line, exchange = answered(*cut_at(sent, places))
    if framing == "end":
        line.end()
    assert await outcome(exchange) == (299, "Fine", (*fields, *framing_fields), body)
    assert (line.owner.freed_ones, line.owner.gone_ones) == ((0, 1) if framing == "end" else (1, 0))


@given(
    data=st.one_of(
        st.binary(max_size=80),
        st.tuples(
            st.sampled_from([OK, CHUNKED + b"2\r\nok\r\n0\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + OK]),
            st.integers(0, 90),
            st.binary(max_size=4),
        ).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] :]),
    ),
    places=st.lists(st.integers(0, 200), max_size=6),
    is_reset=st.booleans(),
)
async def test_whatever_comes_the_exchange_ends_and_its_connection_is_used_again_only_after_a_whole_reply(
    data: bytes, places: list[int], is_reset: bool
) -> None:
    """Invariant: bytes, then the connection's end, give a reply or a failure; a failed exchange frees no connection."""
    line, exchange = answered(*cut_at(data, places))
    line.end(ConnectionResetError(104, "reset") if is_reset else None)
    seen = await asyncio.wait_for(outcome(exchange), 30)
    assert line.owner.gone_ones == 1
    if line.owner.freed_ones:
        assert isinstance(seen, tuple)
        assert len(seen) == 4


async def test_nothing_heard_of_a_reply_is_a_timeout() -> None:
    line = Line(stall_seconds=0.05)
    exchange = line.ask()
    assert await asyncio.wait_for(outcome(exchange), 30) is FailureKind.TIMEOUT
    assert line.wire.is_ended


async def test_a_deadline_covers_head_and_body_and_ends_with_the_reply() -> None:
    loop = asyncio.get_running_loop()
    line = Line()
    exchange = line.ask(deadline_at=loop.time() + 0.02)
    line.hear(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
    seen = cast("tuple[Any, ...]", await asyncio.wait_for(outcome(exchange), 30))
    assert seen[3:] == (b"ab", FailureKind.TIMEOUT)
    line = Line()
    exchange = line.ask(deadline_at=loop.time() + 0.02)
    line.hear(OK)
    await asyncio.sleep(0.05)
    assert exchange.failure is None
    assert not line.wire.is_ended


async def test_one_timer_serves_all_exchanges_of_a_connection() -> None:
    line = Line()
    timers = set()
    for _ in range(3):
        line.ask()
        timers.add(id(line.connection._timer))
        line.hear(OK)
    assert len(timers) == 1
    assert line.owner.freed_ones == 3
    line.connection.close()
    assert line.connection._timer is None


@pytest.mark.parametrize(
    ("more", "is_free"),
    [
        (b"", True),
        (OK, False),
        (b"HTTP/1.1 200 O", False),
        (b"x", False),
        (b"\r\n", True),
    ],
    ids=["nothing", "another reply", "the beginning of one", "garbage", "an empty line"],
)
async def test_what_follows_a_reply_ends_the_connection(more: bytes, is_free: bool) -> None:
    line, exchange = answered(OK + more)
    assert line.owner.freed_ones == is_free
    assert line.wire.is_ended is not is_free
    seen = await outcome(exchange)
    assert seen is FailureKind.PROTOCOL if more == b"x" else cast("tuple[Any, ...]", seen)[3] == b"ok"


async def test_what_comes_unasked_ends_the_connection() -> None:
    line, exchange = answered(OK)
    assert await body_of_reply(exchange) == b"ok"
    line.hear(OK)
    assert (line.wire.is_ended, line.owner.gone_ones) == (True, 1)


async def body_of_reply(exchange: Exchange) -> bytes:
    await exchange.head()
    return await body_of(exchange)


async def test_a_trailer_is_in_no_later_reply() -> None:
    line, first = answered(CHUNKED + b"2\r\nok\r\n0\r\nSet-Cookie: other\r\n\r\n")
    assert await body_of_reply(first) == b"ok"
    second = line.ask()
    line.hear(OK)
    await second.head()
    assert second.raw_headers == ((b"Content-Length", b"2"),)


@pytest.mark.parametrize(
    ("answer", "is_free"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", True),
    ],
)
async def test_the_reply_to_head_is_whole_with_its_head(answer: bytes, is_free: bool) -> None:
    line = Line()
    exchange = line.ask(is_head=True)
    line.hear(answer)
    assert await body_of_reply(exchange) == b""
    assert line.owner.freed_ones == is_free


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_so_is_one_with_a_status_that_has_no_body(status: bytes) -> None:
    _, exchange = answered(b"HTTP/1.1 " + status + b"\r\nX-A: 1\r\n\r\n")
    assert await body_of_reply(exchange) == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_a_database_that_will_close_is_asked_nothing_more(answer: bytes) -> None:
    line, exchange = answered(answer)
    assert await body_of_reply(exchange) == b"ok"
    assert (line.wire.is_ended, line.owner.freed_ones) == (True, 0)


@pytest.mark.parametrize(
    ("answer", "error", "kind"),
    [
        (b"", None, FailureKind.RESET),
        (b"", ConnectionResetError(104, "x"), FailureKind.RESET),
        (b"HTTP/1.1 200 OK\r\nContent-Le", None, FailureKind.RESET),
        (b"\x00garbage\r\n\r\n", None, FailureKind.PROTOCOL),
        (
            b"HTTP/1.1 200 OK\r\nX: " + bytes(REPLY_FIELD_BYTES).replace(b"\0", b"a") + b"\r\n\r\n",
            None,
            FailureKind.PROTOCOL,
        ),
        (b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * (REPLY_FIELDS + 1) + b"\r\n", None, FailureKind.PROTOCOL),
    ],
    ids=["an end", "a reset", "an end in the head", "garbage", "a large field", "many fields"],
)
async def test_without_a_head_there_is_no_reply(answer: bytes, error: Exception | None, kind: FailureKind) -> None:
    line = Line()
    exchange = line.ask()
    if answer:
        line.hear(answer)
    line.end(error)
    assert await outcome(exchange) is kind
    assert exchange.failure == (kind, 104 if error else None, "")


@pytest.mark.parametrize(
    ("answer", "error", "came"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", None, b"ok"),
        (CHUNKED + b"2\r\nok\r\n", None, b"ok"),
        (CHUNKED + b"2\r\nok\r\nzz\r\n", None, b"ok"),
        (b"HTTP/1.1 200 OK\r\n\r\nok", ConnectionResetError(104, "x"), b"ok"),
    ],
    ids=["a shorter body", "no last chunk", "a malformed chunk", "a reset in a body without a length"],
)
async def test_a_body_cut_short_is_never_whole(answer: bytes, error: Exception | None, came: bytes) -> None:
    line = Line()
    exchange = line.ask()
    head, _, body = answer.partition(b"\r\n\r\n")
    line.hear(head + b"\r\n\r\n", body)
    line.end(error)
    seen = cast("tuple[Any, ...]", await outcome(exchange))
    assert seen[3:] == (came, FailureKind.TRUNCATED)


async def test_nothing_is_read_while_enough_is_unread_and_all_of_it_arrives() -> None:
    line, size = Line(), 5 * UNREAD_BYTES
    exchange = line.ask()
    line.hear(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    await exchange.head()
    sent = 0
    body = b""
    while sent < size:
        while sent < size and not line.wire.is_paused:
            line.hear(bytes(100_000)[: size - sent])
            sent += min(100_000, size - sent)
            assert exchange.received_bytes - len(body) <= 2 * UNREAD_BYTES + 100_000
        body += await exchange.read()
    body += await body_of(exchange)
    assert len(body) == size
    assert line.owner.freed_ones == 1
    assert not line.wire.is_paused


@pytest.mark.parametrize("remaining", [0, 1, UNREAD_BYTES])
async def test_a_connection_whose_last_reply_was_large_reads_the_next_one(remaining: int) -> None:
    line, size = Line(), 4 * UNREAD_BYTES
    exchange = line.ask()
    line.hear(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, bytes(size - remaining))
    assert line.wire.is_paused
    if remaining:
        assert len(await exchange.read()) == size - remaining
        line.hear(bytes(remaining))
    assert len(await body_of(exchange)) == remaining or size
    assert line.owner.freed_ones == 1
    assert not line.wire.is_paused, "the next reply would wait for ever"


async def test_while_reading_is_paused_silence_does_not_count() -> None:
    line = Line(stall_seconds=0.05)
    exchange = line.ask()
    line.hear(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (9 * UNREAD_BYTES), bytes(3 * UNREAD_BYTES))
    assert line.wire.is_paused
    await asyncio.sleep(0.3)
    assert exchange.failure is None
    while await exchange.read() and exchange.is_owed is False:
        pass
    assert await asyncio.wait_for(failed(exchange), 30) is FailureKind.TIMEOUT


async def failed(exchange: Exchange) -> FailureKind:
    with pytest.raises(UpstreamExchangeError) as caught:
        await body_of(exchange)
    return caught.value.kind


async def test_the_readers_of_earlier_replies_do_not_touch_the_connection_of_later_ones() -> None:
    line, first = answered(OK)
    await first.head()
    second = line.ask()
    first.pause_reading()
    assert not line.wire.is_paused
    await first.close()
    assert not line.wire.is_ended
    line.hear(OK)
    assert await body_of_reply(second) == b"ok"


async def test_a_reply_that_is_left_ends_its_connection() -> None:
    line, exchange = answered(OK[:-1])
    await exchange.close()
    assert (line.wire.is_ended, line.owner.gone_ones, line.owner.freed_ones) == (True, 1, 0)
    line.connection.connection_lost(None)
    assert line.owner.gone_ones == 1


async def test_two_exchanges_at_once_are_refused() -> None:
    line = Line()
    line.ask()
    with pytest.raises(RuntimeError, match="one exchange at a time"):
        line.ask()


async def test_a_connection_that_ended_before_the_first_byte_takes_none() -> None:
    line = Line()
    line.wire.is_ended = True
    assert await outcome(line.ask(b"{}")) is FailureKind.RESET
    assert line.wire.writes == []


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: \xe9\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 caf\xe9\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_head_that_may_not_be_passed_on_ends_its_connection(head: bytes) -> None:
    line, exchange = answered(head)
    assert (line.owner.freed_ones, line.owner.gone_ones, line.wire.is_ended) == (0, 1, True)
    assert await outcome(exchange) is FailureKind.PROTOCOL


async def test_whoever_reads_a_reply_that_is_given_up_is_woken() -> None:
    _, exchange = answered(OK[:-1])
    reading = asyncio.create_task(outcome(exchange))
    await asyncio.sleep(0.01)
    exchange.abandon()
    seen = cast("tuple[Any, ...]", await asyncio.wait_for(reading, 30))
    assert seen[3:] == (b"o", FailureKind.RESET)


@given(
    sizes=st.lists(
        st.sampled_from([0, 1, 1000, UNREAD_BYTES, 2 * UNREAD_BYTES, 2 * UNREAD_BYTES + 1, 5 * UNREAD_BYTES]),
        max_size=5,
    ),
    segment=st.sampled_from([70_000, UNREAD_BYTES, 3 * UNREAD_BYTES]),
    framing=st.sampled_from(["length", "chunks"]),
    order=st.lists(st.booleans(), min_size=1, max_size=8),
)
@settings(deadline=None, max_examples=40)
async def test_replies_of_any_size_follow_each_other_however_their_readers_pause(
    sizes: list[int], segment: int, framing: str, order: list[bool]
) -> None:
    """Invariant: every reply is read whole, and a connection that is free is one that reads."""
    line, turns = Line(), cycle(order)
    for number, size in enumerate(sizes):
        exchange, body = line.ask(), bytes(size)
        head = b"HTTP/1.1 200 OK\r\n"
        sent = head + b"Content-Length: %d\r\n\r\n" % size + body
        if framing == "chunks":
            sent = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, 100_000)
        pieces = [sent[start : start + segment] for start in range(0, len(sent), segment)]
        line.hear(pieces.pop(0))
        await exchange.head()
        read = 0
        while pieces or read < size:
            if pieces and not line.wire.is_paused and next(turns):
                line.hear(pieces.pop(0))
            elif read < exchange.received_bytes:
                read += len(await exchange.read())
            elif pieces:
                assert not line.wire.is_paused, "all that came was read, and nothing more is heard"
                line.hear(pieces.pop(0))
        assert read == size
        assert await exchange.read() == b""
        assert line.owner.freed_ones == number + 1
        assert not line.wire.is_paused
