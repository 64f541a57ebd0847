"""One process's data plane, built from settings: every part is made here and handed down, nothing is global."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vecsieve.adapters.backends import BACKENDS, Backend
from vecsieve.adapters.contract import Bounds
from vecsieve.config.schema import LimitSettings, Settings
from vecsieve.proxy.addresses import DataPort
from vecsieve.proxy.grpc.shared_port import SharedPort
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.dataplane import DataPlane
from vecsieve.proxy.http.events import CountedEvents
from vecsieve.proxy.http.listener import DataServer, Listener, listen
from vecsieve.proxy.http.outflow import Backlog
from vecsieve.proxy.http.pools import Census
from vecsieve.proxy.http.relay import Relay, Writes
from vecsieve.proxy.http.routes import IndexRoutes, OneUpstream, Routes
from vecsieve.proxy.http.tls import context_of, renew
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.resources import Budget, MemoryGuard, cgroup_limit_bytes, resident_bytes
from vecsieve.proxy.runtime import LongWork
from vecsieve.proxy.search.breaker import Breaker, spread
from vecsieve.proxy.search.budgets import Egress, OwnReads
from vecsieve.proxy.search.collections import Learned, Names
from vecsieve.proxy.search.exchange import Shadow, VectorFetcher
from vecsieve.proxy.search.fetch import AdaptiveFetch
from vecsieve.proxy.search.hedge import Hedging, Patience, Replays
from vecsieve.proxy.search.limits import TEXT_NUMBER_BYTES, Admission, HeldBytes, Turns
from vecsieve.proxy.search.lookups import VectorMemory
from vecsieve.proxy.search.policy import Rules, RulesInForce
from vecsieve.proxy.search.profiles import Calibration
from vecsieve.proxy.search.report import Recent
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.search.services import ProcessServices
from vecsieve.proxy.telemetry.labels import UpstreamConnection
from vecsieve.proxy.telemetry.log import Access
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.requests import RequestRecorder
from vecsieve.proxy.telemetry.tracing import NO_TRACING, Clock, Tracing

if TYPE_CHECKING:
    from vecsieve.proxy.grpc.side import GrpcSide

# What a process holds at the moment, read off its holders ten times a second: queues last longer than that, or do not matter.


@dataclass(slots=True)
class Levels:
    """Shows the levels. ``pools``: of HTTP/1. ``shared``: how many connections gRPC has to the database."""

    metrics: Metrics
    recorder: RequestRecorder
    admission: Admission
    pools: Callable[[], Census]
    shared: Callable[[], int]
    _opened: int = 0

    def look(self) -> None:
        """Show them as they are now."""
        metrics, census = self.metrics, self.pools()
        # A request is counted before it asks for room, and inside once it has it.
        metrics.requests_waiting.set(max(0, self.recorder.requests_in_flight - self.admission.in_flight))
        for state, count in (
            (UpstreamConnection.BUSY, census.busy),
            (UpstreamConnection.IDLE, census.idle),
            (UpstreamConnection.SHARED, self.shared()),
        ):
            metrics.upstream_connections.labels(state.value).set(count)
        metrics.upstream_requests_waiting.set(census.waiting)
        # Pools that were closed before the last look have opened none.
        metrics.upstream_connections_opened_total.inc(max(0, census.opened - self._opened))
        self._opened = census.opened


class Process:
    """A data plane with its listener. Make it inside the event loop. ``seed``: keeps workers' jitter apart. ``descriptors``:
    what this process may have of them; None: as the settings say.

    Raises SettingsError for a certificate that cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        metrics: Metrics,
        log: Callable[[Access], None],
        seed: int = 0,
        workers: int = 1,
        descriptors: Budget | None = None,
    ) -> None:
        clock = time.monotonic
        settings = settings if descriptors is None else descriptors.fitted(settings)
        limits, events = settings.limits, CountedEvents(metrics)
        self._settings = settings
        self._backend = BACKENDS[settings.backend]
        self._rules = RulesInForce(Rules.of(settings))
        self._writes = Writes()
        self._seed = seed
        routes = _routes(settings)
        self._upstream = Upstream(
            settings.upstream,
            events=events,
            may_be_private=routes.may_be_private,
            most=0 if descriptors is None else descriptors.pool_total,
        )
        self.learned = Learned(clock)
        self.breaker = Breaker(clock, jitter=spread(seed), changed=metrics.breaker_is)
        self.own_reads = OwnReads(limits.own_reads_share, metrics=metrics, clock=clock)
        self.recorder = RequestRecorder(metrics, log=log, clock=clock)
        self.recent = Recent(settings.explain.keep, now=time.time)
        self._workers = workers
        self.egress = Egress(_budget_bytes(settings, workers=workers), now=time.time)
        metrics.egress_budget_remaining_bytes.set(self.egress.remaining_bytes)
        self.calibration = Calibration(settings.profiles, metrics=metrics, clock=clock)
        self._shadow = Shadow(recorder=self.recorder, limit=settings.shadow.in_flight)
        self._services = self._made(limits, metrics, workers=workers)
        _show_limits(metrics, limits)
        self.levels = self._levels(metrics)
        self._server = self._data_server(metrics, routes, events)
        self._listener: Listener | None = None
        self._grpc: GrpcSide | None = None
        self._is_leaving = False
        self._tls = context_of(settings)

    def _made(self, limits: LimitSettings, metrics: Metrics, *, workers: int) -> ProcessServices:
        settings, clock = self._settings, time.monotonic
        replays = Replays(lambda: self.recorder.requests_in_flight)
        patience = Patience(longest_seconds=limits.attempt_timeout_seconds, clock=clock)
        turns = Turns(clock, asyncio.get_running_loop().call_soon)
        return ProcessServices(
            backend=settings.backend,
            rules=self._rules,
            limits=limits,
            clock=clock,
            admission=_admission(limits, turns),
            turns=turns,
            memory=_memory_guard(metrics, clock, workers=workers),
            learned=self.learned,
            scaling=self.calibration.scaling,
            vectors=_vector_memory(settings, self._backend, clock),
            adaptive_fetch=AdaptiveFetch(),
            looking=VectorFetcher(Breaker(clock, jitter=spread(self._seed)), self.own_reads, metrics, clock),
            hedges=Hedging(patience=patience, own=self.own_reads, replays=replays),
            shadow=self._shadow,
            work=LongWork(),
            bounds=_bounds(limits),
            held=_held(limits, metrics, clock),
            breaker=self.breaker,
            replays=replays,
            own=self.own_reads,
            egress=self.egress,
            recorder=self.recorder,
            metrics=metrics,
            recent=self.recent,
            tracing=_tracing(settings, metrics),
            keeps_marks=settings.tracing.endpoint is not None,
        )

    def _data_server(self, metrics: Metrics, routes: Routes, events: CountedEvents) -> DataServer:
        backend = self._backend
        adapter, dialect = backend.rest.adapter(), backend.rest.dialect()
        answers = LocalAnswers(dialect)
        plane = DataPlane(
            services=self._services,
            routes=routes,
            backend=backend,
            adapter=adapter,
            dialect=dialect,
            searches=SearchService(adapter, dialect, self._services, number_bytes=TEXT_NUMBER_BYTES),
            write_invalidation=self._services.write_invalidation(backend.rest),
            relay=self._relay(answers, events),
            upstream=self._upstream,
            names=Names(None if backend.naming is None else backend.naming(), metrics.named),
            answers=answers,
        )
        return DataServer(plane.handle, self._settings.limits, answers, events)

    def _relay(self, answers: LocalAnswers, events: CountedEvents) -> Relay:
        return Relay(
            upstream=self._upstream,
            answers=answers,
            writes=self._writes,
            events=events,
            backlog=Backlog(self._settings.limits.answers_bytes_waiting),
            stream_idle_seconds=self._settings.upstream.stream_idle_timeout_seconds,
        )

    def _levels(self, metrics: Metrics) -> Levels:
        def shared() -> int:
            return 0 if self._grpc is None else self._grpc.connected

        return Levels(metrics, self.recorder, self._services.admission, self._upstream.census, shared)

    async def listen(self, *doors: DataPort) -> tuple[int, ...]:
        """Open the data ports; returns their numbers. Raises OSError, or IncompatibleLibraryError."""
        spoken = self._backend.grpc
        if spoken is not None and any(door.grpc is not None for door in doors):
            from vecsieve.proxy.grpc.side import side_of  # loads grpc: 20 MB that nobody else needs

            self._grpc = side_of(self._settings, self._backend, spoken, self._services)
        fronts = {door: front for door in doors if (front := await self._front(door)) is not None}
        self._listener = await listen(self._server, self._settings.limits, *doors, fronts=fronts)
        return self._listener.ports

    async def _front(self, door: DataPort) -> SharedPort | None:
        """What tells the protocols of a port apart; None where HTTP/1 is the only one, and plain."""
        inner = None if self._grpc is None else await self._grpc.behind(door)
        if inner is None and self._tls is None:
            return None
        return SharedPort(self._server.rules, inner=inner, tls=self._tls)

    def reload(self, settings: Settings) -> None:
        """Take new policies, overrides, shadow sample, report header, explain.keep and egress budget; requests under way keep
        the old ones.

        Addresses, limits and the upstream are fixed when the process starts; the files of the certificate may have changed.
        Raises SettingsError when they are not usable, and then nothing has changed.
        """
        if self._tls is not None:
            renew(self._tls, self._settings)
        self._rules.now = Rules.of(settings)
        self.recent.resize(settings.explain.keep)
        self.egress.resize(_budget_bytes(settings, workers=self._workers))

    def drain(self) -> None:
        """Answers end their connections from now on."""
        if self._listener is not None:
            self._listener.drain()

    def stop_accepting(self) -> None:
        """Close the listening sockets."""
        self._is_leaving = True
        if self._listener is not None:
            self._listener.stop_accepting()
        if self._grpc is not None:
            self._grpc.stop(grace_seconds=self._settings.limits.drain_seconds)

    @property
    def in_flight(self) -> int:
        """Requests being answered now; at the end also the clients to whom answers are still on their way."""
        sides = (self._listener, self._grpc) if self._is_leaving else ()
        return self.recorder.requests_in_flight + sum(each.owed for each in sides if each is not None)

    @property
    def searches_in_flight(self) -> int:
        """Searches being improved now."""
        return self.recorder.searches_in_flight

    async def close(self, *, grace_seconds: float = 0.0) -> None:
        """End everything, in the order in which one part leans on the next."""
        if self._listener is not None:
            self._listener.stop_accepting()
        # Together: the gRPC server tells its clients to go away through our ports.
        ending = [each.close(grace_seconds=grace_seconds) for each in (self._listener, self._grpc) if each is not None]
        await asyncio.gather(*ending)
        await self._shadow.close()
        self._services.work.close()
        await self._writes.close(grace_seconds=grace_seconds)
        await self._upstream.close()
        await self._services.tracing.close()


def _bounds(limits: LimitSettings) -> Bounds:
    return Bounds(searches=limits.searches_per_request, parts=limits.request_parts, nesting=limits.request_nesting)


def _held(limits: LimitSettings, metrics: Metrics, clock: Clock) -> HeldBytes:
    return HeldBytes(
        limits.searches_bytes_in_flight,
        reply_bytes=limits.reply_body_bytes,
        changed=metrics.selection_bytes_held,
        clock=clock,
    )


def _admission(limits: LimitSettings, turns: Turns) -> Admission:
    return Admission(
        limit=limits.in_flight,
        wait_seconds=limits.in_flight_queue_seconds,
        turns=turns,
        lag_seconds=limits.in_flight_lag_seconds,
    )


def _routes(settings: Settings) -> Routes:
    return OneUpstream(settings.upstream.path_prefix) if settings.indexes is None else IndexRoutes(settings)


def _memory_guard(metrics: Metrics, clock: Clock, *, workers: int) -> MemoryGuard:
    guard = MemoryGuard(cgroup_limit_bytes(workers=workers), resident_bytes=resident_bytes, clock=clock)
    metrics.memory_limit_bytes.set(guard.limit_bytes or 0)
    return guard


def _tracing(settings: Settings, metrics: Metrics) -> Tracing:
    if settings.tracing.endpoint is None:
        return NO_TRACING
    from vecsieve.proxy.telemetry.otel import tracing_of  # loads opentelemetry: an extra

    return tracing_of(settings, clock=time.monotonic, dropped=metrics.spans_dropped_total.inc)


def _vector_memory(settings: Settings, backend: Backend, clock: Clock) -> VectorMemory | None:
    """None where it was not asked for, or where nobody can tell what a passing write changes."""
    limit = None if settings.indexes is None else settings.indexes.vector_memory_bytes
    return None if limit is None or backend.rest.written is None else VectorMemory(limit, clock=clock)


def _budget_bytes(settings: Settings, *, workers: int) -> int | None:
    """The budget of one of so many workers: each counts for itself."""
    budget = None if settings.indexes is None else settings.indexes.egress_budget_bytes
    return None if budget is None else max(1, budget // workers)


def _show_limits(metrics: Metrics, limits: LimitSettings) -> None:
    """A gauge of what is in flight says little without what may be."""
    metrics.requests_in_flight_limit.set(limits.in_flight)
    metrics.searches_in_flight_limit.set(limits.searches_in_flight)
    metrics.selection_bytes_in_flight_limit.set(limits.searches_bytes_in_flight)
    metrics.connections_limit.set(limits.connections)
