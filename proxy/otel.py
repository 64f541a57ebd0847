"""The OpenTelemetry side: our spans as the SDK's, held by its batching thread, sent as OTLP over HTTP.

The SDK's tracer is not used: it takes names and attributes of any kind. Its queue, its thread and its exporter are, and what
comes to them is made here of members of closed sets. opentelemetry is an extra and loaded inside functions alone: a
process that traces nothing never loads it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from vecsieve.config.schema import Settings
from vecsieve.config.tracing import TracingSettings
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.otel_headers import headers_of
from vecsieve.proxy.recording import Recording
from vecsieve.proxy.span import Kind, Span
from vecsieve.proxy.span_words import SpanWords
from vecsieve.proxy.stopwatch import Clock

LOGGER = logging.getLogger("vecsieve.tracing")
PATH = "/v1/traces"  # behind a collector's URL (OTLP's specification)
SEND_SECONDS = 10.0  # one batch with its retries, as the SDK has it
BATCH_SECONDS = 5.0  # how long a span waits for others, as the SDK has it
BATCH_SPANS = 256  # half of the SDK's: the thread that encodes them holds the interpreter, 25 us a span
FLUSH_SECONDS = 0.9  # a collector that is silent must not hold up the end of an idle process for a second
LOOK_SECONDS = 0.01

Dropped = Callable[[int], object]
"""Counts spans that no collector took; called from any thread."""

Readable = Any
"""The SDK's ReadableSpan, whose name nothing outside of functions may load."""


class Exporter(Protocol):
    """The SDK's SpanExporter, as far as it is used."""

    def export(self, spans: Sequence[Readable], /) -> Any:
        """Send them; the SDK's word for how that went."""
        ...

    def shutdown(self) -> None:
        """Give up what is being sent."""
        ...


def tracing_of(settings: Settings, *, clock: Clock, dropped: Dropped) -> Recording:
    """Tracing as the settings describe it; ``tracing.endpoint`` is one. Raises SettingsError for a file that cannot be read."""
    origins = origins_of(settings)
    words = SpanWords(settings.backend, tuple(origin.host for origin in origins))
    # The library's own lines quote what a collector answers, and say once per batch what is said once here.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    return Recording(
        exporting=Handover(
            exporter_of(settings.tracing), words, queue_spans=settings.tracing.queue_spans, dropped=dropped
        ),
        ratio=settings.tracing.sample_ratio,
        origins=origins,
        clock=clock,
        wall=time.time_ns,
        chance=random.Random(),  # noqa: S311 - ids and a sample, no secrets; seeded by the system in every process
    )


def origins_of(settings: Settings) -> tuple[Origin, ...]:
    """Where the settings say that requests go, the upstream first. Hosts of Pinecone's indexes have the indexes' names in them."""
    urls = [settings.upstream.url] + ([] if settings.grpc.upstream is None else [settings.grpc.upstream])
    return tuple(Origin.of(url) for url in urls)


def exporter_of(tracing: TracingSettings) -> Exporter:
    """What sends batches. Fields of the file go before those of OTEL_EXPORTER_OTLP_HEADERS."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    headers = headers_of(tracing.headers_file)
    made: Exporter = OTLPSpanExporter(endpoint=f"{tracing.endpoint}{PATH}", headers=headers, timeout=SEND_SECONDS)
    return made


class Handover:
    """Hands spans over to the SDK's thread. A span too many is dropped, and so is what the collector does not take; both count."""

    def __init__(self, exporter: Exporter, words: SpanWords, *, queue_spans: int, dropped: Dropped) -> None:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._taken = _Taken(dropped)
        self._exporter = exporter
        self._dropped = dropped
        self._most = queue_spans
        self._given = 0
        self._readable = _readable(words)
        self._processor = BatchSpanProcessor(
            _watched(exporter, self._taken.batch),
            max_queue_size=queue_spans,
            schedule_delay_millis=BATCH_SECONDS * 1000,
            max_export_batch_size=min(BATCH_SPANS, queue_spans),
        )

    def emit(self, span: Span) -> None:
        """Hold the span for the thread; drop it when too many are held or being sent."""
        if self._given - self._taken.spans >= self._most:
            self._dropped(1)
            return
        self._given += 1
        self._processor.on_end(self._readable(span))

    async def close(self) -> None:
        """Send what is held; give up after a moment, and leave the thread to the end of the process."""
        # A thread of our own, because the loop's executor is waited for at the end of the loop, however long that takes.
        sending = threading.Thread(target=self._processor.shutdown, name="vecsieve-tracing", daemon=True)
        sending.start()
        until = time.monotonic() + FLUSH_SECONDS
        while sending.is_alive() and time.monotonic() < until:  # noqa: ASYNC110 - a thread has no event of the loop
            await asyncio.sleep(LOOK_SECONDS)
        if sending.is_alive():
            self._exporter.shutdown()  # a batch that was refused is not sent again


class _Taken:
    """What the exporter is done with. Written by the SDK's thread alone, so that no lock is needed."""

    def __init__(self, dropped: Dropped) -> None:
        self.spans = 0
        self._dropped = dropped
        self._is_refused = False

    def batch(self, size: int, *, is_accepted: bool) -> None:
        """A batch was sent, or given up."""
        self.spans += size
        if not is_accepted:
            self._dropped(size)
        if is_accepted is not self._is_refused:
            return
        self._is_refused = not is_accepted
        if is_accepted:
            LOGGER.info("the collector takes spans again")
        else:
            LOGGER.warning("the collector takes no spans: they are dropped")


def _readable(words: SpanWords) -> Callable[[Span], Readable]:
    """What makes the SDK's spans."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    resource = _resource()
    kinds = {Kind.REQUEST: SpanKind.SERVER, Kind.LEG: SpanKind.CLIENT, Kind.STAGE: SpanKind.INTERNAL}
    fine, failed = Status(StatusCode.UNSET), Status(StatusCode.ERROR)

    def readable(span: Span) -> Readable:
        flags, parent = TraceFlags(span.flags), span.parent_id
        is_remote = span.kind is Kind.REQUEST
        return ReadableSpan(
            name=words.name(span),
            context=SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=flags),
            parent=None if parent is None else SpanContext(span.trace_id, parent, is_remote, flags),
            resource=resource,
            attributes=words.attributes(span),
            kind=kinds[span.kind],
            status=failed if span.is_failed else fine,
            start_time=span.started_ns,
            end_time=span.ended_ns,
        )

    return readable


def _resource() -> Any:
    """Who sends: vecsieve, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise."""
    from opentelemetry.sdk.resources import Resource

    made = Resource.create({"service.version": version("vecsieve")})
    is_nameless = str(made.attributes.get("service.name", "")).startswith("unknown_service")
    return made.merge(Resource({"service.name": "vecsieve"})) if is_nameless else made


def _watched(exporter: Exporter, done: Callable[..., None]) -> Any:
    """The exporter, and ``done`` told of every batch."""
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
