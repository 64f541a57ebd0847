"""The data of a Prometheus for a panel's query over a span of time."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

SECONDS = 30.0
EVERYTHING = {"$job": ".+", "$instance": ".+", "$backend": ".+"}


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its labels, and value by time; gaps are left out."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


@dataclass(frozen=True, slots=True)
class Span:
    """Start and end in seconds since the epoch; one value every ``step``, rates over ``window``."""

    start: float
    end: float
    step: float
    window: str


class QueryRefusedError(RuntimeError):
    """Prometheus did not answer a query."""


def ask(url: str, query: str, span: Span) -> list[Series]:
    """The series of a query over the span. Raises QueryRefusedError."""
    for name, value in {**EVERYTHING, "$__rate_interval": span.window}.items():
        query = query.replace(name, value)
    parameters = {"query": query, "start": span.start, "end": span.end, "step": span.step}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
    try:
        connection.request("GET", f"/api/v1/query_range?{urlencode(parameters)}")
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if answer["status"] != "success":
        raise QueryRefusedError(f"{query}: {answer.get('error')}")
    every = (Series(series["metric"], _numbers(series["values"])) for series in answer["data"]["result"])
    return [series for series in every if series.points]


def _numbers(values: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    return tuple((at, value) for at, text in values if math.isfinite(value := float(text)))
