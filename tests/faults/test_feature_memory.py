"""The feature memory through a running proxy: fewer bytes for the same answers, and every score must fit."""

from __future__ import annotations

import json
from dataclasses import replace

from support.network.faulty_upstream import FaultyUpstream, Received, Script, Talk, raw_exchange, reply
from support.pinecone.model import Service, Stored
from support.process.running import Running, running
from support.qdrant.scripted import JSON
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.memory.points import WINDOW


def records(per_copy: int = 2) -> tuple[Stored, ...]:
    """Sixteen records on eight axes, each axis in so many copies; their scores are the inner products with a query of ones."""
    return tuple(
        Stored(
            id=f'"r{rank}"',
            score=f"{0.9 - rank // per_copy / 100:.3f}",
            values=json.dumps([(0.9 - rank // per_copy / 100) * (rank // per_copy == axis) for axis in range(8)]),
        )
        for rank in range(16)
    )


def pinecone(*stored: Stored, now: list[tuple[Stored, ...]] | None = None) -> Script:
    """Answers from ``now``'s last records where they are given."""

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            is_query = received.line.startswith(b"POST /query ")
            body = Service(records=now[-1] if now else stored).answer("query", received.content) if is_query else b"{}"
            await talk.send(reply(body, headers=[JSON]))

    return script


LOOKS = 3  # searches that look for a text, with whole payloads and vectors, until it is known that there is none


def request(path: bytes, body: bytes) -> bytes:
    return (
        b"POST " + path + b" HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )


QUERY = request(b"/query", b'{"topK":3,"vector":[1,1,1,1,1,1,1,1]}')


def requested_values(upstream: FaultyUpstream) -> list[bool]:
    return [is_query(received) and b'"includeValues":true' in received.content for received in upstream.requests]


def is_query(received: Received) -> bool:
    return received.line.startswith(b"POST /query ")


def recalls(proxy: Running) -> dict[str, float]:
    return {
        outcome: proxy.count("memory_recalls_total", backend="pinecone", result=outcome)
        for outcome in ("whole", "none")
    }


def answer_of(raw: bytes) -> list[str]:
    return [match["id"] for match in json.loads(raw.split(b"\r\n\r\n", 1)[1])["matches"]]


async def test_vectors_come_once_and_the_answer_stays_the_same() -> None:
    async with FaultyUpstream(pinecone(*records())) as upstream:
        settings = {"index_host": upstream.url}
        async with running(upstream.url, backend="pinecone", pinecone=settings) as proxy:
            for _ in range(WINDOW + 3):
                assert answer_of(await raw_exchange(proxy.port, QUERY)) == ["r0", "r2", "r4"]
            assert requested_values(upstream) == [True] * LOOKS + [False] * (WINDOW + 3 - LOOKS)
            assert recalls(proxy) == {"whole": WINDOW + 3.0 - LOOKS, "none": 0.0}


async def test_a_question_that_uses_up_the_budget_to_grow_its_pool_comes_without_vectors_all_the_same() -> None:
    """Eight records in twelve copies each: a page of twelve is always short."""
    scores = [0.9 - rank // 12 / 100 for rank in range(96)]
    values = [json.dumps([score * (axis == rank // 12) for axis in range(8)]) for rank, score in enumerate(scores)]
    stored = [Stored(id=f'"r{rank}"', score=f"{score:.3f}", values=values[rank]) for rank, score in enumerate(scores)]
    query = request(b"/query", b'{"topK":12,"vector":[1,1,1,1,1,1,1,1]}')
    async with FaultyUpstream(pinecone(*stored)) as upstream:
        settings = {"index_host": upstream.url}
        async with running(
            upstream.url, backend="pinecone", pinecone=settings, limits={"own_reads_share": 0.0}
        ) as proxy:
            for _ in range(WINDOW - 1):
                await raw_exchange(proxy.port, query)
            assert requested_values(upstream)[-3:] == [False] * 3
            assert proxy.count("own_reads_total", kind="grow") == 1


async def test_a_score_that_does_not_fit_makes_all_vectors_come_again() -> None:
    """Somebody wrote past the proxy: the same ids have other vectors now, and other scores."""
    now = [records()]
    async with FaultyUpstream(pinecone(now=now)) as upstream:
        settings = {"index_host": upstream.url}
        async with running(upstream.url, backend="pinecone", pinecone=settings) as proxy:
            for _ in range(WINDOW + 3):
                assert answer_of(await raw_exchange(proxy.port, QUERY)) == ["r0", "r2", "r4"]
            changed = tuple(
                replace(record, score="0.95", values=json.dumps([0.95] + [0.0] * 7)) if rank < 6 else record
                for rank, record in enumerate(records())
            )
            now.append(changed)
            assert answer_of(await raw_exchange(proxy.port, QUERY)) == ["r0", "r6", "r8"]
            assert requested_values(upstream)[-2:] == [False, True]
            assert recalls(proxy) == {"whole": WINDOW + 3.0 - LOOKS, "none": 1.0}


async def test_with_no_bytes_nothing_is_remembered() -> None:
    async with (
        FaultyUpstream(pinecone(*records())) as upstream,
        running(upstream.url, backend="pinecone", pinecone={"index_host": upstream.url}, memory={"bytes": 0}) as proxy,
    ):
        for _ in range(WINDOW + 3):
            await raw_exchange(proxy.port, QUERY)
        assert all(requested_values(upstream))


async def test_a_months_budget_holds_for_pinecone() -> None:
    async with FaultyUpstream(pinecone(*records())) as upstream:
        settings = {"index_host": upstream.url, "egress_budget_bytes": 1}
        async with running(upstream.url, backend="pinecone", pinecone=settings) as proxy:
            assert answer_of(await raw_exchange(proxy.port, QUERY)) == ["r0", "r2", "r4"]
            assert answer_of(await raw_exchange(proxy.port, QUERY)) == ["r0", "r1", "r2"]
            assert requested_values(upstream) == [True, False]


async def test_a_reload_brings_another_budget_and_keeps_what_is_spent() -> None:
    async with FaultyUpstream(pinecone(*records())) as upstream:
        settings: dict[str, object] = {"index_host": upstream.url, "egress_budget_bytes": 1}
        async with running(upstream.url, backend="pinecone", pinecone=settings) as proxy:
            await raw_exchange(proxy.port, QUERY)
            spent = json.loads(proxy.process.egress.as_json())["extra_bytes"]
            for budget, is_spent in ((spent, True), (spent + 1, False), (None, False)):
                settings["egress_budget_bytes"] = budget
                made = {"backend": "pinecone", "upstream": {"url": upstream.url}, "pinecone": settings}
                proxy.process.reload(Settings.model_validate(made))
                assert proxy.process.egress.is_spent is is_spent
