"""Lookups on the wire: the client's own credentials, one request for a pool, and no failure that a client could see."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, Script, Talk, raw_exchange, reply
from support.pinecone.model import Service, Stored
from support.process.running import Running, running, until
from support.qdrant.scripted import JSON
from vecsieve.proxy.search.hedge import HedgeTimes

Handler = Callable[[Talk, Received], Awaitable[bool]]
"""Answers a lookup; True when the connection may go on."""

# Each pair of records is one vector in two spellings that share no word.
TEXTS = [f'"{one}{two} {two}{one} {one}{one}"' for one in "abcd" for two in "wx"]
VECTORS = {f"r{rank}": [float(rank // 2 == axis) for axis in range(8)] for rank in range(len(TEXTS))}
SERVICE = Service(records=tuple(
    Stored(id=f'"r{rank}"', score=f"{0.9 - rank / 100:.2f}", fields=(("text", text),)) for rank, text in enumerate(TEXTS)
))  # fmt: skip
DISTINCT, FIRSTS = ["r0", "r2", "r4"], ["r0", "r1", "r2"]
PAGE_UNITS, EXTRA_UNITS = 5, 2


def is_lookup(received: Received) -> bool:
    return received.line.startswith(b"GET /vectors/fetch?")


def vectors(received: Received) -> bytes:
    ids = parse_qs(urlsplit(received.line.split(b" ")[1].decode()).query)["ids"]
    records = {one: {"id": one, "values": VECTORS[one], "metadata": {"text": "t"}} for one in ids}
    return json.dumps({"vectors": records, "namespace": "ns", "usage": {"readUnits": EXTRA_UNITS}}).encode()


async def honest(talk: Talk, received: Received) -> bool:
    await talk.send(reply(vectors(received), headers=[JSON, (b"x-pinecone-request-id", b"of the lookup")]))
    return True


def pinecone(handle: Handler = honest) -> Script:
    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            if is_lookup(received):
                if not await handle(talk, received):
                    return
            else:
                body = SERVICE.answer("records_search", received.content)
                await talk.send(reply(body, headers=[JSON, (b"x-pinecone-request-id", b"of the search")]))

    return script


def search(headers: bytes = b"", *, namespace: bytes = b"n%20s") -> bytes:
    body = b'{"query":{"top_k":3,"inputs":{"text":"a"}}}'
    return (
        b"POST /records/namespaces/" + namespace + b"/search HTTP/1.1\r\nHost: db\r\nConnection: close\r\n"
        b"Api-Key: secret\r\nX-Pinecone-API-Version: 2025-10\r\nX-Pinecone-API-Version: 2025-10\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body) + headers + b"\r\n" + body
    )


def proxied(
    upstream: FaultyUpstream,
    *,
    integrated: str = "fetch",
    budget: int | None = None,
    texts: str | None = "edited",
    **settings: Any,
) -> AbstractAsyncContextManager[Running]:
    changes = {"index_host": upstream.url, "egress_budget_bytes": budget}
    policy = {"fetch": {"integrated": integrated}, "texts": texts}
    return running(upstream.url, backend="pinecone", pinecone=changes, policy=policy, **settings)


def result_of(answer: bytes) -> tuple[list[str], int]:
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200 ")
    parsed = json.loads(body)
    return [hit["_id"] for hit in parsed["result"]["hits"]], parsed["usage"]["read_units"]


def lookups(upstream: FaultyUpstream) -> list[Received]:
    return [received for received in upstream.requests if is_lookup(received)]


def looked(proxy: Running, result: str) -> float:
    return proxy.count("lookups_total", backend="pinecone", result=result)


async def test_a_lookup_carries_the_clients_credentials_and_nothing_of_its_body() -> None:
    async with FaultyUpstream(pinecone()) as upstream, proxied(upstream, texts=None) as proxy:
        answer = await raw_exchange(proxy.port, search(b"Accept-Encoding: gzip\r\nX-VecSieve-Mode: on\r\n"))
        assert result_of(answer) == (DISTINCT, PAGE_UNITS + EXTRA_UNITS)
        (sent,) = lookups(upstream)
        ids = "&".join(f"ids={one}" for one in VECTORS)
        assert sent.line == f"GET /vectors/fetch?{ids}&namespace=n%20s HTTP/1.1".encode()
        assert sent.body == b""
        assert [(name.lower(), value) for name, value in sent.headers] == [
            (b"host", f"127.0.0.1:{upstream.port}".encode()),
            (b"api-key", b"secret"),
            (b"x-pinecone-api-version", b"2025-10"),
            (b"x-pinecone-api-version", b"2025-10"),
            (b"accept-encoding", b"identity"),
        ]


async def test_the_answer_has_the_searchs_head_and_says_what_was_spent() -> None:
    async with FaultyUpstream(pinecone()) as upstream, proxied(upstream) as proxy:
        answer = await raw_exchange(proxy.port, search())
        assert b"x-pinecone-request-id: of the search" in answer
        assert b"of the lookup" not in answer
        assert b";extra_read_units=%d\r\n" % EXTRA_UNITS in answer
        assert proxy.count("extra_read_units_total", backend="pinecone") == EXTRA_UNITS
        assert looked(proxy, "found") == 1
        assert proxy.failed_open() == {}


async def refused(talk: Talk, _: Received) -> bool:
    await talk.send(reply(b'{"code":8,"message":"quota","details":[]}', status=b"429 Too Many Requests"))
    return True


async def broken(talk: Talk, _: Received) -> bool:
    await talk.send(reply(b"no", status=b"503 Service Unavailable"))
    return True


async def silent(_: Talk, __: Received) -> bool:
    await asyncio.sleep(30.0)
    return False


async def reset(talk: Talk, _: Received) -> bool:
    talk.reset()
    return False


async def cut(talk: Talk, received: Received) -> bool:
    await talk.send(reply(vectors(received), length=10_000))
    return False


async def nonsense(talk: Talk, received: Received) -> bool:
    await talk.send(reply(vectors(received)[:-3], headers=[JSON]))
    return True


async def coded(talk: Talk, received: Received) -> bool:
    await talk.send(reply(gzip.compress(vectors(received)), headers=[JSON, (b"content-encoding", b"gzip")]))
    return True


async def enormous(talk: Talk, _: Received) -> bool:
    await talk.send(reply(b" " * 1_100_000, headers=[JSON]))
    return False


@pytest.mark.parametrize(
    ("handle", "result"),
    [
        (refused, "status"),
        (broken, "status"),
        (silent, "timeout"),
        (reset, "reset"),
        (cut, "reset"),
        (nonsense, "malformed"),
        (coded, "malformed"),
        (enormous, "too_large"),
    ],
)
async def test_whatever_a_lookup_ends_in_the_client_gets_what_texts_select(handle: Handler, result: str) -> None:
    settings: dict[str, Any] = {"limits": {"reply_body_bytes": 1_000_000}}
    if handle is silent:  # the search has 2 s, and the lookup what is left of them
        brief = HedgeTimes(attempt_least=60.0, hedge_least=0.25, hedge_most=60.0)
        settings = {"limits": {"attempt_timeout_seconds": 4.0}, "hedge_times": brief}
    async with FaultyUpstream(pinecone(handle)) as upstream, proxied(upstream, **settings) as proxy:
        assert result_of(await raw_exchange(proxy.port, search())) == (FIRSTS, PAGE_UNITS)
        assert len(upstream.requests) == 2  # the search and one lookup: nothing is tried twice
        assert looked(proxy, result) == 1
        assert proxy.failed_open() == {}
        assert proxy.count("extra_read_units_total", backend="pinecone") == 0


async def test_in_shadow_the_answer_is_upstreams_and_the_bill_is_shown() -> None:
    async with (
        FaultyUpstream(pinecone()) as upstream,
        proxied(upstream, mode="shadow", shadow={"sample": 1.0}) as proxy,
    ):
        assert result_of(await raw_exchange(proxy.port, search())) == (FIRSTS, PAGE_UNITS)
        await until(lambda: looked(proxy, "found"))
        assert proxy.count("extra_read_units_total", backend="pinecone") == EXTRA_UNITS


async def test_unless_asked_for_nothing_is_looked_up() -> None:
    async with FaultyUpstream(pinecone()) as upstream, proxied(upstream, integrated="text") as proxy:
        answer = await raw_exchange(proxy.port, search())
        assert result_of(answer) == (FIRSTS, PAGE_UNITS)
        assert b"read_units=" not in answer.split(b"\r\n\r\n", 1)[0]
        assert lookups(upstream) == []


async def test_a_client_that_leaves_during_a_lookup_leaves_nothing_behind() -> None:
    started = asyncio.Event()

    async def slow(_: Talk, __: Received) -> bool:
        started.set()
        await asyncio.sleep(60)
        return False

    async with FaultyUpstream(pinecone(slow)) as upstream, proxied(upstream) as proxy:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(search())
        await asyncio.wait_for(started.wait(), 10)
        assert proxy.process.searches_in_flight == 1
        writer.transport.abort()
        assert await until(lambda: not proxy.process.searches_in_flight)
        assert len(upstream.requests) == 2
