"""Whatever happens to the reads of the write gate, the client's write goes out once, and its answer is the database's own."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import Running, running, until
from support.qdrant.gated_writes import (
    DESCRIBED,
    JSON,
    STORED,
    TARGET,
    Neighbours,
    database,
    finding,
    put,
    read_lines,
    upsert,
    written,
)


def gate(**write: object) -> dict[str, object]:
    return {"write": write}


async def counted(proxy: Running, outcome: str) -> float:
    return await until(lambda: proxy.count("writes_total", backend="qdrant", outcome=outcome))


def comparable(answer: bytes) -> bytes:
    return answer.replace(b"Connection: close\r\n", b"")


@pytest.mark.parametrize(
    "header", [b"x-vecsieve-mode: on", b"x-vecsieve-write: annotate", b"x-vecsieve-write-mode: skip"]
)
async def test_no_header_turns_the_gate_on(header: bytes) -> None:
    async with database(finding((9, 1.0))) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, put(upsert(1, 2), headers=header + b"\r\n"))
        assert [request.content for request in upstream.requests] == [upsert(1, 2)]


@pytest.mark.parametrize("header", [b"x-vecsieve-mode: off", b"x-vecsieve-mode: shadow"])
async def test_no_header_turns_it_off(header: bytes) -> None:
    async with database(finding((9, 1.0))) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        await raw_exchange(proxy.port, put(upsert(1), headers=header + b"\r\n"))
        assert b"_vecsieve" in written(upstream)[0]


async def test_mode_off_ends_the_gate_and_mode_shadow_only_observes() -> None:
    async with database(finding((9, 1.0))) as upstream:
        async with running(upstream.url, mode="off", policy=gate(mode="annotate")) as proxy:
            await raw_exchange(proxy.port, put(upsert(1)))
            assert len(upstream.requests) == 1
        async with running(upstream.url, mode="shadow", policy=gate(mode="annotate")) as proxy:
            await raw_exchange(proxy.port, put(upsert(1)))
            assert await counted(proxy, "judged") == 1
        assert written(upstream) == [upsert(1)] * 2


async def test_annotate_tells_what_a_copy_is_a_copy_of() -> None:
    async with database(finding((9, 0.99))) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        assert comparable(await raw_exchange(proxy.port, put(upsert(1)))) == STORED
        (body,) = written(upstream)
        note = b',"_vecsieve":{"duplicate_of":9,"similarity":0.9900,"tier":"exact"}'
        assert body == upsert(1).replace(b'words"', b'words"' + note)
        assert proxy.count("writes_with_copies_total", backend="qdrant", result="annotated") == 1
        assert proxy.count("own_reads_total", kind="neighbours") == 1


async def test_a_deployments_prefix_is_before_the_reads_of_the_gate() -> None:
    async with (
        database(finding((9, 1.0))) as upstream,
        running(upstream.url, policy=gate(mode="annotate"), upstream={"path_prefix": "/qdrant"}) as proxy,
    ):
        await raw_exchange(proxy.port, put(upsert(1), target=b"/qdrant/collections/c/points"))
        assert all(request.line.split(b" ")[1].startswith(b"/qdrant/collections/c") for request in upstream.requests)
        assert b"_vecsieve" in written(upstream)[0]


async def resets(talk: Talk, _: Received) -> bool:
    talk.reset()
    return False


async def cut_short(talk: Talk, _: Received) -> bool:
    await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    talk.reset()
    return False


async def stays_silent(talk: Talk, _: Received) -> bool:
    await talk.reader.read()
    return False


def answering(answer: bytes) -> Neighbours:
    async def answer_so(talk: Talk, _: Received) -> bool:
        await talk.send(answer)
        return True

    return answer_so


def reply_of(body: bytes, status: bytes = b"200 OK") -> bytes:
    return reply(body, status=status, headers=[JSON])


# Beside those that tests/laws/test_write_gates.py has: silence, nonsense and a 403.
FAULTS: dict[str, tuple[Neighbours, str]] = {
    "reset": (resets, "failed"),
    "cut short": (cut_short, "failed"),
    "another count": (answering(reply_of(b'{"result":[]}')), "failed"),
    "gzip that was not asked for": (
        answering(reply(gzip.compress(b"{}"), headers=[(b"content-encoding", b"gzip")])),
        "failed",
    ),
    "not found": (answering(reply_of(b"{}", b"404 Not Found")), "refused"),
    "too many": (answering(reply_of(b"{}", b"429 Too Many Requests")), "refused"),
    "server error": (answering(reply_of(b"{}", b"500 Internal Server Error")), "refused"),
}


async def test_a_write_waits_a_quarter_of_its_clients_own_timeout_at_most() -> None:
    async with (
        database(stays_silent) as upstream,
        running(upstream.url, policy=gate(mode="annotate", deadline_seconds=30.0)) as proxy,
        asyncio.timeout(10),
    ):
        target = TARGET + (b"&" if b"?" in TARGET else b"?") + b"timeout=1"
        assert comparable(await raw_exchange(proxy.port, put(upsert(1), target=target))) == STORED
        assert await counted(proxy, "late") == 1


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("mode", ["annotate", "observe"])
async def test_a_fault_of_the_query_for_neighbours_is_never_the_writes(name: str, mode: str) -> None:
    misbehaviour, outcome = FAULTS[name]
    async with (
        database(misbehaviour) as upstream,
        running(upstream.url, policy=gate(mode=mode, deadline_seconds=0.3)) as proxy,
    ):
        assert comparable(await raw_exchange(proxy.port, put(upsert(1, 2)))) == STORED
        assert await counted(proxy, outcome) == 1
        assert written(upstream) == [upsert(1, 2)]


@pytest.mark.parametrize(
    "description", [reply_of(b"{}", b"403 Forbidden"), reply_of(b"no json"), reply_of(b'{"result":{"config":null}}')]
)
async def test_without_a_description_the_neighbours_vectors_are_asked_for(description: bytes) -> None:
    async with (
        database(finding(), description=description) as upstream,
        running(upstream.url, policy=gate(mode="annotate")) as proxy,
    ):
        await raw_exchange(proxy.port, put(upsert(1)))
        (query,) = [request for request in upstream.requests if b"query/batch" in request.line]
        assert json.loads(query.content)["searches"][0]["with_vector"] == [""]
        assert await counted(proxy, "judged") == 1


async def test_after_a_refused_quota_no_neighbours_are_asked_for() -> None:
    refusal = answering(reply_of(b'{"status":{"error":"slow down"}}', b"429 Too Many Requests"))
    async with database(refusal) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        for _ in range(3):
            await raw_exchange(proxy.port, put(upsert(1)))
        assert sum(b"query/batch" in request.line for request in upstream.requests) == 1
        assert await counted(proxy, "withheld") == 2
        assert len(written(upstream)) == 3


async def test_soon_after_the_database_is_back_writes_are_judged_again() -> None:
    """A copy that is stored meanwhile stays. The gate rested for half a minute, as searches do, after a restart of a second."""
    down = True

    async def restarting(talk: Talk, received: Received) -> bool:
        return await (resets if down else finding((9, 0.99)))(talk, received)

    async with database(restarting) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        for _ in range(6):
            await raw_exchange(proxy.port, put(upsert(1)))
        assert await counted(proxy, "withheld") == 1
        down = False
        async with asyncio.timeout(10):
            while b"duplicate_of" not in written(upstream)[-1]:
                await raw_exchange(proxy.port, put(upsert(1)))
                await asyncio.sleep(0.05)


async def test_while_queries_fail_none_is_sent() -> None:
    async with database(resets) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        for _ in range(8):
            assert b" 200 " in await raw_exchange(proxy.port, put(upsert(1)))
        assert sum(b"query/batch" in request.line for request in upstream.requests) == 5, "the breaker's own count"
        assert len(written(upstream)) == 8


async def test_while_descriptions_fail_the_gate_rests_and_soon_after_it_judges_again() -> None:
    down = True

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            if down and not received.line.startswith(b"PUT"):
                return
            is_query = b"/points/query/batch" in received.line
            if is_query:
                await finding((9, 0.99))(talk, received)
            else:
                await talk.send(DESCRIBED if received.line.startswith(b"GET") else STORED)

    async with FaultyUpstream(script) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        for _ in range(8):
            assert b" 200 " in await raw_exchange(proxy.port, put(upsert(1)))
        assert sum(request.line.startswith(b"GET") for request in upstream.requests) == 5, "the breaker's own count"
        assert (await counted(proxy, "failed"), await counted(proxy, "withheld")) == (5, 3)
        down = False
        async with asyncio.timeout(10):
            while b"duplicate_of" not in written(upstream)[-1]:
                await raw_exchange(proxy.port, put(upsert(1)))
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (put(b"not json"), "unsupported"),
        (put(upsert(*range(5))), "unsupported"),
        (put(upsert(1)[:-1] + b',"update_mode":"insert_only"}'), "unsupported"),
        (put(upsert(1) + b" " * 5000), "not_read"),
        (put(gzip.compress(upsert(1)), headers=b"Content-Encoding: gzip\r\n"), "not_read"),
        (put(upsert(1), headers=b"Content-Digest: sha-256=:AA==:\r\n"), "not_read"),
        (put(b'{"operations":[]}', target=b"/collections/c/points/batch", method=b"POST"), "unsupported"),
    ],
)
@pytest.mark.parametrize("mode", ["annotate", "observe"])
async def test_a_write_that_is_not_read_is_sent_as_it_came_and_counted(raw: bytes, outcome: str, mode: str) -> None:
    limits = {"write_body_bytes": 4096, "write_points": 4}
    async with (
        database(finding((9, 1.0))) as upstream,
        running(upstream.url, policy=gate(mode=mode), limits=limits) as proxy,
    ):
        assert comparable(await raw_exchange(proxy.port, raw)) == STORED
        assert await counted(proxy, outcome) == 1
        assert [request.content for request in upstream.requests] == [raw.split(b"\r\n\r\n", 1)[1]]


async def test_an_upload_in_chunks_is_read_and_sent_with_its_new_length() -> None:
    body = upsert(1)
    chunked = (
        b"PUT /collections/c/points HTTP/1.1\r\nHost: db\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    )
    async with database(finding((9, 1.0))) as upstream, running(upstream.url, policy=gate(mode="annotate")) as proxy:
        assert comparable(await raw_exchange(proxy.port, chunked)) == STORED
        assert b"_vecsieve" in written(upstream)[0]


async def test_observe_does_not_look_at_a_write_that_was_refused() -> None:
    async with database(finding()) as upstream, running(upstream.url, policy=gate(mode="observe")) as proxy:

        async def refuses(talk: Talk) -> None:
            await talk.request()
            await talk.send(reply_of(b"{}", b"400 Bad Request"))

        upstream.script = refuses
        assert b" 400 " in await raw_exchange(proxy.port, put(upsert(1)))
        await asyncio.sleep(0.05)
        assert len(upstream.requests) == 1


async def test_a_process_ends_while_an_observation_waits() -> None:
    async with database(stays_silent) as upstream:
        async with running(upstream.url, policy=gate(mode="observe", deadline_seconds=30.0)) as proxy:
            await raw_exchange(proxy.port, put(upsert(1)))
            while len(read_lines(upstream)) < 2:
                await asyncio.sleep(0.01)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "vecsieve-write-observed"]


async def test_writes_beyond_the_bytes_that_are_held_pass_through() -> None:
    async with (
        database(stays_silent) as upstream,
        running(
            upstream.url,
            policy=gate(mode="annotate", deadline_seconds=0.5),
            limits={"bytes_in_flight": len(upsert(1)) + 1},
        ) as proxy,
    ):
        both = [raw_exchange(proxy.port, put(upsert(1))) for _ in range(2)]
        assert all(b" 200 " in answer for answer in await asyncio.gather(*both))
        assert await counted(proxy, "overload") == 1
        assert await counted(proxy, "late") == 1
        assert b" 200 " in await raw_exchange(proxy.port, put(upsert(1))), "the room was given back"
        assert proxy.count("writes_total", backend="qdrant", outcome="overload") == 1


async def test_a_rule_may_gate_one_collection_alone() -> None:
    rules = ({"collection": "gated", "policy": {"write": {"mode": "annotate"}}},)
    async with database(finding((9, 1.0))) as upstream, running(upstream.url, rules=rules) as proxy:
        for name in (b"gated", b"other"):
            await raw_exchange(proxy.port, put(upsert(1), target=b"/collections/%s/points" % name))
        assert [b"_vecsieve" in body for body in written(upstream)] == [True, False]
