"""A collector: takes OTLP over HTTP on a thread of its own, keeps every span and the very bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.network.http_scripts import Script, in_a_thread

KINDS = {1: "internal", 2: "server", 3: "client"}


@dataclass(frozen=True, slots=True)
class Received:
    """One span as it came. ``parent_id``: "" for a root."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    started_ns: int
    ended_ns: int
    is_failed: bool
    attributes: dict[str, str | int]
    resource: dict[str, str | int]


@dataclass(slots=True)
class Collector:
    """What came. ``status``: what the next batches are answered with."""

    url: str = ""
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def spans(self) -> list[Received]:
        return [span for body in self.bodies for span in spans_of(body)]

    def wait_for(self, count: int, seconds: float = 20.0) -> list[Received]:
        """So many spans, once they are there."""
        until = time.monotonic() + seconds
        while len(spans := self.spans) < count:
            assert time.monotonic() < until, f"{len(spans)} spans came: {[span.name for span in spans]}"
            time.sleep(0.02)
        return spans


def spans_of(body: bytes) -> list[Received]:
    """The spans of one batch."""
    spans = []
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            assert not scope.scope.name
            for span in scope.spans:
                assert not [*span.events, *span.links, *span.trace_state, *span.status.message]
                spans.append(
                    Received(
                        name=span.name,
                        kind=KINDS[span.kind],
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex(),
                        started_ns=span.start_time_unix_nano,
                        ended_ns=span.end_time_unix_nano,
                        is_failed=span.status.code == 2,
                        attributes=_attributes(span.attributes),
                        resource=resource,
                    )
                )
    return spans


def _attributes(pairs: Any) -> dict[str, str | int]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port."""
    seen = Collector()

    class Receiver(Script):
        def do_POST(self) -> None:
            body = self.content()
            if seen.status == 200:
                seen.bodies.append(body)
                seen.headers.append({name.lower(): value for name, value in self.headers.items()})
                seen.paths.append(self.path)
            self.answer(status=seen.status)

    with in_a_thread(Receiver) as seen.url:
        yield seen
