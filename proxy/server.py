"""The composition root: settings in, running listeners out; alone or as a crew."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from vecsieve.config.addresses import parse_address
from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy import resources
from vecsieve.proxy.addresses import DataPort, doors_of
from vecsieve.proxy.admin.server import AdminServer, Pages
from vecsieve.proxy.admin.status import Facts, read_status, settings_hash, state_of, upstream_address, worker_statuses
from vecsieve.proxy.http.tls import context_of
from vecsieve.proxy.process import Process
from vecsieve.proxy.resources import Budget, collect_seldom, glibc_mallopt, keep_freed_blocks, resident_bytes
from vecsieve.proxy.runtime import Lifecycle, LoopLag
from vecsieve.proxy.telemetry.exposition import (
    Scrape,
    exposition,
    join,
    own_registry,
    scrape,
    shared_registry,
    show_memory,
)
from vecsieve.proxy.telemetry.log import AccessLog, Logging, PollingSink, ThreadedSink, set_up
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.otel import headers_of
from vecsieve.proxy.workers import Crew, Worker, run_workers

# One running data plane with its signals, its reloads and its lag sampler; alone or one of a crew.

LOGGER = logging.getLogger("vecsieve.instance")
# What a running process cannot change: its sockets, its pools and what it promised to hold.
_OF_PINECONE = ("index_host", "index_ports", "allowed_hosts", "public_url", "public_form", "vector_memory_bytes")
_PINECONE = tuple(f"pinecone.{name}" for name in _OF_PINECONE)
FIXED = (
    "backend",
    "listen",
    "admin",
    "workers",
    "tls",
    "upstream",
    "grpc",
    *_PINECONE,
    "limits",
    "shadow.in_flight",
    "tracing",
    "profiles",
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the settings come from; read again on SIGHUP."""

    config: Path | None
    environment: Mapping[str, str]
    flags: Mapping[str, object]

    def load(self) -> Settings:
        """The settings as they are now. Raises SettingsError."""
        return load(file=self.config, environment=self.environment, flags=self.flags)


def facts_of(settings: Settings) -> Facts:
    """What the status page says of the settings."""
    return Facts(
        version=version("vecsieve"),
        backend=settings.backend,
        mode=settings.mode,
        upstream=upstream_address(settings.upstream.url),
        settings_hash=settings_hash(settings),
        index_ports=() if settings.indexes is None else tuple(sorted(settings.indexes.index_ports)),
    )


class Instance:
    """A data plane from its first request to its last. Make it inside the event loop.

    ``number``: which of ``settings.workers`` it is. ``beat``: called ten times a second while the loop runs. ``descriptors``: as
    for `Process`.
    """

    def __init__(
        self,
        source: Source,
        settings: Settings,
        *,
        metrics: Metrics,
        log: AccessLog,
        number: int = 0,
        beat: Callable[[], None] = lambda: None,
        descriptors: Budget | None = None,
    ) -> None:
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self.facts = facts_of(settings)
        self._process = Process(
            settings,
            metrics=metrics,
            log=log.write,
            seed=number,
            workers=settings.workers,
            descriptors=descriptors,
        )
        self.lifecycle = Lifecycle(
            drain_accept_seconds=settings.limits.drain_accept_seconds,
            drain_seconds=settings.limits.drain_seconds,
            reload=self.reload,
        )
        self._beat = beat
        self._lag = LoopLag(metrics.event_loop_lag_seconds.observe, clock=time.monotonic, beat=self._beaten)
        metrics.built(version=self.facts.version, parser="c")  # the listener refuses to start on any other
        metrics.config_taken(self.facts.settings_hash, previous=None, at=time.time())

    async def open(self, *doors: DataPort) -> tuple[int, ...]:
        """Listen, take signals; returns the ports. Raises OSError, or IncompatibleLibraryError."""
        self.lifecycle.listen_to_signals()
        ports = await self._process.listen(*doors)
        self._lag.start()
        return ports

    async def serve(self) -> None:
        """Be ready until told to stop, then drain."""
        self.lifecycle.started()
        if not await self.lifecycle.finish(self._process):
            fields = {"in_flight": self._process.in_flight}
            LOGGER.warning("requests were cut: the drain time is over", extra={"fields": fields})

    async def close(self) -> None:
        """End everything."""
        await self._process.close()
        await self._lag.close()
        self.lifecycle.ignore_signals()

    def explain(self) -> bytes:
        """What the explain page shows."""
        return self._process.recent.as_json()

    def egress(self) -> bytes:
        """What the egress page shows."""
        return self._process.egress.as_json()

    def reload(self) -> None:
        """Take new settings; keep the old ones when they are wrong. Never raises."""
        try:
            fresh = self._source.load()
            self._process.reload(fresh)
        except SettingsError as error:
            self._metrics.config_refused()
            LOGGER.error("reload refused, the old settings stay: %s", error)  # noqa: TRY400 - a traceback would say less
            return
        if fixed := [name for name in FIXED if _at(fresh, name) != _at(self._settings, name)]:
            LOGGER.warning("these settings take a restart: %s", ", ".join(fixed))
        previous, self.facts, self._settings = self.facts.settings_hash, facts_of(fresh), fresh
        self._metrics.config_taken(self.facts.settings_hash, previous=previous, at=time.time())
        LOGGER.info("settings reloaded", extra={"fields": {"hash": self.facts.settings_hash}})

    def _beaten(self) -> None:
        self._metrics.learned_collections.set(self._process.learned.capped_collections)
        self._metrics.egress_budget_remaining_bytes.set(self._process.egress.remaining_bytes)
        self._process.calibration.look()
        self._process.levels.look()
        self._beat()


def _at(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


# Where something listens, in the one form that people, scripts and tests read.


def announce_doors(doors: tuple[DataPort, ...], ports: tuple[int, ...], *, over_tls: bool) -> None:
    """Print the main port, each index's with the host that it leads to, and gRPC's own."""
    for number, (door, port) in enumerate(zip(doors, ports, strict=True)):
        announce(_told(door, is_main=number == 0), door.host, port, over_tls=over_tls)


def _told(door: DataPort, *, is_main: bool) -> str:
    if door.is_for_grpc:
        return "gRPC"
    return "listening" if is_main or door.index is None else f"index {door.index.authority}"


def announce(what: str, host: str, port: int, *, over_tls: bool) -> None:
    """Print `vecsieve serve listening on http://host:port`, with the port that was really bound.

    What cannot be printed, on a full disk or to a reader that is gone, is no reason not to serve.
    """
    scheme = "https" if over_tls else "http"
    name = f"[{host}]" if ":" in host else host
    with suppress(OSError):
        sys.stdout.write(f"vecsieve serve {what} on {scheme}://{name}:{port}\n")
        sys.stdout.flush()


# One process with both listeners: the ordinary way to run, one event loop to a container.


async def serve_alone(source: Source, settings: Settings) -> int:
    """Listen, announce, serve, drain. Returns the exit status: 0 also when the drain had to cut requests."""
    registry = own_registry()
    metrics = Metrics(registry, backend=settings.backend)
    sink = ThreadedSink(on_drop=metrics.log_dropped_total.inc)
    logging_ = set_up(sink)
    started = time.monotonic()
    given = resources.claim(settings)
    resources.say(given, settings)
    instance = Instance(source, settings, metrics=metrics, log=AccessLog(sink), descriptors=given)
    admin = AdminServer(
        Pages(
            is_ready=lambda: instance.lifecycle.is_ready,
            metrics=lambda accept: scrape(registry, accept),
            status=lambda: read_status(
                registry,
                instance.facts,
                state=instance.lifecycle.state,
                uptime_seconds=time.monotonic() - started,
            ),
            explain=instance.explain,
            egress=instance.egress,
        )
    )
    admin_at, doors = parse_address(settings.admin), doors_of(settings)
    try:
        ports = await instance.open(*doors)
        await admin.start((admin_at.host, admin_at.port))
        collect_seldom()
        announce_doors(doors, ports, over_tls=settings.tls.certificate is not None)
        announce("admin", admin_at.host, admin.port, over_tls=False)
        await instance.serve()
    finally:
        await instance.close()
        await admin.close()
        logging_.close()
    return 0


# `--workers N`: N data planes on the same listening sockets, and the admin listener in a process of its own.

WORKERS_LOGGER = logging.getLogger("vecsieve.crew")
BACKLOG = 1024
MAIN = Callable[[Coroutine[None, None, int]], int]


def serve_crew(source: Source, settings: Settings, run_loop: MAIN) -> int:
    """Bind all ports, fork, and watch until told to stop. Raises OSError for an address in use.

    ``run_loop`` runs a child's main coroutine. The parent has no thread and no loop, so its log writes at once.
    """
    parent_log = set_up(PollingSink())
    resources.say(resources.claim(settings), settings)  # each worker reckons for itself, and comes to the same
    doors, admin_at = doors_of(settings), parse_address(settings.admin)
    data = tuple(_bound(door.host, door.port) for door in doors)
    shared = tuple(replace(door, shared=each) for door, each in zip(doors, data, strict=True))
    admin = _bound(admin_at.host, admin_at.port)
    ports = tuple(each.getsockname()[1] for each in data)
    announce_doors(doors, ports, over_tls=settings.tls.certificate is not None)
    announce("admin", admin.getsockname()[0], admin.getsockname()[1], over_tls=False)

    def work(worker: Worker) -> int:
        return run_loop(_work(worker, source, settings, shared, parent_log))

    def administrate(worker: Worker) -> int:
        return run_loop(_administrate(worker, source, settings, admin))

    limits = settings.limits
    try:
        return run_workers(
            Crew(
                count=settings.workers,
                worker=work,
                admin=administrate,
                data_sockets=data,
                admin_sockets=(admin,),
                drain_seconds=limits.drain_accept_seconds + limits.drain_seconds,
            )
        )
    finally:
        for each in (*data, admin):
            each.close()
        parent_log.close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


async def _work(
    worker: Worker, source: Source, settings: Settings, doors: tuple[DataPort, ...], parent_log: Logging
) -> int:
    """One worker's life."""
    parent_log.close()
    metrics = Metrics(join(worker.metrics_directory, worker.number), backend=settings.backend)
    sink = ThreadedSink(on_drop=metrics.log_dropped_total.inc)
    logging_ = set_up(sink)

    def beat() -> None:
        worker.beat()
        show_memory(metrics, worker.number, resident_bytes)

    instance = Instance(
        source,
        settings,
        metrics=metrics,
        log=AccessLog(sink),
        number=worker.number,
        beat=beat,
        descriptors=resources.claim(settings),
    )
    try:
        await instance.open(*doors)
        worker.is_ready()
        await instance.serve()
    finally:
        await instance.close()
        logging_.close()
    return 0


class _Nothing:
    """What the admin process drains: its pages answer at once."""

    in_flight = 0

    def drain(self) -> None:
        """Nothing."""

    def stop_accepting(self) -> None:
        """Nothing."""


async def _administrate(worker: Worker, source: Source, settings: Settings, where: socket.socket) -> int:
    """The admin process's life: it answers while any worker is stuck."""
    started, board = time.monotonic(), worker.board
    registry, facts = shared_registry(worker.metrics_directory), facts_of(settings)

    def reload() -> None:
        nonlocal facts
        try:
            facts = facts_of(source.load())
        except SettingsError:
            WORKERS_LOGGER.info("the status page keeps showing the settings in force")

    pages = Pages(
        is_ready=lambda: state_of(board).value == "ready",
        metrics=lambda _accept: Scrape(exposition(registry)),
        status=lambda: read_status(
            registry,
            facts,
            state=state_of(board),
            uptime_seconds=time.monotonic() - started,
            workers=worker_statuses(board),
        ),
    )
    lifecycle = Lifecycle(drain_accept_seconds=0, drain_seconds=0, reload=reload)
    lifecycle.listen_to_signals()
    server = AdminServer(pages)
    lag = LoopLag(lambda _: None, clock=time.monotonic, beat=worker.beat)
    try:
        await server.start(where)
        lag.start()
        worker.is_ready()
        lifecycle.started()
        await lifecycle.finish(_Nothing())
    finally:
        await lag.close()
        await server.close()
    return 0


def run(*, config: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Serve until told to stop. Returns the exit status; raises SettingsError, or OSError for an address in use."""
    source = Source(config, environment, flags)
    settings = source.load()
    context_of(settings)  # a certificate that cannot be used is told before anything forks
    headers_of(settings.tracing.headers_file)  # and so is this file
    keep_freed_blocks(glibc_mallopt())
    if settings.workers > 1:
        return serve_crew(source, settings, run_loop)
    return run_loop(serve_alone(source, settings))


def run_loop(main: Coroutine[None, None, int]) -> int:
    """Run on uvloop when it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
