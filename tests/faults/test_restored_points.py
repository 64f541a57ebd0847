"""Points that come back with the ids and versions of others, as from a restored snapshot: nothing remembered of them is used any more."""

from __future__ import annotations

import json

import pytest

from support.network.faulty_upstream import FaultyUpstream, Script, Talk, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant.scripted import JSON, request, search
from vecsieve.proxy.search.memory.points import WINDOW

# With rewordings vectors are needed, too; else texts alone decide, and nobody asks memory.
BY_VECTORS = {"rewordings": 0.36}
FACTS = (
    "The pump runs at forty bar.",
    "Invoices are due within thirty days of delivery.",
    "Our office in Lyon closes at noon on Fridays.",
    "Spare keys are kept by the night porter.",
    "The warranty excludes damage by salt water.",
    "Lunch is served in the old greenhouse.",
    "A new badge takes two working days.",
    "The archive is open to visitors by appointment.",
)


def qdrant(texts: list[str]) -> Script:
    """Answers from these texts, by rank: ids, versions, scores and vectors stay the same, whatever the texts are."""

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            if not received.line.endswith(b"/points/query HTTP/1.1"):
                await talk.send(reply(b'{"result":true,"status":"ok","time":0.0}', headers=[JSON]))
                continue
            query, points = json.loads(received.content), []
            for rank, text in enumerate(texts[: query["limit"]]):
                point: dict[str, object] = {"id": rank, "version": 7, "score": round(0.97 - rank / 25, 2)}
                if query.get("with_vector"):
                    point["vector"] = [0.97 - rank / 25, *(float(axis == rank // 2) for axis in range(8)), rank / 9]
                if query.get("with_payload"):
                    point["payload"] = {"text": text}
                points.append(point)
            body = json.dumps({"result": {"points": points}, "status": "ok", "time": 0.0}, separators=(",", ":"))
            await talk.send(reply(body.encode(), headers=[JSON]))

    return script


async def page(proxy: Running, collection: bytes = b"docs") -> list[int]:
    body = search(4, extra={"query": {"nearest": [1.0] + [0.0] * 9}})
    raw = await raw_exchange(proxy.port, request(body, target=b"/collections/" + collection + b"/points/query"))
    return [point["id"] for point in json.loads(raw.split(b"\r\n\r\n", 1)[1])["result"]["points"]]


@pytest.mark.parametrize(
    "line",
    [
        b"PUT /collections/docs/shards/0/snapshots/recover",
        b"POST /collections/docs/shards/0/snapshots/upload?priority=snapshot",
        b"POST /collections/docs/shards/0/snapshot/partial/recover_from",
        b"PUT /collections/docs/snapshots/recover",
        b"POST /collections/docs/cluster",
        b"PUT /collections/docs/shards",
        b"POST /collections/docs/from-a-later-version",
        b"POST /from-a-later-version",
    ],
)
@pytest.mark.parametrize("searched", [b"docs", b"alias"])
async def test_no_remembered_point_outlives_a_request_that_may_bring_its_version_back(
    line: bytes, searched: bytes
) -> None:
    texts = [FACTS[rank // 2] for rank in range(8)]  # each twice
    async with FaultyUpstream(qdrant(texts)) as upstream, running(upstream.url, policy=BY_VECTORS) as proxy:
        for _ in range(WINDOW + 3):
            assert await page(proxy, searched) == [0, 2, 4, 6]
        assert proxy.count("memory_recalls_total", backend="qdrant", result="whole") > 0
        texts[:] = FACTS
        head = b" HTTP/1.1\r\nHost: db\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        assert (await raw_exchange(proxy.port, line + head)).startswith(b"HTTP/1.1 200")
        assert await page(proxy, searched) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        b"PUT /collections/docs/points",
        b"POST /collections/docs/points/payload",
        b"POST /collections/docs/points/scroll",
        b"POST /collections/docs/snapshots",
        b"POST /collections/docs/shards/0/snapshots",
        b"PUT /collections/docs/index",
    ],
)
async def test_what_only_reads_or_makes_new_versions_leaves_the_memory_alone(line: bytes) -> None:
    texts = [FACTS[rank // 2] for rank in range(8)]
    async with FaultyUpstream(qdrant(texts)) as upstream, running(upstream.url, policy=BY_VECTORS) as proxy:
        for _ in range(WINDOW + 3):
            await page(proxy)
        known = proxy.count("memory_recalls_total", backend="qdrant", result="whole")
        await raw_exchange(
            proxy.port, line + b" HTTP/1.1\r\nHost: db\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        await page(proxy)
        assert proxy.count("memory_recalls_total", backend="qdrant", result="whole") == known + 1
