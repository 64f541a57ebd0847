"""What widened requests cost is counted to the byte, and a spent budget means the client's own request, once."""

from __future__ import annotations

import json

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant.scripted import JSON, Misbehaviour, answering, honest, is_widened, request, scripted, search

REFUSAL = b'{"status":{"error":"no"},"time":0}'


async def answer_honestly(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received))
    return True


def body_of(answer: bytes) -> bytes:
    return answer.split(b"\r\n\r\n", 1)[1]


def widened_bytes(upstream: FaultyUpstream) -> int:
    return sum(len(body_of(honest(received))) for received in upstream.requests if is_widened(received))


def extra_bytes(proxy: Running) -> int:
    extra = json.loads(proxy.process.egress.as_json())["extra_bytes"]
    assert isinstance(extra, int)
    return extra


async def test_an_improved_answer_costs_what_was_read_less_what_went_out() -> None:
    async with FaultyUpstream(scripted(answer_honestly)) as upstream, running(upstream.url) as proxy:
        answer = await raw_exchange(proxy.port, request(search()))
        assert extra_bytes(proxy) == widened_bytes(upstream) - len(body_of(answer)) > 0


@pytest.mark.parametrize(
    ("misbehaviour", "cost"),
    [
        (answering(reply(REFUSAL, status=b"400 Bad Request", headers=[JSON])), len(REFUSAL)),
        (answering(reply(b"<html>it works</html>", headers=[JSON])), len(b"<html>it works</html>")),
        (answering(reply(b" " * 2_000_000, headers=[JSON])), 1_000_000),
        (answering(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), 0),
    ],
    ids=["refused", "unreadable", "too large: what was read of it at most", "cut"],
)
async def test_a_widened_request_that_brought_nothing_is_extra_as_a_whole(
    misbehaviour: Misbehaviour, cost: int
) -> None:
    async with (
        FaultyUpstream(scripted(misbehaviour)) as upstream,
        running(upstream.url, limits={"reply_body_bytes": 1_000_000}) as proxy,
    ):
        await raw_exchange(proxy.port, request(search()))
        assert extra_bytes(proxy) == cost


async def test_a_spent_budget_sends_the_clients_own_bytes_and_is_counted() -> None:
    async with FaultyUpstream(scripted(answer_honestly)) as upstream, running(upstream.url) as proxy:
        proxy.process.egress.resize(1)
        first = json.loads(body_of(await raw_exchange(proxy.port, request(search()))))
        assert [point["id"] for point in first["result"]["points"]] == [0, 2, 3]
        assert proxy.process.egress.is_spent
        plain = json.loads(body_of(await raw_exchange(proxy.port, request(search()))))
        assert [point["id"] for point in plain["result"]["points"]] == [0, 1, 2]
        assert [is_widened(received) for received in upstream.requests] == [True, False]
        assert upstream.requests[1].content == search()
        assert proxy.count("bypass_total", backend="qdrant", reason="budget") == 1


async def test_pools_begin_at_the_factor_and_follow_what_pages_reach_within_the_budget() -> None:
    async def flooded(talk: Talk, received: Received) -> bool:
        limit = json.loads(received.content)["limit"]
        rows = [{"id": rank, "version": 1, "score": 0.5, "vector": [1.0, 0.0, 0.0, 0.0]} for rank in range(limit)]
        body = json.dumps({"result": {"points": rows}, "status": "ok", "time": 0.1}).encode()
        await talk.send(reply(body, headers=[JSON]))
        return True

    settings: dict[str, object] = {
        "policy": {"fetch": {"factor": 2.0, "floor": 1}},
        "limits": {"own_reads_share": 0.0},
        "memory": {"bytes": 0},  # a larger pool of a request that was asked before would be looked up in it first
    }
    async with FaultyUpstream(scripted(flooded)) as upstream, running(upstream.url, **settings) as proxy:
        for _ in range(2):
            await raw_exchange(proxy.port, request(search(8)))
        spent = extra_bytes(proxy)
        proxy.process.egress.resize(int(spent) + 3_000)  # 41 candidates
        await raw_exchange(proxy.port, request(search(8)))
        proxy.process.egress.resize(int(extra_bytes(proxy)) + 100)
        await raw_exchange(proxy.port, request(search(8)))
        assert [json.loads(received.content)["limit"] for received in upstream.requests] == [16, 64, 256, 41, 16]


async def test_without_a_budget_the_gauge_is_infinite() -> None:
    async with FaultyUpstream(scripted(answer_honestly)) as upstream, running(upstream.url) as proxy:
        assert proxy.count("egress_budget_remaining_bytes") == float("inf")
