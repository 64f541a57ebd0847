"""Handles every request on an HTTP data port, and counts it."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from ..search.errors import ORIGIN
from ..telemetry.labels import Origin
from ..telemetry.requests import Ended
from ..telemetry.tracing import NAME as TRACE_PARENT
from ..writes.pipeline import Pipeline
from .answers import RawResponse
from .exchange import HttpExchange, HttpServices, connection_of

LOOPBACK = frozenset({"127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class DataPlane:
    pipeline: Pipeline
    http: HttpServices

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        record = self.pipeline.begin(request.headers.getall(TRACE_PARENT, ()))
        is_reused = connection_of(request).begin(record.request_id)
        response: RawResponse | None = None
        try:
            response = await self.pipeline.answer(HttpExchange(self.http, request, record))
        finally:
            self.http.services.recorder.end(record, _ended(request, response, is_reused=is_reused))
        if not response.prepared:
            response.send_now(request)
        return response


def _ended(request: web.BaseRequest, response: RawResponse | None, *, is_reused: bool) -> Ended:
    """A relayed answer has been sent by now; one of our own is sent after the handler returns."""
    is_relayed = response is not None and response.prepared
    size = 0 if response is None else response.body_length if is_relayed else response.body_bytes
    is_ours = response is not None and ORIGIN[0] in response.headers
    return Ended(
        method=request.method,
        status=None if response is None else response.status,
        origin=Origin.PROXY if is_ours else Origin.UPSTREAM,
        request_bytes=request.content_length or 0,
        response_bytes=size,
        is_relayed=is_relayed,
        is_loopback=request.remote in LOOPBACK,
        is_reused=is_reused,
        cause="" if response is None else response.cause,
    )
