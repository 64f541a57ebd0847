"""The proxy's own process between the official client and a database, and a collector that gets what it recorded."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from qdrant_client import QdrantClient

from support.grpc.upstream import grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, Talk
from support.process.otlp_receiver import Collector, collector
from support.process.stack import Command, command
from support.qdrant.scripted import honest, scripted
from support.qdrant.scripted_grpc import scripted as scripted_grpc
from vecsieve.proxy.telemetry.tracing import parent_of

TRACES = {False: "4bf92f3577b34da6a3ce929d0e0e4736", True: "5bf92f3577b34da6a3ce929d0e0e4736"}
PARENT = "00f067aa0ba902b7"


async def honestly(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received))
    return True


@contextmanager
def serving(database: str, grpc_at: str, environment: Mapping[str, str]) -> Iterator[tuple[Command, str]]:
    where = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc-upstream", grpc_at)
    with command("serve", "--upstream", database, *where, environment=environment) as proxy:
        yield proxy, proxy.addresses(2)["serve"]


def ask(url: str, *, over_grpc: bool) -> list[object]:
    """One search by the official client, within a trace that its application records."""
    client = QdrantClient(
        url=url,
        grpc_port=int(url.rsplit(":", 1)[1]),
        prefer_grpc=over_grpc,
        timeout=20,
        check_compatibility=False,
        headers={"traceparent": f"00-{TRACES[over_grpc]}-{PARENT}-01", "tracestate": "vendor=1"},
    )
    try:
        response = client.query_points("c", query=[0.5, 0.25, 0.125, 0.0], limit=3)
        return [point.id for point in response.points]
    finally:
        client.close()


def assert_traced(seen: Collector, trace: str, header: str) -> None:
    """The server's span is below the client's, and the leg's, which the database was told of, below the server's."""
    spans = [span for span in seen.spans if span.trace_id == trace]
    (server,) = [span for span in spans if span.kind == "server"]
    (leg,) = [span for span in spans if span.kind == "client"]
    parent = parent_of([header])
    assert parent is not None
    assert (server.name, server.parent_id) == ("POST query", PARENT)
    assert (leg.name, leg.parent_id) == ("POST overfetch", server.span_id)
    assert (f"{parent.trace_id:032x}", f"{parent.span_id:016x}") == (trace, leg.span_id)
    assert {"decode", "select", "encode"} <= {span.name for span in spans if span.parent_id == server.span_id}


async def test_a_clients_trace_goes_through_the_process_to_the_database_over_http_and_grpc() -> None:
    with collector() as seen:
        async with (
            FaultyUpstream(scripted(honestly)) as database,
            grpc_upstream(Query=scripted_grpc()) as grpc_database,
        ):
            environment = {"VECSIEVE_TRACING_ENDPOINT": seen.url, "VECSIEVE_TRACING_SAMPLE_RATIO": "0"}
            with serving(database.url, grpc_database.address, environment) as (proxy, url):
                for over_grpc in (False, True):
                    assert await asyncio.to_thread(ask, url, over_grpc=over_grpc) == [0, 2, 3]
                assert await asyncio.to_thread(proxy.close) == 0
            (received,), (call,) = database.requests, grpc_database.calls
        (header,) = [value for name, value in received.headers if name.lower() == b"traceparent"]
        assert received.header(b"tracestate") == b"vendor=1"
        assert dict(call.metadata)["tracestate"] == "vendor=1"
        assert_traced(seen, TRACES[False], header.decode())
        assert_traced(seen, TRACES[True], str(dict(call.metadata)["traceparent"]))
        assert {span.resource["service.name"] for span in seen.spans} == {"vecsieve"}


CREDENTIAL = "s3cr3t-of-the-collector"


@pytest.mark.deep
async def test_every_worker_traces_and_the_collectors_credential_is_never_shown() -> None:
    with collector() as seen:
        async with FaultyUpstream(scripted(honestly)) as database:
            environment = {
                "VECSIEVE_TRACING_ENDPOINT": seen.url,
                "VECSIEVE_WORKERS": "2",
                "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={CREDENTIAL}",
            }
            with serving(database.url, "127.0.0.1:9", environment) as (proxy, url):
                for _ in range(20):
                    await asyncio.to_thread(ask, url, over_grpc=False)
                assert await asyncio.to_thread(proxy.close) == 0
            assert CREDENTIAL not in proxy.output()
        assert len([span for span in seen.spans if span.kind == "server"]) == 20
        assert {headers["authorization"] for headers in seen.headers} == {CREDENTIAL}


@pytest.mark.deep
async def test_a_silent_collector_does_not_hold_up_the_end_of_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        async with FaultyUpstream(scripted(honestly)) as database:
            environment = {"VECSIEVE_TRACING_ENDPOINT": f"http://127.0.0.1:{hole.getsockname()[1]}"}
            with serving(database.url, "127.0.0.1:9", environment) as (proxy, url):
                assert await asyncio.to_thread(ask, url, over_grpc=False) == [0, 2, 3]
                started = time.monotonic()
                assert await asyncio.to_thread(proxy.close) == 0
                assert time.monotonic() - started < 5.0, "the exporter alone would take ten"
