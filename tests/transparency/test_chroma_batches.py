"""Several query vectors in one request: each is answered as it would be alone, whatever its neighbours need."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.chroma.model import Server, Stored
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, answering, reply
from support.process.running import running

ID = "97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
TARGET = f"/api/v2/tenants/t/databases/d/collections/{ID}/query"
JSON = ((b"content-type", b"application/json"),)
TOP_K = 4
RNG = np.random.default_rng(7)


def ranked(families: list[int], prefix: str) -> tuple[Stored, ...]:
    """Candidates in rank order; those of one family are one vector, near enough."""
    directions = np.linalg.qr(RNG.normal(size=(128, 128)))[0]
    return tuple(
        Stored(
            id=f'"{prefix}{family}-{rank}"',
            distance=f"{0.001 * rank:.3f}",
            embedding=json.dumps(
                (directions[family] + RNG.normal(scale=1e-4, size=128)).tolist(), separators=(",", ":")
            ),
        )
        for rank, family in enumerate(families)
    )


# The first needs more than the first pool has: copies of three things fill it. The second has enough in it, a copy and all.
HUNGRY = ranked([0, 1, 2] * 12 + list(range(3, 67)), "h")
MODEST = ranked([0, 0, *range(1, 99)], "m")
CLEAN = ranked(list(range(100)), "c")
LISTS = {"hungry": HUNGRY, "modest": MODEST, "clean": CLEAN}


async def searched(
    names: list[str], *, refused_above: int | None = None, times: int = 1
) -> tuple[list[Any], list[int]]:
    """The ids of each search's page, the last time; and how many candidates were asked for, request by request."""
    server = Server(lists=tuple(LISTS[name] for name in names))
    counts: list[int] = []

    def answer(received: Received) -> bytes:
        counts.append(json.loads(received.body)["n_results"])
        if refused_above is not None and counts[-1] > refused_above:
            words = (
                "Quota exceeded: 'Number of results' exceeded quota limit for action 'Query': "
                f"current usage of {counts[-1]} exceeds limit of {refused_above}"
            )
            return reply(
                json.dumps({"error": "ChromaError", "message": words}).encode(), status=b"422 Unprocessable Entity"
            )
        return reply(server.answer(received.body), headers=JSON)

    body = json.dumps({"query_embeddings": [[1.0] * 128] * len(names), "n_results": TOP_K, "include": []}).encode()
    async with (
        FaultyUpstream(answering(answer)) as upstream,
        running(upstream.url, backend="chroma", limits={"own_reads_share": 1.0}) as proxy,
    ):
        client = await RawClient.connect(proxy.port)
        for _ in range(times):
            await client.send(
                f"POST {TARGET} HTTP/1.1\r\nHost: c\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            pages = json.loads((await client.reply()).body)["ids"]
        await client.close()
    return pages, counts


def families(page: list[str]) -> list[str]:
    return [one.partition("-")[0] for one in page]


async def test_a_batch_is_answered_search_by_search_as_each_would_be_alone() -> None:
    alone = {name: await searched([name]) for name in LISTS}
    pages, counts = await searched(["modest", "hungry", "clean"])
    assert pages == [alone[name][0][0] for name in ("modest", "hungry", "clean")]
    assert counts == alone["hungry"][1] == [24, 100], (
        "once more for the one that lacked results, up to what holds the order"
    )
    assert alone["modest"][1] == alone["clean"][1] == [24]
    assert families(pages[1]) == ["h0", "h1", "h2", "h3"]
    assert families(pages[0]) == ["m0", "m1", "m2", "m3"]
    assert pages[2] == [json.loads(stored.id) for stored in CLEAN[:TOP_K]]


@pytest.mark.parametrize("name", LISTS)
async def test_a_quota_on_results_is_answered_as_directly_then_remembered(name: str) -> None:
    """Chroma Cloud refuses more than a tenant may have: the client's own request is sent, and then no more is asked for."""
    pages, counts = await searched([name], refused_above=16)
    assert pages[0] == [json.loads(stored.id) for stored in LISTS[name][:TOP_K]]
    assert counts == [24, TOP_K]
    _, counts = await searched([name], refused_above=16, times=3)
    assert counts[:2] == [24, TOP_K]
    assert max(counts[2:]) == 16
