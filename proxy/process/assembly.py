"""The data plane of one process: every part is made here from the settings and handed down; nothing is global."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from vecsieve.adapters.backends import BACKENDS, Backend, Transport
from vecsieve.adapters.contract import Bounds, Dialect
from vecsieve.config.schema import LimitSettings, Settings

from ..admin.pools import Pools
from ..admin.recent import Observed, Recent, kept_by
from ..http.answers import LocalAnswers
from ..http.connections import Events
from ..http.exchange import DataPlane, HttpServices
from ..http.listener import DataServer, Listener, listen
from ..http.outflow import Backlog
from ..http.relay import Relay
from ..http.routes import Heads, IndexRoutes, OneUpstream, Routes
from ..http.tls import context_of, renew
from ..http.upstream import Upstream
from ..runtime.addresses import DataPort
from ..runtime.lifecycle import Board
from ..runtime.loop import LongWork, Owner
from ..runtime.memory import (
    MemoryGuard,
    cgroup_limit_bytes,
    resident_bytes,
)
from ..search.budgets import Egress, ReadBudget
from ..search.collections.learned import Learned, Names
from ..search.collections.profiles import Calibration
from ..search.collections.texts import CollectionTexts
from ..search.context.canary import Canary
from ..search.context.sessions import Sessions, store_of
from ..search.exchange import Shadow, VectorFetcher
from ..search.fetch import Depths
from ..search.governor import Governor
from ..search.hedge import HEDGE_TIMES, AttemptTimeout, HedgeTimes, Replays
from ..search.limits import REFUSES_AT, TEXT_NUMBER_BYTES, Admission, Breaker, BytesInFlight, Turns, spread
from ..search.memory.points import FeatureMemory
from ..search.policy import Rules, RulesInForce
from ..search.service import ProcessServices, SearchService
from ..telemetry.labels import InFlight, Telemetry
from ..telemetry.log import Access
from ..telemetry.metrics import Metrics
from ..telemetry.requests import RequestRecorder
from ..telemetry.tracing import Clock, Tracing
from ..writes.events import Feed
from ..writes.gate import REST_SECONDS, WriteGate
from ..writes.journal import Journal
from ..writes.pipeline import Pipeline
from ..writes.settling import Room, Shared
from .descriptors import Budget
from .levels import Levels

if TYPE_CHECKING:
    from ..api.events import Webhook
    from ..api.listener import Api
    from ..grpc.shared_port import SharedPort
    from ..grpc.side import GrpcSide


# The feature memory takes at most this fraction (1/n) of the container's memory.
MEMORY_SHARE = 8
# The largest search request that is read. Reading a part takes 1 to 3 µs, and each level of nested searches one more pass, 8 ms for 4 MiB.
REQUEST_PARTS, REQUEST_NESTING = 16_384, 4


class Process:
    """The data plane of one process with its listener. Create it inside the event loop.

    ``seed``: separates the jitter of workers. ``descriptors``: the budget of this process; None: the settings' limits apply. ``registry``:
    the source of /v1/stats, for all workers; None: no statistics. ``board``: of all workers. ``hedge_times``: tests use longer ones. Raises SettingsError for an
    unusable certificate.
    """

    def __init__(  # noqa: PLR0913 - the parts that the composition root has made
        self,
        settings: Settings,
        *,
        metrics: Metrics,
        log: Callable[[Access], None],
        seed: int = 0,
        workers: int = 1,
        registry: CollectorRegistry | None = None,
        descriptors: Budget | None = None,
        board: Board | None = None,
        hedge_times: HedgeTimes = HEDGE_TIMES,
    ) -> None:
        clock, self._in_force = time.monotonic, settings
        settings = settings if descriptors is None else descriptors.fitted(settings)
        limits, events, self._settings = settings.limits, Events(metrics), settings
        self._backend = BACKENDS[settings.backend]
        self._rules = RulesInForce(Rules.of(settings))
        self._owner, self._seed = Owner(), seed
        routes = _routes(settings, self._backend)
        self._upstream = _upstream(settings, events, routes, descriptors)
        self.learned = Learned(clock)
        self.breaker = Breaker(clock, jitter=spread(seed), changed=metrics.breaker_is)
        self.reads = ReadBudget(limits.own_reads_share, metrics=metrics, clock=clock)
        self._tracing = _tracing(settings, metrics)
        self.recorder = RequestRecorder(metrics, log=log, clock=clock, tracing=self._tracing)
        self.recent = Recent(kept_by(settings), now=time.time, texts=settings.keeps_texts, place=seed)
        self._work = LongWork()
        self.pools = Pools(keep=kept_by(settings) > 0, clock=clock, work=self._work, count=metrics.sampled)
        self._workers = workers
        self.egress = Egress(_budget_bytes(settings, workers=workers), now=time.time)
        metrics.egress_budget_remaining_bytes.set(self.egress.remaining_bytes)
        self.calibration = Calibration(settings.profiles, metrics=metrics, clock=clock)
        self.texts = CollectionTexts(metrics.texts_known)
        self._canary = Canary(board or Board(0), metrics, self._rules.now.members, now=time.time)
        self.shadow = Shadow(recorder=self.recorder)
        self._services = self._created(limits, metrics, workers=workers, hedge_times=hedge_times)
        _show_limits(metrics, limits)
        self._feed = _feed(metrics)
        self.levels = self._levels(metrics)
        self._gated = Shared(Room(limits.bytes_in_flight), LongWork(), _journal(settings), self._feed, self._owner)
        self._gates: list[WriteGate] = []
        self._webhook = _webhook(settings, self._feed, metrics)
        self._server = self._data_server(metrics, routes, events)
        self._listener: Listener | None = None
        self._grpc: GrpcSide | None = None
        self._api = self._separate_api(metrics, registry)
        self._is_leaving = False
        self._tls = context_of(settings)

    def _created(
        self, limits: LimitSettings, metrics: Metrics, *, workers: int, hedge_times: HedgeTimes
    ) -> ProcessServices:
        settings, clock = self._settings, time.monotonic
        turns = Turns(clock, asyncio.get_running_loop().call_soon)
        return ProcessServices(
            backend=settings.backend,
            rules=self._rules,
            limits=limits,
            clock=clock,
            admission=_admission(limits, turns),
            turns=turns,
            memory=_memory_guard(metrics, clock, workers=workers),
            scaling=self.calibration.scaling,
            texts=self.texts,
            features=_feature_memory(settings, clock, workers=workers),
            depths=Depths(),
            vector_fetcher=VectorFetcher(Breaker(clock, jitter=spread(self._seed)), self.reads, metrics, clock),
            shadow=self.shadow,
            canary=self._canary,
            work=self._work,
            bounds=Bounds(searches=limits.searches_per_request, parts=REQUEST_PARTS, nesting=REQUEST_NESTING),
            governor=self._governor(limits, metrics, hedge_times),
            recorder=self.recorder,
            metrics=metrics,
            observer=Observed(self.recent, self.pools),
            sessions=Sessions(
                store_of(settings.sessions, clock), clock=clock, failed=metrics.session_store_failures_total.inc
            ),
        )

    def _governor(self, limits: LimitSettings, metrics: Metrics, hedge_times: HedgeTimes) -> Governor:
        clock, longest = time.monotonic, limits.attempt_timeout_seconds
        return Governor(
            learned=self.learned,
            bytes_in_flight=BytesInFlight(limits.bytes_in_flight, reply_bytes=limits.reply_body_bytes, clock=clock),
            breaker=self.breaker,
            replays=Replays(lambda: self.recorder.requests_in_flight),
            reads=self.reads,
            egress=self.egress,
            attempt_timeout=AttemptTimeout(longest_seconds=longest, clock=clock, hedge_times=hedge_times),
            metrics=metrics,
            clock=clock,
            later=asyncio.get_running_loop().call_later,
        )

    def _data_server(self, metrics: Metrics, routes: Routes, events: Events) -> DataServer:
        backend = self._backend
        adapter, dialect = backend.rest.adapter(), backend.rest.dialect()
        answers = LocalAnswers(dialect)
        searches = SearchService(adapter, dialect, self._services, number_bytes=TEXT_NUMBER_BYTES)
        http = HttpServices(
            services=self._services,
            routes=routes,
            heads=Heads(routes, adapter, backend),
            backend=backend,
            dialect=dialect,
            searches=searches,
            write_invalidation=self._services.write_invalidation(backend.rest),
            relay=self._relay(answers, events),
            upstream=self._upstream,
            names=Names(None if backend.naming is None else backend.naming(), metrics.named),
            answers=answers,
        )
        plane = DataPlane(Pipeline(self._services, searches, self._write_gate(backend.rest, dialect)), http)
        return DataServer(plane.handle, self._settings.limits, answers, events, http2=_http2(self._settings))

    def _write_gate(self, transport: Transport, dialect: Dialect) -> WriteGate | None:
        """The write gate of a transport, closed with the process; None if all writes pass through."""
        if transport.writes is None:
            return None
        gate = WriteGate(
            transport.writes(),
            dialect,
            self._services,
            breaker=Breaker(time.monotonic, jitter=spread(self._seed), open_seconds=REST_SECONDS),
            shared=self._gated,
            deletes=transport.deletes,
        )
        self._gates.append(gate)
        return gate

    def _relay(self, answers: LocalAnswers, events: Events) -> Relay:
        return Relay(
            upstream=self._upstream,
            answers=answers,
            writes=self._owner,
            events=events,
            backlog=Backlog(self._settings.limits.bytes_in_flight),
            stream_idle_seconds=self._settings.upstream.stream_idle_timeout_seconds,
        )

    def _separate_api(self, metrics: Metrics, registry: CollectorRegistry | None) -> Api | None:
        """None if it is disabled."""
        settings, rest = self._settings, self._backend.rest
        if settings.api.listen is None:
            return None
        # An eighth of our modules, and off by default.
        from ..api.listener import Api
        from ..api.points import SUPPORTED_BACKENDS, Points, Statistics
        from ..api.routes import routes_of

        gate = None
        if settings.backend in SUPPORTED_BACKENDS:
            gate = self._write_gate(rest, rest.dialect())
        points = None if gate is None else Points(gate, self._upstream.ask, self._services.clock)
        statistics = None if registry is None else Statistics(registry, points)
        routes = routes_of(settings.api, points, statistics=statistics, feed=self._feed)
        return Api(settings, routes, metrics=metrics, memory=self._services.memory)

    def _levels(self, metrics: Metrics) -> Levels:
        def shared() -> int:
            return 0 if self._grpc is None else self._grpc.connected

        services = self._services
        return Levels(
            metrics,
            self.recorder,
            services.admission,
            services.governor.bytes_in_flight,
            lambda: len(self._server.rules.connections),
            self._upstream.census,
            shared,
            self._feed,
            self._canary,
            services.features,
        )

    async def listen(self, *data_ports: DataPort) -> tuple[int, ...]:
        """Open the ports; returns their numbers. Raises OSError or IncompatibleLibraryError."""
        spoken = self._backend.grpc if any(data_port.grpc is not None for data_port in data_ports) else None
        if spoken is not None:
            from ..grpc.side import side_of  # loads grpc: 20 MB that nobody else needs

            gate = self._write_gate(spoken, spoken.dialect())
            over_rest = self._upstream.ask_for_call
            self._grpc = side_of(self._settings, self._backend, spoken, self._services, gate, over_rest)
        proxied = [data_port for data_port in data_ports if not data_port.is_for_api]
        fronts = {data_port: front for data_port in proxied if (front := await self._front(data_port)) is not None}
        self._listener = await listen(self._server, self._settings.limits, *proxied, fronts=fronts)
        if self._webhook is not None:
            self._webhook.start()
        ports = list(self._listener.ports)
        if self._api is not None:
            ports += [await self._api.open(data_port, self._tls) for data_port in data_ports if data_port.is_for_api]
        return tuple(ports)

    async def _front(self, data_port: DataPort) -> SharedPort | None:
        """The protocol detection of a port; None for a port with plain HTTP/1 only."""
        inner = None if self._grpc is None else await self._grpc.inner_socket(data_port)
        if inner is None and self._tls is None:
            return None
        from ..grpc.shared_port import SharedPort  # and all that reads HTTP/2

        return SharedPort(self._server.rules, inner=inner, tls=self._tls)

    def reload(self, settings: Settings, rules: Rules | None = None) -> None:
        """``rules``: of these settings, where they were made beside the loop: thousands take a second. Apply new policies, overrides, shadow sample, report header, explain.keep, explain.texts and egress budget to new requests.

        Addresses, limits and the upstream are fixed at the start; certificate files are read again. Raises SettingsError when they are
        unusable; then nothing has changed.
        """
        if self._tls is not None:
            renew(self._tls, self._settings)
        self._rules.now = rules or Rules.of(settings)
        self._canary.take(self._rules.now.members)
        measured = attrgetter("mode", "policy", "rules", "shadow")  # other settings leave the verdict
        if measured(settings) != measured(self._in_force):
            self.shadow.forget()
        self._in_force = settings
        self.recent.resize(kept_by(settings), texts=settings.keeps_texts)
        self.pools.resize(keep=kept_by(settings) > 0)
        self.egress.resize(_budget_bytes(settings, workers=self._workers))

    def drain(self) -> None:
        """From now on every answer closes its connection."""
        for listener in (self._listener, self._api):
            if listener is not None:
                listener.drain()

    def stop_accepting(self) -> None:
        self._is_leaving = True
        for listener in (self._listener, self._api):
            if listener is not None:
                listener.stop_accepting()
        if self._grpc is not None:
            self._grpc.stop(grace_seconds=self._settings.limits.drain_seconds)

    @property
    def in_flight(self) -> int:
        """Requests in progress; at the end also clients whose answers are still being sent."""
        sides = (self._listener, self._grpc) if self._is_leaving else ()
        api_requests = 0 if self._api is None else self._api.in_flight
        return self.recorder.requests_in_flight + api_requests + sum(side.unsent for side in sides if side is not None)

    @property
    def searches_in_flight(self) -> int:
        return self.recorder.searches_in_flight

    async def close(self, *, grace_seconds: float = 0.0) -> None:
        """Close all parts, each before the parts it uses."""
        if self._listener is not None:
            self._listener.stop_accepting()
        # In parallel, because the gRPC server sends GOAWAY to its clients through our ports.
        sides = (self._listener, self._grpc, self._api)
        await asyncio.gather(*(side.close(grace_seconds=grace_seconds) for side in sides if side is not None))
        await self.shadow.close()
        self.calibration.close()
        for gate in self._gates:
            await gate.close()
        if self._webhook is not None:
            await self._webhook.close()
        await self._owner.close(grace_seconds=grace_seconds)
        self._gated.work.close()
        await self.pools.close()
        self._services.work.close()
        if self._gated.journal is not None:
            await self._gated.journal.close()
        await self._upstream.close()
        await self._services.sessions.close()
        if self._tracing is not None:
            await self._tracing.close()


def _routes(settings: Settings, backend: Backend) -> Routes:
    if settings.indexes is None or backend.indexes is None:
        return OneUpstream(settings.upstream.path_prefix, settings.upstream.replacement)
    return IndexRoutes(settings, settings.indexes, backend.indexes)


def _http2(settings: Settings) -> Callable[[], Callable[[bytes], bytes | None]]:
    """What answers gRPC clients on ports that have no gRPC. It is loaded for the first one."""
    refusal: Callable[[], Callable[[bytes], bytes | None]] | None = None

    def begin() -> Callable[[bytes], bytes | None]:
        nonlocal refusal
        if refusal is None:
            from ..grpc.refusal import refusing

            has_grpc = settings.traits.has_grpc
            remedy = "start it with --grpc-upstream HOST:PORT" if has_grpc else f"{settings.backend} has none"
            refusal = refusing(f"VecSieve serves no gRPC here: {remedy}")
        return refusal()

    return begin


def _upstream(settings: Settings, events: Events, routes: Routes, descriptors: Budget | None) -> Upstream:
    most = 0 if descriptors is None else descriptors.pool_total
    return Upstream(
        settings.upstream,
        events=events,
        may_be_private=routes.may_be_private,
        most=most,
        reply_bytes=settings.limits.reply_body_bytes,
    )


def _feed(metrics: Metrics) -> Feed:
    return Feed(now=time.time, dropped=lambda sink, count: metrics.events_dropped_total.labels(sink).inc(count))


def _admission(limits: LimitSettings, turns: Turns) -> Admission:
    return Admission(
        limit=limits.in_flight,
        wait_seconds=limits.in_flight_queue_seconds,
        turns=turns,
        lag_seconds=REFUSES_AT * limits.lag_seconds,
    )


def _journal(settings: Settings) -> Journal | None:
    path = settings.journal.path
    return None if path is None else Journal(Path(path), now=time.time)


def _webhook(settings: Settings, feed: Feed, metrics: Metrics) -> Webhook | None:
    webhook = settings.webhook
    if webhook.url is None:
        return None
    from ..api.events import Webhook  # of the API, which is not loaded without a need

    return Webhook(webhook, webhook.url, settings.upstream, feed, metrics=metrics, now=time.time)


def _memory_guard(metrics: Metrics, clock: Clock, *, workers: int) -> MemoryGuard:
    guard = MemoryGuard(cgroup_limit_bytes(workers=workers), resident_bytes=resident_bytes, clock=clock)
    metrics.memory_limit_bytes.set(guard.limit_bytes or 0)
    return guard


def _tracing(settings: Settings, metrics: Metrics) -> Tracing | None:
    if settings.tracing.endpoint is None:
        return None
    from ..telemetry.otel import tracing_of  # loads opentelemetry: an extra

    return tracing_of(
        settings, clock=time.monotonic, dropped=metrics.telemetry_dropped_total.labels(Telemetry.SPANS).inc
    )


def _feature_memory(settings: Settings, clock: Clock, *, workers: int) -> FeatureMemory | None:
    """None if it is disabled."""
    limit, most = settings.memory.bytes, cgroup_limit_bytes(workers=workers)
    limit = limit if most is None else min(limit, most // MEMORY_SHARE)
    return FeatureMemory(limit, ttl_seconds=settings.memory.ttl_seconds, clock=clock) if limit else None


def _budget_bytes(settings: Settings, *, workers: int) -> int | None:
    """The share of one worker, since each counts separately."""
    budget = None if settings.indexes is None else settings.indexes.egress_budget_bytes
    return None if budget is None else max(1, budget // workers)


def _show_limits(metrics: Metrics, limits: LimitSettings) -> None:
    """Gauges of the limits, for comparison with the requests in flight."""
    metrics.in_flight_limit.labels(InFlight.REQUESTS.value).set(limits.in_flight)
    metrics.in_flight_limit.labels(InFlight.SEARCHES.value).set(limits.searches_in_flight)
    metrics.selection_bytes_in_flight_limit.set(limits.bytes_in_flight)
    metrics.connections_limit.set(limits.connections)
