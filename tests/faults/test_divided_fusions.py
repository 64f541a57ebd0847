"""Whatever happens to the batch in place of a fusion, the client gets the database's answer to its own request, sent once."""

from __future__ import annotations

import json
import re

import pytest

from support.exchanges.widened_faults import FAULTS, limits_of
from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import running
from support.qdrant.scripted import JSON, answering, is_widened, request, scripted, search

LEAF = {"query": [0.5, 0.25, 0.125, 0.0], "limit": 6}
FUSION = search(extra={"query": {"fusion": "rrf"}, "prefetch": [LEAF, LEAF]})
DIVIDED = b"x-vecsieve-per-retriever: on\r\n"


def comparable(answer: bytes) -> bytes:
    """An answer without the field that is about the connection, and without the one that says why VecSieve did nothing."""
    return re.sub(rb"(Connection: close|x-vecsieve: fail_open=\w+)\r\n", b"", answer)


def target(received: Received) -> bytes:
    return received.line.split(b" ")[1]


def is_batch(received: Received) -> bool:
    return target(received) == b"/collections/c/points/query/batch"


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_the_batch_is_never_the_clients(name: str) -> None:
    misbehaviour, reason = FAULTS[name]
    async with (
        FaultyUpstream(scripted(misbehaviour)) as upstream,
        running(upstream.url, limits=limits_of(reason)) as proxy,
    ):
        expected = comparable(await raw_exchange(upstream.port, request(FUSION)))
        through = comparable(await raw_exchange(proxy.port, request(FUSION, headers=DIVIDED)))
        assert through == expected
        batches = [received for received in upstream.requests if is_widened(received)]
        assert [is_batch(received) for received in batches] == [True], "one attempt, and nothing else is widened"
        originals = [received for received in upstream.requests if received.content == FUSION]
        assert len(originals) == 2, "the direct one, and the replay: once"
        assert len(upstream.requests) == 3


async def test_a_rate_limit_on_the_batch_is_the_answer_and_nothing_is_sent_on_top() -> None:
    refusal = reply(b'{"status":{"error":"slow down"},"time":0}', status=b"429 Too Many Requests", headers=[JSON])
    async with FaultyUpstream(scripted(answering(refusal))) as upstream, running(upstream.url) as proxy:
        assert comparable(await raw_exchange(proxy.port, request(FUSION, headers=DIVIDED))) == refusal
        assert [is_batch(received) for received in upstream.requests] == [True]


async def test_the_batch_goes_to_the_place_of_the_request_with_its_query_string() -> None:
    refusal = reply(b'{"status":{"error":"no"},"time":0}', status=b"429 Too Many Requests", headers=[JSON])
    async with FaultyUpstream(scripted(answering(refusal))) as upstream, running(upstream.url) as proxy:
        path = b"/collections/c/points/query/?timeout=7&consistency=all"
        await raw_exchange(proxy.port, request(FUSION, headers=DIVIDED, target=path))
        (received,) = upstream.requests
        assert target(received) == b"/collections/c/points/query/batch?timeout=7&consistency=all"


# Milvus over REST: a request for each part, where a refusal has status 200.

HYBRID = json.dumps({
    "collectionName": "docs",
    "search": [{"data": [[0.5, 1]], "annsField": name, "limit": 4} for name in ("vec", "other")],
    "rerank": {"strategy": "rrf", "params": {"k": 60}},
    "limit": 3,
    "outputFields": ["text"],
}).encode()  # fmt: skip
FIELDS = [("id", "Int64"), ("vec", "FloatVector"), ("other", "FloatVector"), ("text", "VarChar")]
DESCRIPTION = {"fields": [{"name": name, "type": kind, "primaryKey": name == "id"} for name, kind in FIELDS]}


def of_milvus(received: Received, second: bytes) -> bytes:
    """The answer to a request; ``second``: to the part that asks of the other field."""
    body = json.loads(received.content)
    if target(received).endswith(b"/collections/describe"):
        return json.dumps({"code": 0, "data": DESCRIPTION}).encode()
    if body.get("annsField") == "other":
        return second
    vector = {"vec": [1, 0]} if "vec" in body["outputFields"] else {}
    rows = [{"distance": 0.5 - row / 8, "id": f"{row}", "text": f"t{row}", **vector} for row in range(body["limit"])]
    return json.dumps({"code": 0, "cost": 0, "data": rows, "topks": [len(rows)]}).encode()


@pytest.mark.parametrize(
    "second",
    [
        b'{"code":1100,"message":"no index"}',
        b'{"code":0,"cost":0,"data":[{"distance":1,"id":"1"}],"topks":[1]}',
        b'{"code":0,"cost":0,"data":[{"id":"1","vec":[1,0]}],"topks":[1]}',
        b'{"code":0,"cost":0,"data":[{"distance":1,"vec":[1,0],"id":"1"}],"topks":[2]}',
        b'{"code":0,"cost":0,"data":[{"distance":1,"vec":[1,0]}],"topks":[1]}',
        b"[]",
    ],
    ids=["a refusal", "no vectors", "no scores", "other counts", "no ids", "no object"],
)
async def test_a_part_of_milvus_that_fails_is_never_the_clients(second: bytes) -> None:
    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await talk.send(reply(of_milvus(received, second), headers=[JSON]))
            if received.header(b"connection") == b"close":
                return

    path = b"/v2/vectordb/entities/hybrid_search"
    async with FaultyUpstream(script) as upstream, running(upstream.url, backend="milvus", mode="on") as proxy:
        expected = comparable(await raw_exchange(upstream.port, request(HYBRID, target=path)))
        through = comparable(await raw_exchange(proxy.port, request(HYBRID, target=path, headers=DIVIDED)))
        assert through == expected
        parts = [received for received in upstream.requests if target(received) == b"/v2/vectordb/entities/search"]
        assert len(parts) == 2
        assert [received.content for received in upstream.requests if target(received) == path] == [HYBRID, HYBRID]
