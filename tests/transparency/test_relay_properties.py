"""The relay against no relay: for generated messages the other side sees the same with and without it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from support.exchanges.any_message import FIELDS, MESSAGE, TARGET, VALUE, Message, lines
from support.network.faulty_upstream import (
    FaultyUpstream,
    RawClient,
    RawReply,
    Received,
    answering,
    raw_exchange,
    reply,
)
from support.network.relay_server import bare_relay


async def both_ways(data: bytes) -> tuple[Received, Received]:
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url) as relay:
        host = b"Host: 127.0.0.1:%d\r\n" % upstream.port
        for port in (upstream.port, relay.port):
            client = await RawClient.connect(port)
            await client.send(data.replace(b"Host: h\r\n", host))
            await client.reply()
            await client.close()
        direct, through = upstream.requests
        return direct, through


@given(st.sampled_from(["GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"]), TARGET, FIELDS, FIELDS, MESSAGE)
def test_a_request_arrives_as_it_would_without_the_relay(
    method: str, target: str, before: list[tuple[str, str]], after: list[tuple[str, str]], message: Message
) -> None:
    # Invariant: request line, field list and content upstream are equal with and without the relay.
    data = f"{method} {target} HTTP/1.1\r\n".encode() + lines(before) + b"Host: h\r\n" + message.head() + lines(after)
    direct, through = asyncio.run(both_ways(data + b"\r\n" + message.wire()))
    assert through.head == direct.head
    assert through.content == direct.content


async def answer_both_ways(answer: bytes) -> tuple[RawReply, RawReply]:
    async with FaultyUpstream(answering(answer)) as upstream, bare_relay(upstream.url) as relay:
        replies = []
        for port in (upstream.port, relay.port):
            client = await RawClient.connect(port)
            await client.send(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n")
            replies.append(await client.reply())
            await client.close()
        return replies[0], replies[1]


@given(
    st.integers(200, 599).filter(lambda status: status not in {204, 304}),
    VALUE,
    FIELDS,
    FIELDS,
    MESSAGE.filter(lambda message: message.framing != "none"),
)
def test_an_answer_arrives_as_it_would_without_the_relay(
    status: int, reason: str, before: list[tuple[str, str]], after: list[tuple[str, str]], message: Message
) -> None:
    # Invariant: status line, field list and content at the client are equal with and without the relay.
    answer = f"HTTP/1.1 {status} {reason}\r\n".encode() + lines(before) + message.head() + lines(after) + b"\r\n"
    direct, through = asyncio.run(answer_both_ways(answer + message.wire()))
    assert through.head == direct.head
    assert through.body == direct.body


@given(st.binary(max_size=300))
def test_arbitrary_bytes_neither_reach_the_database_as_a_request_nor_go_unanswered(data: bytes) -> None:
    # Invariant: what is no request is refused in our words or the connection ends; nothing hangs, nothing leaks through.
    async def run() -> tuple[bytes, int]:
        async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url) as relay:
            answer = await raw_exchange(relay.port, data + b"\r\n\r\n\x00\r\n\r\n")
            return answer, len(upstream.requests)

    answer, reached = asyncio.run(run())
    assert reached == 0
    assert answer == b"" or b"x-vecsieve-origin: proxy" in answer
