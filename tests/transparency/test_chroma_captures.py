"""What real clients of Chroma said to a real server, said again through the proxy to an upstream that answers as recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.chroma.captures import NEEDS_EXCHANGES, Exchanged, exchanges
from support.exchanges.captures import Captured
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, answering, reply
from support.process.running import Running, running

RECORDED = exchanges()
MAY_CHANGE = {"n_results", "include"}


def recorded_answer(exchanged: Exchanged) -> bytes:
    fields = tuple((name.encode(), value.encode()) for name, value in exchanged.headers if name != "Content-Length")
    return reply(exchanged.answer, status=b"%d As Recorded" % exchanged.status, headers=fields)


@asynccontextmanager
async def between(exchanged: Exchanged, mode: str) -> AsyncIterator[tuple[FaultyUpstream, Running]]:
    async with (
        FaultyUpstream(answering(recorded_answer(exchanged))) as upstream,
        running(upstream.url, mode=mode, backend="chroma") as proxy,
    ):
        yield upstream, proxy


async def reply_to(proxy: Running, sent: Captured) -> bytes:
    client = await RawClient.connect(proxy.port)
    await client.send(sent.raw)
    answer = await client.reply()
    await client.close()
    return answer.head + answer.body


def is_what_was_sent(received: Received, sent: Captured, upstream: FaultyUpstream) -> bool:
    """Host and Connection belong to the client's own hop; nothing else may change."""
    fields = [
        (name.encode(), b"127.0.0.1:%d" % upstream.port if name == "Host" else value.encode())
        for name, value in sent.headers
        if name != "Connection"
    ]
    return (received.line, received.headers, received.body) == (sent.line, fields, sent.body)


@NEEDS_EXCHANGES
@pytest.mark.parametrize("mode", ["off", "shadow"])
async def test_in_modes_off_and_shadow_every_request_arrives_as_it_was_and_so_does_its_answer(mode: str) -> None:
    for exchanged in RECORDED:
        async with between(exchanged, mode) as (upstream, proxy):
            assert await reply_to(proxy, exchanged.request) == recorded_answer(exchanged), exchanged.request.label
            assert is_what_was_sent(upstream.requests[0], exchanged.request, upstream), exchanged.request.label


@NEEDS_EXCHANGES
async def test_in_mode_on_only_queries_ask_for_more_and_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    widened = 0
    for exchanged in RECORDED:
        sent = exchanged.request
        async with between(exchanged, "on") as (upstream, proxy):
            answer = await reply_to(proxy, sent)
            # The upstream answers a widened request with what was recorded for the client's: unless the client asked for
            # all that selection reads, that does not fit.
            lines = [line for line in answer.split(b"\r\n") if not line.startswith(b"x-vecsieve")]
            assert b"\r\n".join(lines) == recorded_answer(exchanged), sent.label
            if b"x-vecsieve: " not in answer:
                assert is_what_was_sent(upstream.requests[-1], sent, upstream), sent.label
            if len(upstream.requests) > 1:
                first, plain = (json.loads(body) for body in (upstream.requests[0].body, sent.body))
                assert {
                    name for name in first.keys() | plain.keys() if first.get(name) != plain.get(name)
                } <= MAY_CHANGE
                widened += 1
        assert len(upstream.requests) == 1 or exchanged.is_query
    assert widened >= 10
