"""Spans as OpenTelemetry's: queued by the SDK's batching thread and sent as OTLP over HTTP.

The SDK's queue, thread and exporter are used, its tracer is not: it accepts any name and attribute. Here both come from
closed sets. opentelemetry is an extra and is imported inside functions, so a process without tracing never loads it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings, TracingSettings

from ..runtime.addresses import Origin
from .spans import Kind, Span
from .tracing import Clock, Tracing

# The file with the header fields for the collector: read at the start, never shown.
SETTING = "tracing.headers_file"
EXPECTED = "a readable file with one `name: value` per line"
_LINE = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)[ \t]*")


def headers_of(file: str | None) -> dict[str, str]:
    """Header fields of the collector by name; none without a file. Raises SettingsError, which shows nothing of the content."""
    return {} if file is None else dict(_fields(file))


def _fields(file: str) -> Iterator[tuple[str, str]]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        seen = error.strerror if isinstance(error, OSError) and error.strerror else "a file that is not UTF-8 text"
        raise SettingsError([Problem(SETTING, f"{file}: {seen}", EXPECTED)]) from None
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is not None:
            yield match[1], match[2]
        elif line.strip():
            raise SettingsError([Problem(SETTING, f"{file}: something else in line {number}", EXPECTED)])


LOGGER = logging.getLogger("vecsieve.tracing")
PATH = "/v1/traces"  # appended to a collector's URL (OTLP's specification)
SEND_SECONDS = 10.0  # one batch with its retries; the default of the SDK
QUEUE_SPANS = 2048  # about 2 MB; the default of the SDK
BATCH_SECONDS = 5.0  # how long a span waits for others; the default of the SDK
BATCH_SPANS = 256  # half of the SDK's default: the encoding thread holds the GIL for 25 us a span
FLUSH_SECONDS = 0.9  # a silent collector must not delay the exit of an idle process by a second
POLL_SECONDS = 0.01

Dropped = Callable[[int], object]
"""Counts spans that no collector accepted; called from any thread."""

Readable = Any
"""The SDK's ReadableSpan, which may be imported inside functions only."""


class Exporter(Protocol):
    """The part of the SDK's SpanExporter that is used."""

    def export(self, spans: Sequence[Readable], /) -> Any:
        """Send the spans; returns the SDK's result."""

    def shutdown(self) -> None:
        """Abort the batch that is being sent."""


def tracing_of(settings: Settings, *, clock: Clock, dropped: Dropped) -> Tracing:
    """Tracing according to the settings; ``tracing.endpoint`` must be set. Raises SettingsError for an unreadable file."""
    # The SDK's log lines quote the collector's answers, once per batch.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    return Tracing(
        exporting=Handover(exporter_of(settings.tracing), dropped=dropped),
        ratio=settings.tracing.sample_ratio,
        backend=settings.backend,
        origins=origins_of(settings),
        clock=clock,
        wall=time.time_ns,
        chance=random.Random(),  # noqa: S311 - ids and a sample, no secrets; seeded by the system in every process
    )


def origins_of(settings: Settings) -> tuple[Origin, ...]:
    """The origins of the settings, the upstream first. Hosts of Pinecone indexes are left out: they contain index names."""
    urls = [settings.upstream.url] + ([] if settings.grpc.upstream is None else [settings.grpc.upstream])
    return tuple(Origin.of(url) for url in urls)


def exporter_of(tracing: TracingSettings) -> Exporter:
    """The exporter of batches. Fields of the file override those of OTEL_EXPORTER_OTLP_HEADERS."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    headers = headers_of(tracing.headers_file)
    exporter: Exporter = OTLPSpanExporter(endpoint=f"{tracing.endpoint}{PATH}", headers=headers, timeout=SEND_SECONDS)
    return exporter


class Handover:
    """Passes spans to the SDK's thread. Spans beyond the queue and spans that the collector refuses are dropped and counted."""

    def __init__(self, exporter: Exporter, *, dropped: Dropped, queue_spans: int = QUEUE_SPANS) -> None:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._taken = _Taken(dropped)
        self._exporter = exporter
        self._dropped = dropped
        self._most = queue_spans
        self._given = 0
        self._readable = _readable()
        self._processor = BatchSpanProcessor(
            _watched(exporter, self._taken.batch),
            max_queue_size=queue_spans,
            schedule_delay_millis=BATCH_SECONDS * 1000,
            max_export_batch_size=BATCH_SPANS,
        )

    def emit(self, span: Span) -> None:
        """Queue the span; drop it when the queue is full."""
        if self._given - self._taken.spans >= self._most:
            self._dropped(1)
            return
        self._given += 1
        self._processor.on_end(self._readable(span))

    async def close(self) -> None:
        """Send what is queued; give up after FLUSH_SECONDS and leave the thread to the exit of the process."""
        # A thread of our own: the loop waits for its executor at its end, for any time.
        sending = threading.Thread(target=self._processor.shutdown, name="vecsieve-tracing", daemon=True)
        sending.start()
        until = time.monotonic() + FLUSH_SECONDS
        while sending.is_alive() and time.monotonic() < until:  # noqa: ASYNC110 - a thread has no event of the loop
            await asyncio.sleep(POLL_SECONDS)
        if sending.is_alive():
            self._exporter.shutdown()  # without it, a refused batch would be retried


class _Taken:
    """Counts what the exporter has finished. Only the SDK's thread writes it, so it needs no lock."""

    def __init__(self, dropped: Dropped) -> None:
        self.spans = 0
        self._dropped = dropped
        self._is_refused = False

    def batch(self, size: int, *, is_accepted: bool) -> None:
        """A batch was sent or given up."""
        self.spans += size
        if not is_accepted:
            self._dropped(size)
        if is_accepted is not self._is_refused:
            return
        self._is_refused = not is_accepted
        if is_accepted:
            LOGGER.info("the collector accepts spans again")
        else:
            LOGGER.warning("the collector accepts no spans: they are dropped")


def _readable() -> Callable[[Span], Readable]:
    """The function that makes the SDK's spans."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    resource = _resource()
    kinds = {Kind.REQUEST: SpanKind.SERVER, Kind.LEG: SpanKind.CLIENT, Kind.STAGE: SpanKind.INTERNAL}
    fine, failed = Status(StatusCode.UNSET), Status(StatusCode.ERROR)

    def readable(span: Span) -> Readable:
        ids, flags = span.ids, TraceFlags(span.ids.flags)
        is_remote = span.kind is Kind.REQUEST
        return ReadableSpan(
            name=span.name,
            context=SpanContext(ids.trace_id, ids.span_id, is_remote=False, trace_flags=flags),
            parent=None if ids.parent_id is None else SpanContext(ids.trace_id, ids.parent_id, is_remote, flags),
            resource=resource,
            attributes=span.attributes,
            kind=kinds[span.kind],
            status=failed if span.is_failed else fine,
            start_time=span.started_ns,
            end_time=span.ended_ns,
        )

    return readable


def _resource() -> Any:
    """The resource: service name vecsieve, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES set another."""
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create({"service.version": version("vecsieve")})
    is_nameless = str(resource.attributes.get("service.name", "")).startswith("unknown_service")
    return resource.merge(Resource({"service.name": "vecsieve"})) if is_nameless else resource


def _watched(exporter: Exporter, done: Callable[..., None]) -> Any:
    """The exporter, with ``done`` called after every batch."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Watched(SpanExporter):
        def export(self, spans: Sequence[Readable]) -> SpanExportResult:
            result: SpanExportResult = SpanExportResult.FAILURE
            try:
                result = exporter.export(spans)
            finally:
                done(len(spans), is_accepted=result is SpanExportResult.SUCCESS)
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Watched()
