"""The judge of S6 finds a cache that forgets whose answer it keeps; through the proxy it finds nothing."""

from __future__ import annotations

import asyncio

from prove.security_tenants import TENANTS, Alone, Judge, calls, database, over_http, pinecones, qdrant, qdrants
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, reply
from support.qdrant.scripted import JSON


async def test_a_cache_without_the_key_in_its_key_is_found_out() -> None:
    judge, kept = Judge(), dict[bytes, bytes]()
    async with FaultyUpstream(database(judge)) as upstream:

        async def cached(talk: Talk) -> None:
            back = await RawClient.connect(upstream.port)
            while (received := await talk.request()) is not None:
                if received.line not in kept:
                    await back.send(received.raw)
                    kept[received.line] = (await back.reply()).body
                await talk.send(reply(kept[received.line], headers=[JSON]))
            await back.close()

        async with FaultyUpstream(cached) as careless:
            await over_http(careless.port, judge, qdrant, 32)
    found = judge.finding("searches")
    assert found.met is False
    assert "answers with the other's bytes" in found.measured


async def test_an_answer_made_with_the_others_vectors_is_found_out_though_its_bytes_are_the_tenants_own() -> None:
    judge, mark = Judge(), TENANTS[0].mark.encode()
    judge.answer(TENANTS[0], mark + b" r0 r2 r4")
    judge.answer(TENANTS[0], mark + b" r0 r1 r4")
    assert judge.finding("answers").measured == "1 answers that differ from those given alone; 0 answered plainly"


def test_a_plain_answer_is_counted_apart_and_most_must_be_improved() -> None:
    mark = TENANTS[0].mark.encode()
    improved, plain = mark + b" r0 r2 r4", mark + b" r0 r1 r2"
    judge = Judge({TENANTS[0].mark: Alone(improved, plain)})
    for seen in (improved, plain):
        judge.answer(TENANTS[0], seen)
    found = judge.finding("answers")
    assert found.measured == "0; 1 answered plainly"
    assert found.met
    judge.answer(TENANTS[0], plain)
    assert judge.finding("answers").met is False


def test_a_request_that_carries_the_others_bytes_and_an_answer_that_is_nobodys_are_found_out() -> None:
    judge = Judge()
    judge.request(TENANTS[0], Received(0, b"api-key: " + TENANTS[1].mark.encode(), b"").raw)
    judge.answer(TENANTS[1], b"{}")
    assert sum(judge.crossed.values()) == 2


async def test_through_the_proxy_nothing_crosses() -> None:
    for found in (await qdrants(80), await pinecones(80), await calls(16)):
        assert found.met, found
    await asyncio.sleep(0)
