"""Spans reach a collector as they are; what it does not take is dropped and counted, and nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from support.process.otlp_receiver import collector
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings, TracingSettings
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.telemetry.labels import Outcome
from vecsieve.proxy.telemetry.otel import (
    FLUSH_SECONDS,
    Handover,
    exporter_of,
    headers_of,
    origins_of,
    tracing_of,
)
from vecsieve.proxy.telemetry.spans import Ids, Kind, Span

REQUEST = Span(
    kind=Kind.REQUEST,
    ids=Ids(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0xF0, 0xA1, 1),
    started_ns=1_700_000_000_000_000_000,
    ended_ns=1_700_000_000_002_000_000,
    is_failed=True,
    name="POST search",
    attributes={"http.request.method": "POST", "rpc.grpc.status_code": 14, "vecsieve.outcome": "bypass"},
)


class Slow:
    """An exporter that takes nothing until it is let go."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.go = threading.Event()
        self.sizes: list[int] = []
        self.result = result

    def export(self, spans: Sequence[Any], /) -> SpanExportResult:
        self.go.wait(20)
        self.sizes.append(len(spans))
        return self.result

    def shutdown(self) -> None:
        self.go.set()


async def test_a_span_arrives_as_it_was_made() -> None:
    with collector() as seen:
        exporter = exporter_of(TracingSettings(endpoint=seen.url + "/base/"))
        handover = Handover(exporter, queue_spans=512, dropped=lambda _: None)
        handover.emit(REQUEST)
        handover.emit(
            replace(
                REQUEST,
                kind=Kind.LEG,
                ids=replace(REQUEST.ids, parent_id=None),
                name="POST replay",
                is_failed=False,
            )
        )
        await handover.close()
        assert seen.paths == ["/base/v1/traces"]
        request, leg = seen.spans
    assert (request.name, request.kind, leg.name, leg.kind) == ("POST search", "server", "POST replay", "client")
    assert (request.trace_id, request.span_id) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000f0")
    assert (request.parent_id, leg.parent_id) == ("00000000000000a1", "")
    assert request.ended_ns - request.started_ns == 2_000_000
    assert (request.is_failed, leg.is_failed) == (True, False)
    assert request.attributes == REQUEST.attributes
    assert request.resource["service.name"] == "vecsieve"


async def test_the_service_may_have_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "search-sidecar")
    with collector() as seen:
        handover = Handover(exporter_of(TracingSettings(endpoint=seen.url)), queue_spans=512, dropped=lambda _: None)
        handover.emit(REQUEST)
        await handover.close()
        assert seen.spans[0].resource["service.name"] == "search-sidecar"


async def test_the_collector_sees_the_fields_of_the_file_and_of_the_environment(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer t\n")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-a=1,authorization=other")
    with collector() as seen:
        settings = TracingSettings(endpoint=seen.url, headers_file=str(tmp_path / "headers"))
        handover = Handover(exporter_of(settings), queue_spans=512, dropped=lambda _: None)
        handover.emit(REQUEST)
        await handover.close()
        (headers,) = seen.headers
    assert (headers["authorization"], headers["x-a"]) == ("Bearer t", "1")


async def test_spans_beyond_the_bound_are_dropped_and_counted_at_once() -> None:
    exporter, dropped = Slow(), list[int]()
    handover = Handover(exporter, queue_spans=512, dropped=dropped.append)
    started = time.monotonic()
    for _ in range(2000):
        handover.emit(REQUEST)
    assert time.monotonic() - started < 5.0, "nobody waited for the exporter"
    assert sum(dropped) == 2000 - 512, "also those that are being sent count as held"
    exporter.go.set()
    await handover.close()
    assert sum(exporter.sizes) == 512


async def test_spans_that_the_collector_refuses_are_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="vecsieve.tracing")
    exporter, dropped = Slow(SpanExportResult.FAILURE), list[int]()
    exporter.go.set()
    handover = Handover(exporter, queue_spans=512, dropped=dropped.append)
    for _ in range(600):
        handover.emit(REQUEST)
        await asyncio.sleep(0)
    while sum(exporter.sizes) < 256:
        await asyncio.sleep(0.01)
    exporter.result = SpanExportResult.SUCCESS
    handover.emit(REQUEST)  # all the others may have been refused by now
    await handover.close()
    assert 256 <= sum(dropped) <= 600
    messages = [record.message for record in caplog.records]
    assert messages == ["the collector accepts no spans: they are dropped", "the collector accepts spans again"]


async def test_an_exporter_that_raises_loses_its_spans_and_nothing_else() -> None:
    class Broken(Slow):
        def export(self, spans: Sequence[Any], /) -> SpanExportResult:
            raise RuntimeError("broken")

    dropped = list[int]()
    handover = Handover(Broken(), queue_spans=512, dropped=dropped.append)
    handover.emit(REQUEST)
    await handover.close()
    assert dropped == [1]


async def test_the_end_waits_for_a_silent_collector_no_longer_than_a_moment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        endpoint = f"http://127.0.0.1:{hole.getsockname()[1]}"
        handover = Handover(exporter_of(TracingSettings(endpoint=endpoint)), queue_spans=512, dropped=lambda _: None)
        handover.emit(REQUEST)
        started = time.monotonic()
        await handover.close()
        assert FLUSH_SECONDS * 0.9 < time.monotonic() - started < FLUSH_SECONDS + 5.0


async def test_after_the_end_nothing_is_sent_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    before = set(threading.enumerate())
    handover = Handover(exporter_of(TracingSettings(endpoint=endpoint)), queue_spans=512, dropped=lambda _: None)
    handover.emit(REQUEST)
    await handover.close()
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(2.0)
    assert not [thread.name for thread in left if thread.is_alive()]


def test_only_what_the_settings_name_has_an_address() -> None:
    assert origins_of(Settings.model_validate({"grpc": {"upstream": "https://grpc.internal:6334"}})) == (
        Origin("http", "127.0.0.1:6333"),
        Origin("https", "grpc.internal:6334"),
    )
    index = "docs-abc123.svc.aped-4627-b74a.pinecone.io"
    pinecone = Settings.model_validate({"backend": "pinecone", "pinecone": {"index_host": index}})
    assert [origin.host for origin in origins_of(pinecone)] == ["api.pinecone.io"], "an index's host holds its name"


async def test_tracing_is_made_as_the_settings_say() -> None:
    with collector() as seen:
        settings = Settings.model_validate({"tracing": {"endpoint": seen.url, "sample_ratio": 1.0}})
        tracing = tracing_of(settings, clock=time.monotonic, dropped=lambda _: None)
        trace = tracing.begin([])
        assert trace is not None
        trace.end(method="GET", outcome=Outcome.PASSTHROUGH, status=200)
        await tracing.close()
        (span,) = seen.spans
    assert span.name == "GET"
    assert abs(span.started_ns / 1e9 - time.time()) < 60


def test_without_a_file_there_are_no_fields() -> None:
    assert headers_of(None) == {}


def test_fields_are_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a:b=c \r\n\nx-scope-orgid:\t7\n", encoding="utf-8")
    assert headers_of(str(file)) == {"Authorization": "Bearer a:b=c", "x-scope-orgid": "7"}


@pytest.mark.parametrize("line", ["s3cret", "a b: s3cret", "a:", "a: s3c\x01ret", ": s3cret", "a: s3crét"])
def test_what_is_no_field_is_told_by_its_line_and_not_shown(line: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"x-a: 1\n{line}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        headers_of(str(file))
    assert str(refused.value) == (
        f"tracing.headers_file: wanted a readable file with one `name: value` per line; saw {file}: something else in line 2"
    )


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        headers_of(str(tmp_path / "absent"))
    (tmp_path / "bytes").write_bytes(b"a: \xff\n")
    with pytest.raises(SettingsError, match="a file that is not UTF-8 text"):
        headers_of(str(tmp_path / "bytes"))
