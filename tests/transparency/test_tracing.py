"""What the database gets of a trace: byte for byte what the client sent, unless a span is recorded between the two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.grpc.calls import ask
from support.grpc.upstream import Arrived, echo, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, Talk, answering, header_list, raw_exchange, reply
from support.process.otlp_receiver import Collector, collector
from support.process.otlp_receiver import Received as Span
from support.process.running import Running, running
from support.qdrant.scripted import answering as misbehaving
from support.qdrant.scripted import honest, is_widened, request, scripted, search
from support.qdrant.scripted_grpc import UPSERT, before, in_front, query, upsert
from vecsieve.proxy.telemetry.tracing import parent_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01".encode(), f"00-{TRACE}-{PARENT}-00".encode()
STATE = b"Tracestate: a=1,b@c=2\r\ntracestate: d=3\r\n"
# In the middle of the head, with a case of its own, between fields of one name.
AROUND = b"X-B: 1\r\nx-a: 2\r\nTraceParent: %s\r\n" + STATE + b"X-b: 3\r\nX-Empty:\r\n"
PLAIN = b"GET /collections?x=%7e HTTP/1.1\r\nHost: client:1\r\nConnection: close\r\n"


@asynccontextmanager
async def traced(upstream: str, *, ratio: float = 1.0, **settings: object) -> AsyncIterator[tuple[Running, Collector]]:
    """A data plane that traces. What it recorded is at the collector after the block."""
    with collector() as seen:
        async with running(upstream, tracing={"endpoint": seen.url, "sample_ratio": ratio}, **settings) as proxy:
            yield proxy, seen


def parents(received: Received) -> list[bytes]:
    return [value for name, value in received.headers if name.lower() == b"traceparent"]


def of(spans: list[Span], name: str) -> Span:
    (match,) = [span for span in spans if span.name == name]
    return match


def parent_ids(received: Received) -> tuple[str, str]:
    """The trace and the span that a database would take for its parent."""
    (value,) = parents(received)
    parent = parent_of([value.decode()])
    assert parent is not None
    assert parent.is_sampled
    return f"{parent.trace_id:032x}", f"{parent.span_id:016x}"


async def honestly(talk: Talk, received: Received) -> bool:
    """No misbehaviour."""
    await talk.send(honest(received))
    return True


HEADS = {
    "no trace": b"X-A: 1\r\n" + STATE,
    "not recorded": AROUND % UNSAMPLED,
    "broken": AROUND % b"00-xyz",
    "two": AROUND % SAMPLED + b"traceparent: " + SAMPLED + b"\r\n",
    "upper case": AROUND % SAMPLED.upper(),
}


def fields(head: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a head, each in its place and case, without the two that are of one hop."""
    return [pair for pair in header_list(head) if pair[0] not in {b"Host", b"Connection"}]


@pytest.mark.parametrize("head", [*HEADS.values(), AROUND % SAMPLED], ids=[*HEADS, "recorded"])
async def test_with_tracing_off_every_field_goes_on_as_it_came(head: bytes) -> None:
    search_sent, plain_sent = request(search(), headers=head), PLAIN + head + b"\r\n"
    async with FaultyUpstream(scripted(honestly)) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, search_sent)
        await raw_exchange(proxy.port, request(search(), headers=head + b"x-vecsieve-mode: off\r\n"))
        widened, original = upstream.requests
    assert fields(original.head) == fields(search_sent)
    kept = [pair for pair in fields(search_sent) if pair[0] != b"Content-Length"]
    assert [pair for pair in fields(widened.head) if pair[0] not in {b"Content-Length", b"accept-encoding"}] == kept
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, running(upstream.url) as proxy:
        await raw_exchange(proxy.port, plain_sent)
        assert fields(upstream.requests[0].head) == fields(plain_sent)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("name", HEADS)
async def test_with_tracing_on_what_is_not_recorded_goes_on_as_it_came(name: str, ratio: float) -> None:
    sent = PLAIN + HEADS[name] + b"\r\n"
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, traced(upstream.url, ratio=ratio) as (proxy, _):
        await raw_exchange(proxy.port, sent)
        came = fields(upstream.requests[0].head)
    is_begun = (name, ratio) == ("no trace", 1.0)
    assert came[: -1 if is_begun else None] == fields(sent)
    assert not is_begun or came[-1][0] == b"traceparent"


async def test_of_a_recorded_trace_only_the_parents_id_differs() -> None:
    sent = PLAIN + AROUND % SAMPLED + b"\r\n"
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, traced(upstream.url, ratio=0.0) as (proxy, seen):
        await raw_exchange(proxy.port, sent)
        (through,) = upstream.requests
        await proxy.process.close()
        spans = seen.spans
    parent = parents(through)[0]
    assert parent != SAMPLED
    assert fields(through.head.replace(parent, SAMPLED)) == fields(sent)
    assert through.line == sent.split(b"\r\n", 1)[0]
    server, client = of(spans, "GET"), of(spans, "GET original")
    assert (server.trace_id, server.parent_id) == (TRACE, PARENT)
    assert (client.trace_id, client.parent_id) == (TRACE, server.span_id)
    assert parent_ids(through) == (TRACE, client.span_id)
    assert server.attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "vecsieve.outcome": "passthrough",
    }


async def test_a_request_without_a_parent_gets_one_behind_its_own_fields() -> None:
    async with FaultyUpstream(answering(reply(b"ok"))) as upstream, traced(upstream.url) as (proxy, seen):
        await raw_exchange(proxy.port, PLAIN + b"X-A: 1\r\n" + STATE + b"\r\n")
        (through,) = upstream.requests
        await proxy.process.close()
        client = of(seen.spans, "GET original")
    names = [name for name, _ in through.headers]
    assert names == [b"Host", b"X-A", b"Tracestate", b"tracestate", b"traceparent"]
    assert parent_ids(through) == (client.trace_id, client.span_id)


async def test_an_improved_search_has_a_span_for_its_request_its_leg_and_each_stage() -> None:
    async with FaultyUpstream(scripted(honestly)) as upstream, traced(upstream.url) as (proxy, seen):
        sent = request(search(), headers=b"traceparent: " + SAMPLED + b"\r\n")
        assert b" 200 OK" in await raw_exchange(proxy.port, sent)
        (widened,) = upstream.requests
        await proxy.process.close()
        spans = seen.spans
    server, client = of(spans, "POST query"), of(spans, "POST overfetch")
    assert is_widened(widened)
    assert parent_ids(widened) == (TRACE, client.span_id)
    assert (server.parent_id, server.kind, server.is_failed) == (PARENT, "server", False)
    assert (client.parent_id, client.kind, client.is_failed) == (server.span_id, "client", False)
    assert server.attributes["vecsieve.outcome"] == "dedup"
    assert (server.attributes["vecsieve.candidates"], server.attributes["vecsieve.collapsed"]) == (8, 4)
    assert client.attributes["server.address"] == "127.0.0.1"
    stages = [span for span in spans if span.kind == "internal"]
    assert {"decode", "select", "encode"} <= {span.name for span in stages}
    assert {span.parent_id for span in stages} == {server.span_id}
    assert {span.trace_id for span in spans} == {TRACE}
    for span in spans:
        assert server.started_ns <= span.started_ns <= span.ended_ns <= server.ended_ns


async def test_a_replay_is_a_leg_of_its_own_and_the_reason_is_told() -> None:
    refusal = reply(b"{}", status=b"500 Internal Server Error")
    async with FaultyUpstream(scripted(misbehaving(refusal))) as upstream, traced(upstream.url) as (proxy, seen):
        await raw_exchange(proxy.port, request(search()))
        widened, replayed = upstream.requests
        await proxy.process.close()
        spans = seen.spans
    server, first, second = of(spans, "POST query"), of(spans, "POST overfetch"), of(spans, "POST replay")
    assert (parent_ids(widened), parent_ids(replayed)) == (
        (first.trace_id, first.span_id),
        (second.trace_id, second.span_id),
    )
    assert (first.is_failed, second.is_failed, server.is_failed) == (True, False, False)
    assert (first.attributes["http.response.status_code"], second.attributes["http.response.status_code"]) == (500, 200)
    assert server.attributes["vecsieve.outcome"] == "fail_open"
    assert server.attributes["vecsieve.fail_open.reason"] == "overfetch_status"


async def test_shadow_measures_below_the_request_it_follows() -> None:
    async with (
        FaultyUpstream(scripted(honestly)) as upstream,
        traced(upstream.url, mode="shadow") as (proxy, seen),
    ):
        await raw_exchange(proxy.port, request(search()))
        while not proxy.count("searches_total", backend="qdrant", outcome="shadow"):
            await asyncio.sleep(0.01)
        await proxy.process.close()
        spans = seen.spans
    server = of(spans, "POST query")
    assert server.attributes["vecsieve.outcome"] == "shadow"
    assert of(spans, "POST original").parent_id == of(spans, "POST overfetch").parent_id == server.span_id
    assert of(spans, "select").started_ns > of(spans, "POST original").ended_ns


async def test_a_database_that_is_gone_fails_the_leg_and_the_request() -> None:
    async with FaultyUpstream(answering(reply())) as upstream:
        url = upstream.url
    async with traced(url) as (proxy, seen):
        assert b" 502 " in await raw_exchange(proxy.port, PLAIN + b"\r\n")
        await proxy.process.close()
        server, client = of(seen.spans, "GET"), of(seen.spans, "GET original")
    assert (server.is_failed, client.is_failed) == (True, True)
    assert server.attributes["http.response.status_code"] == 502
    assert "http.response.status_code" not in client.attributes


async def test_an_answer_that_is_cut_fails_its_leg() -> None:
    cut = reply(b"0123456789")[:-5]
    async with FaultyUpstream(answering(cut)) as upstream, traced(upstream.url) as (proxy, seen):
        exchange = asyncio.create_task(raw_exchange(proxy.port, PLAIN + b"\r\n"))
        while not upstream.requests:
            await asyncio.sleep(0.01)
        await upstream.__aexit__(None, None, None)
        await exchange
        await proxy.process.close()
        client = of(seen.spans, "GET original")
    assert (client.is_failed, client.attributes["http.response.status_code"]) == (True, 200)


async def test_over_grpc_a_search_is_traced_as_over_http() -> None:
    metadata = (("x-a", "1"), ("traceparent", SAMPLED.decode()), ("tracestate", "a=1"), ("x-z", "2"))
    with collector() as seen:
        async with in_front(tracing={"endpoint": seen.url}) as (database, proxy):
            await query(proxy.port, metadata=metadata)
            (call,) = database.calls
            await proxy.process.close()
        spans = seen.spans
    server, client = of(spans, "POST query"), of(spans, "POST overfetch")
    assert parent_ids_in(call) == (TRACE, client.span_id)
    others = {key: value for key, value in call.plain_metadata() if key != "traceparent"}
    assert others == {"x-a": "1", "tracestate": "a=1", "x-z": "2"}
    assert (server.trace_id, server.parent_id, client.parent_id) == (TRACE, PARENT, server.span_id)
    assert server.attributes["rpc.grpc.status_code"] == client.attributes["rpc.grpc.status_code"] == 0
    assert "http.response.status_code" not in server.attributes
    assert server.attributes["vecsieve.outcome"] == "dedup"
    assert {"decode", "select", "encode"} <= {span.name for span in spans if span.parent_id == server.span_id}


def parent_ids_in(call: Arrived) -> tuple[str, str]:
    (value,) = [str(value) for key, value in call.metadata if key == "traceparent"]
    parent = parent_of([value])
    assert parent is not None
    return f"{parent.trace_id:032x}", f"{parent.span_id:016x}"


@pytest.mark.parametrize(("shape", "method"), [("unary_unary", UPSERT), ("stream_stream", "/a.B/Echo")])
async def test_over_grpc_what_passes_through_is_traced_too(shape: str, method: str) -> None:
    metadata = (("traceparent", SAMPLED.decode()), ("x-a", "1"))
    with collector() as seen:
        async with (
            grpc_upstream(Upsert=echo, Echo=echo) as database,
            before(database.address, tracing={"endpoint": seen.url}) as proxy,
        ):
            await ask(f"127.0.0.1:{proxy.port}", shape, (upsert(1),), method=method, metadata=metadata, timeout=20)
            (call,) = database.calls
            await proxy.process.close()
        server, client = of(seen.spans, "POST"), of(seen.spans, "POST original")
    assert parent_ids_in(call) == (TRACE, client.span_id)
    assert (client.parent_id, server.parent_id) == (server.span_id, PARENT)


@pytest.mark.parametrize("tracing", [True, False])
@pytest.mark.parametrize("parent", [[], [UNSAMPLED.decode()], ["00-xyz"]])  # of two, gRPC's core itself keeps one
async def test_over_grpc_what_is_not_recorded_goes_on_as_it_came(parent: list[str], tracing: bool) -> None:
    metadata = (("x-a", "1"), *(("traceparent", value) for value in parent), ("tracestate", "a=1"))
    with collector() as seen:
        endpoint = seen.url if tracing else "none"
        async with in_front(mode="off", tracing={"endpoint": endpoint, "sample_ratio": 0.0}) as (database, proxy):
            await query(database.port, metadata=metadata)
            await query(proxy.port, metadata=metadata)
            direct, through = database.calls
    assert through.plain_metadata() == direct.plain_metadata()
