"""The settings of tracing, and what must be installed for it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from vecsieve.config.addresses import parse_upstream, path_prefix
from vecsieve.config.contradiction import Contradiction, contradiction
from vecsieve.config.model import Model, NoneWord
from vecsieve.config.problems import shown
from vecsieve.config.values import Share, Wanted

# The SDK and the exporter are two distributions, and chromadb brings the first without the second.
NEEDED = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def collector_url(url: str) -> str:
    """The URL without a closing slash. Raises ValueError for everything but ``http(s)://host[:port][/path]``."""
    path = urlsplit(url).path
    parse_upstream(url.removesuffix(path) if path else url)
    return url.removesuffix(path) + path_prefix(path.removesuffix("/"))


CollectorUrl = Annotated[
    str,
    AfterValidator(collector_url),
    Wanted("http or https, host, port and perhaps a path such as http://127.0.0.1:4318, without credentials or query"),
]
QueueSpans = Annotated[int, Field(ge=512, le=1_000_000)]


class TracingSettings(Model):
    """Spans to an OpenTelemetry collector, as OTLP over HTTP; needs `pip install 'vecsieve[otel]'`. Nothing that could hold data is in
    them. Credentials are no settings: they are in `headers_file`, or in the variable OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: Annotated[CollectorUrl | None, NoneWord] = Field(
        default=None,
        description="the collector, to which /v1/traces is appended, as OTEL_EXPORTER_OTLP_ENDPOINT is read; none: no tracing, and trace "
        "headers go on byte for byte",
    )
    sample_ratio: Share = Field(
        default=0.01,
        description="of requests that bring no traceparent, as of the log's successes; one that brings it decides by its own flag",
    )
    headers_file: Annotated[str | None, NoneWord] = Field(
        default=None,
        description="file with what the collector wants to see, one `name: value` a line; read once, when the process starts",
    )
    queue_spans: QueueSpans = Field(
        default=2048,
        description="held for the collector per process, OpenTelemetry's own default, about 2 MB; what finds no room is dropped and counted",
    )


def of_tracing(tracing: TracingSettings) -> Iterator[Contradiction]:
    """Tracing that cannot be."""
    if tracing.endpoint is not None and not _is_installed():
        wanted = "none: tracing is on, but opentelemetry is not installed: pip install 'vecsieve[otel]'"
        yield contradiction(("tracing", "endpoint"), shown(tracing.endpoint), wanted)


def _is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # of a name whose parent is missing
        return False
