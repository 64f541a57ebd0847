"""What a span is called and what it says, in OpenTelemetry's words: every one from a closed set or from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from vecsieve.proxy.span import Kind, Method, Span


@dataclass(frozen=True, slots=True)
class SpanWords:
    """The words of one process. ``hosts``: those of the settings, without ports, in the order that spans count them by."""

    backend: str
    hosts: tuple[str, ...]

    def name(self, span: Span) -> str:
        """Its name: few different ones, as the conventions demand."""
        if span.stage is not None:
            return span.stage.value
        method = "HTTP" if span.method in {None, Method.OTHER} else str(span.method)
        about = span.attempt if span.kind is Kind.LEG else span.operation
        return method if about is None else f"{method} {about.value}"

    def attributes(self, span: Span) -> dict[str, str | int]:
        """What is known of it, by the conventions' names."""
        if span.stage is not None:
            return {}
        is_leg = span.kind is Kind.LEG
        said: dict[str, str | int | None] = {
            "http.request.method": None if span.method is None else span.method.value,
            "http.response.status_code": span.status,
            "rpc.grpc.status_code": None if span.code is None else int(span.code),
            "server.address": None if span.host is None else self.hosts[span.host],
            "url.scheme": None if span.is_tls is None else "https" if span.is_tls else "http",
            "db.system.name": self.backend if is_leg else None,
            "db.operation.name": None if span.operation is None else span.operation.value,
            "vecsieve.outcome": None if span.outcome is None else span.outcome.value,
            "vecsieve.candidates": span.candidates,
            "vecsieve.collapsed": span.collapsed,
            "vecsieve.fail_open.reason": None if span.fail_open is None else span.fail_open.value,
        }
        return {key: value for key, value in said.items() if value is not None}
