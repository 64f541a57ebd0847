"""The smallest proxy: a listener whose only handler is the relay, for tests of the transport alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.network.faulty_upstream import FaultyUpstream, RawClient, Script
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.config.schema import LimitSettings, UpstreamSettings
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.body import RequestBody
from vecsieve.proxy.http.connections import Events
from vecsieve.proxy.http.headers import Target
from vecsieve.proxy.http.listener import DataServer, Listener, listen
from vecsieve.proxy.http.outflow import Backlog
from vecsieve.proxy.http.relay import Passage, Relay
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.runtime.addresses import DataPort
from vecsieve.proxy.runtime.loop import Owner


class PlainDialect:
    """Errors worded as Qdrant words them, near enough for the transport."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        body = json.dumps({"status": {"error": message}, "time": 0.0}).encode()
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        return False

    def refusal_in_success(self, body: bytes) -> bytes | None:
        return None

    def is_quota_in_success(self, body: bytes) -> bool:
        return False


@dataclass
class Invalidation(Events):
    """Events, remembered in order."""

    rejected: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    upstream: list[str] = field(default_factory=list)

    def connection_rejected(self, reason: str) -> None:
        self.rejected.append(reason)

    def answered_locally(self, trouble: str) -> None:
        self.answered.append(trouble)

    def upstream_failed(self, kind: str) -> None:
        self.upstream.append(kind)


@dataclass(frozen=True, slots=True)
class RelayServer:
    """A running bare relay."""

    listener: Listener
    upstream: Upstream
    writes: Owner
    heard: Invalidation

    @property
    def port(self) -> int:
        return self.listener.ports[0]


@asynccontextmanager
async def bare_relay(
    upstream_url: str,
    *,
    limits: LimitSettings | None = None,
    upstream_settings: dict[str, float] | None = None,
    searches: bool = False,
) -> AsyncIterator[RelayServer]:
    """A relay on a free port. ``searches``: treat every request as one that only reads."""
    limits = limits or LimitSettings()
    heard = Invalidation()
    settings = UpstreamSettings.model_validate({"url": upstream_url, **(upstream_settings or {})})
    upstream = Upstream(settings, events=heard)
    writes = Owner()
    answers = LocalAnswers(PlainDialect())
    relay = Relay(
        upstream=upstream,
        answers=answers,
        writes=writes,
        events=heard,
        backlog=Backlog(limits.bytes_in_flight),
        stream_idle_seconds=settings.stream_idle_timeout_seconds,
    )

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        body = RequestBody(request, idle_seconds=limits.stream_idle_timeout_seconds)
        target = Target(request.raw_path, request.raw_path)
        return await relay.relay(request, body, Passage(target=target, is_search=searches))

    server = DataServer(handler, limits, answers, heard)
    listener = await listen(server, limits, DataPort("127.0.0.1", 0))
    try:
        yield RelayServer(listener, upstream, writes, heard)
    finally:
        await listener.close(grace_seconds=1.0)
        await writes.close(grace_seconds=1.0)
        await upstream.close()


@asynccontextmanager
async def relayed(
    script: Script, sent: bytes = b"", **settings: Any
) -> AsyncIterator[tuple[RawClient, RelayServer, FaultyUpstream]]:
    """A client that has sent this to a relay, which stands before a scripted database. ``settings``: of the relay."""
    async with FaultyUpstream(script) as upstream, bare_relay(upstream.url, **settings) as relay:
        client = await RawClient.connect(relay.port)
        if sent:
            await client.send(sent)
        yield client, relay, upstream
        await client.close()
