"""Nothing of a request or an answer is in what is exported, whatever breaks; and a collector that breaks is nobody's fault."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager

import grpc
import pytest

from support.exchanges.widened_faults import FAULTS, limits_of
from support.grpc.calls import ask
from support.grpc.upstream import ending, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.otlp_receiver import Collector, collector
from support.process.running import Running, running
from support.qdrant.scripted import honest, request, scripted, search
from support.qdrant.scripted_grpc import before
from support.qdrant.scripted_grpc import scripted as scripted_grpc
from support.qdrant.scripted_grpc import search as grpc_search
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.telemetry import otel
from vecsieve.proxy.telemetry.labels import AttemptKind, Stage

CANARY = "s3cr3t-canary"
EVERYWHERE = (
    f"api-key: {CANARY}\r\nx-{CANARY}: {CANARY}\r\nauthorization: Bearer {CANARY}\r\n"
    f"user-agent: {CANARY}\r\nx-forwarded-host: {CANARY}\r\ntracestate: {CANARY.replace('-', '')}={CANARY}\r\n"
    f"baggage: user={CANARY}\r\n"
).encode()
TARGET = f"/collections/{CANARY}/points/query?consistency={CANARY}".encode()
SEARCH = search(extra={"filter": {"must": [{"key": CANARY, "match": {"value": CANARY}}]}})
METHODS = ("GET", "POST", "PUT", "HTTP")
NAMES = {
    *METHODS,
    *(f"{method} {of}" for method in METHODS for of in (*AttemptKind, "query")),
    *Stage,
}
ONE_PER_REASON = {reason: name for name, (_, reason) in FAULTS.items()}  # a fault for every reason there is


def query(body: bytes = SEARCH) -> bytes:
    return request(body, headers=EVERYWHERE, target=TARGET)


def assert_empty(seen: Collector, *, least: int) -> None:
    """Spans came, and in their bytes is nothing of what was said."""
    spans = seen.spans
    assert len(spans) >= least
    whole = b"".join(seen.bodies)
    assert CANARY.encode() not in whole
    assert b"collections" not in whole
    assert b"/points" not in whole
    assert {span.name for span in spans} <= NAMES


@asynccontextmanager
async def traced(upstream: str, **settings: object) -> AsyncIterator[tuple[Running, Collector]]:
    with collector() as seen:
        async with running(upstream, tracing={"endpoint": seen.url, "sample_ratio": 1.0}, **settings) as proxy:
            yield proxy, seen


@pytest.mark.parametrize("reason", ONE_PER_REASON)
async def test_a_fault_of_the_widened_request_exports_its_reason_and_nothing_else(reason: str) -> None:
    misbehaviour, _ = FAULTS[ONE_PER_REASON[reason]]
    async with (
        FaultyUpstream(scripted(misbehaviour)) as upstream,
        traced(upstream.url, limits=limits_of(reason)) as (proxy, seen),
    ):
        assert b" 200 OK" in await raw_exchange(proxy.port, query())
        assert CANARY.encode() in upstream.requests[-1].raw, "the database did hear of it"
        await proxy.process.close()
        assert_empty(seen, least=3)
        (server,) = [span for span in seen.spans if span.kind == "server"]
        assert server.attributes["vecsieve.fail_open.reason"] == reason


ANSWERS = {
    "refusal": reply(f'{{"status":{{"error":"{CANARY}"}}}}'.encode(), status=f"400 {CANARY}".encode()),
    "error": reply(CANARY.encode(), status=b"503 Service Unavailable", headers=[(b"x-reason", CANARY.encode())]),
    "garbage": f"{CANARY} no http at all\r\n\r\n".encode(),
    "broken field": f"HTTP/1.1 200 OK\r\nX: {CANARY}\x01\r\n\r\n".encode(),
    "cut": reply(CANARY.encode())[:-3],
    "redirect": reply(b"", status=b"307 Temporary Redirect", headers=[(b"location", f"http://{CANARY}/".encode())]),
}
REQUESTS = {
    "search": query(),
    "write": query().replace(b"POST", b"PUT", 1),
    "strange method": query().replace(b"POST", b"LOCK", 1),
    "bad override": query().replace(b"api-key: ", b"x-vecsieve-mode: ", 1),
    "broken parent": query().replace(b"api-key: ", b"traceparent: 00-", 1),
    "no JSON": query(CANARY.encode()),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_no_answer_of_a_database_and_no_request_is_exported(answer: bytes) -> None:
    async def script(talk: Talk) -> None:
        if await talk.request() is not None:
            await talk.send(answer)
            talk.close()

    async with FaultyUpstream(script) as upstream, traced(upstream.url) as (proxy, seen):
        for sent in REQUESTS.values():
            await raw_exchange(proxy.port, sent)
        await proxy.process.close()
        assert_empty(seen, least=2 * len(REQUESTS) - 1)


async def test_no_exceptions_message_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(SearchService, "prepare", broken)
    async with FaultyUpstream(scripted(honestly)) as upstream, traced(upstream.url) as (proxy, seen):
        assert b" 200 OK" in await raw_exchange(proxy.port, query())
        await proxy.process.close()
        assert_empty(seen, least=2)
        (server,) = [span for span in seen.spans if span.kind == "server"]
        assert server.attributes["vecsieve.fail_open.reason"] == "internal"


async def honestly(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received))
    return True


async def test_over_grpc_nothing_of_a_call_is_exported() -> None:
    metadata = (("api-key", CANARY), (f"x-{CANARY}", CANARY), ("x-secret-bin", CANARY.encode()))
    failing = ending(grpc.StatusCode.INVALID_ARGUMENT, CANARY, trailing=(("x-t", CANARY),))
    with collector() as seen:
        async with (
            grpc_upstream(Query=scripted_grpc(), Upsert=failing, Call=failing) as database,
            before(database.address, tracing={"endpoint": seen.url, "sample_ratio": 1.0}) as proxy,
        ):
            message = grpc_search(collection=CANARY)
            for method in ("/qdrant.Points/Query", "/qdrant.Points/Upsert", f"/{CANARY}.Secret/Call"):
                address, shape = f"127.0.0.1:{proxy.port}", "unary_unary"
                await ask(address, shape, (message,), method=method, metadata=metadata, timeout=20)
            await proxy.process.close()
        assert len(database.calls) == 3
        assert CANARY in str(database.calls[-1].metadata)
        assert_empty(seen, least=6)
        codes = [span.attributes["rpc.grpc.status_code"] for span in seen.spans if span.kind == "server"]
        assert codes == [0, 3, 3]


@contextmanager
def refusing() -> Iterator[str]:
    with collector() as seen:
        seen.status = 400
        yield seen.url


@contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hole:
        yield f"http://127.0.0.1:{hole.getsockname()[1]}"


@contextmanager
def absent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    yield url


@pytest.mark.parametrize("broken", [refusing, silent, absent])
async def test_a_collector_that_fails_changes_nothing_for_clients(
    broken: Callable[[], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert otel.Handover.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(otel.Handover.__init__.__kwdefaults__, "queue_spans", 32)
    monkeypatch.setattr(otel, "BATCH_SPANS", 32)
    async with FaultyUpstream(scripted(honestly)) as upstream:
        async with running(upstream.url) as plain:
            expected = json.loads((await raw_exchange(plain.port, query())).split(b"\r\n\r\n", 1)[1])
        with broken() as endpoint:
            tracing = {"endpoint": endpoint, "sample_ratio": 1.0}
            async with running(upstream.url, tracing=tracing) as proxy:
                for _ in range(40):  # at least three spans each: more than the queue takes
                    answer = await raw_exchange(proxy.port, query())
                    assert json.loads(answer.split(b"\r\n\r\n", 1)[1]) == expected
                assert proxy.failed_open() == {}
                started = time.monotonic()
                await proxy.process.close()
                assert time.monotonic() - started < 6.0
                assert proxy.count("telemetry_dropped_total", kind="spans") > 0
