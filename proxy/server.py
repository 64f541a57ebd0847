"""The composition root: builds the listeners from the settings and runs them, in one process or in several workers."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry

from vecsieve.adapters.backends import BACKENDS
from vecsieve.config.addresses import parse_address
from vecsieve.config.load import CONFIG_VARIABLE, load
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings

from .admin.inspector import InForce, Inspector
from .admin.knowledge import Ask, Knowledge, ask_of_workers, open_to_admin
from .admin.server import FLAG as ADMIN_FLAG
from .admin.server import AdminServer, Pages
from .admin.status import Facts, FailedReload, read_status, settings_hash, state_of, upstream_address, worker_statuses
from .admin.verdicts import hourly, last_words, leave_rows, left_rows
from .http.tls import context_of
from .process import descriptors, talk
from .process.assembly import Process
from .process.descriptors import Budget
from .process.files import read_files
from .process.workers import Worker, Workers, run_workers
from .runtime.addresses import DataPort, binding, data_ports_of
from .runtime.files import FILES_LOGGER, Watched
from .runtime.lifecycle import Board, Lifecycle
from .runtime.loop import LoopLag, background, in_thread
from .runtime.memory import (
    cgroup_limit_bytes,
    collect_seldom,
    glibc_mallopt,
    keep_freed_blocks,
    resident_bytes,
)
from .search.policy import Rules
from .telemetry.exposition import WorkerFiles, process_registry, scrape, shared_registry
from .telemetry.labels import Telemetry
from .telemetry.log import AccessLog, LineSink, Logging, PollingSink, ThreadedSink, set_up
from .telemetry.metrics import Metrics
from .writes.lock import locked

LOGGER = logging.getLogger("vecsieve.instance")
# Settings that need a restart: sockets, and pools and limits whose size is fixed at the start.
_OF_PINECONE = ("index_host", "index_ports", "allowed_hosts", "public_url", "public_form")
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
    "tracing",
    "profiles",
    "explain.token_file",
    "explain.judgements",
    "api",
    "webhook",
    "sessions",
    "log",
    "journal",
    "memory",
)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the settings. It is read again on SIGHUP, and when the file changes. ``file``: watched from before it is read, so that no
    change is missed while the process starts; each worker has its own copy.
    """

    config: Path | None
    environment: Mapping[str, str]
    flags: Mapping[str, object]
    file: Watched = field(init=False, compare=False)

    def __post_init__(self) -> None:
        path = self.config or self.environment.get(CONFIG_VARIABLE)
        object.__setattr__(self, "file", Watched(Path(path) if path else None, time.monotonic))

    def load(self) -> Settings:
        """Raises SettingsError."""
        return load(file=self.config, environment=self.environment, flags=self.flags)

    def load_with_rules(self) -> tuple[Settings, Rules]:
        """And what a search needs of them. Raises SettingsError."""
        settings = self.load()
        return settings, Rules.of(settings)


def facts_of(settings: Settings, start: Settings) -> Facts:
    """The part of the status page that comes from the settings. ``start``: those with which the process began."""
    return Facts(
        version=version("vecsieve"),
        backend=settings.backend,
        mode=settings.mode or settings.policy.mode,
        upstream=upstream_address(settings.upstream.url),
        settings_hash=settings_hash(settings),
        index_ports=() if settings.indexes is None else tuple(sorted(settings.indexes.index_ports)),
        needs_restart=tuple([name for name in FIXED if _at(settings, name) != _at(start, name)]),
    )


class Instance:
    """One data plane, with signal handling, reloads and the measurement of loop lag. Make it inside the event loop.

    ``number``: the number of the worker. ``beat``: called ten times a second while the loop runs.
    ``descriptors``, ``registry``, ``board``: as in `Process`.
    """

    def __init__(  # noqa: PLR0913 - as in `Process`
        self,
        source: Source,
        settings: Settings,
        *,
        metrics: Metrics,
        log: AccessLog,
        number: int = 0,
        beat: Callable[[], None] = lambda: None,
        descriptors: Budget | None = None,
        registry: CollectorRegistry,
        board: Board | None = None,
    ) -> None:
        self._source = source
        self._begun_with = settings
        self._metrics = metrics
        self.facts = facts_of(settings, settings)
        self.in_force = InForce(settings)
        self._process = Process(
            settings,
            metrics=metrics,
            log=log.write,
            seed=number,
            workers=settings.workers,
            descriptors=descriptors,
            registry=registry,
            board=board,
        )
        process = self._process
        self.measured = process.shadow.rows
        self._failed_reload: FailedReload | None = None
        self.knowledge = Knowledge(
            process.recent,
            process.pools,
            process.egress,
            process.texts,
            self.measured,
            lambda: self._failed_reload,
        )
        self.lifecycle = Lifecycle(
            drain_accept_seconds=settings.limits.drain_accept_seconds,
            drain_seconds=settings.limits.drain_seconds,
            reload=self.reload,
        )
        self._beat = beat
        self._file = source.file
        self._lag = LoopLag(metrics.event_loop_lag_seconds.observe, clock=time.monotonic, beat=self._beaten)
        metrics.built(version=self.facts.version, parser="c")  # the listener requires this parser
        metrics.config_taken(self.facts.settings_hash, at=time.time())

    async def open(self, *data_ports: DataPort) -> tuple[int, ...]:
        """Bind the ports and install the signal handlers. Returns the ports. Raises OSError or IncompatibleLibraryError."""
        self.lifecycle.listen_to_signals()
        ports = await self._process.listen(*data_ports)
        self._lag.start()
        return ports

    async def serve(self) -> None:
        """Serve until told to stop, then drain."""
        self.lifecycle.started()
        if not await self.lifecycle.finish(self._process):
            fields = {"in_flight": self._process.in_flight}
            LOGGER.warning("requests were aborted: the drain time is over", extra={"fields": fields})

    async def close(self) -> None:
        await self._process.close()
        await self._lag.close()
        self.lifecycle.ignore_signals()

    async def reload(self) -> None:
        """Load the settings beside the loop and apply them; keep the old ones when they are invalid. Never raises."""
        try:
            fresh, rules = await in_thread(self._source.load_with_rules)
            self._process.reload(fresh, rules)
        except SettingsError as error:
            self._metrics.config_refused()
            self._failed_reload = FailedReload.of(error, self._failed_reload, at=time.time())
            FILES_LOGGER.error("reload failed, the old settings stay in force: %s", error)
            return
        self.facts, self._failed_reload = facts_of(fresh, self._begun_with), None
        if self.facts.needs_restart:
            FILES_LOGGER.warning("these changed settings need a restart: %s", ", ".join(self.facts.needs_restart))
        self.in_force.take(fresh)
        self._metrics.config_taken(self.facts.settings_hash, at=time.time())
        FILES_LOGGER.info("settings reloaded", extra={"fields": {"hash": self.facts.settings_hash}})

    def _beaten(self) -> None:
        self._metrics.learned_collections.set(self._process.learned.capped_collections)
        self._metrics.egress_budget_remaining_bytes.set(self._process.egress.remaining_bytes)
        self._process.calibration.look()
        self._process.levels.look()
        if self._file.has_changed():
            self.lifecycle.handle_signal(signal.SIGHUP)
        self._beat()


def _at(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def introduce(settings: Settings, admin: tuple[str, int]) -> None:
    """Show the main settings: as a banner for people, else as one log line."""
    facts = facts_of(settings, settings)
    if not talk.is_text(settings.log):
        fields = {"version": facts.version, "backend": facts.backend, "mode": talk.mode_of(settings)}
        fields |= {"upstream": facts.upstream, "policy": talk.policy_of(settings)}
        LOGGER.info("serving", extra={"fields": fields})
        return
    host = f"[{admin[0]}]" if ":" in admin[0] else admin[0]
    lines = talk.banner(
        settings,
        version=facts.version,
        admin=f"http://{host}:{admin[1]}",
        resident_bytes=resident_bytes(),
        limit_bytes=cgroup_limit_bytes(),
    )
    with suppress(OSError):
        sys.stdout.write("\n".join([*lines, "", ""]))
        sys.stdout.flush()


async def look_upstream(settings: Settings) -> None:
    """Check once whether the database accepts connections, and log the result."""
    fault = await talk.fault_of(settings.upstream)
    if fault is None:
        LOGGER.info("the database accepts connections")
    else:
        LOGGER.warning("%s", talk.advised(fault))


def readable(sink: LineSink, settings: Settings) -> LineSink:
    """The sink; for people it writes plain text instead of JSON."""
    return talk.TextLines(sink) if talk.is_text(settings.log) else sink


def _logs(settings: Settings, metrics: Metrics) -> tuple[Logging, AccessLog]:
    """The log of a process that serves, and of its requests."""
    dropped = metrics.telemetry_dropped_total.labels(Telemetry.LOG).inc
    least, sink = talk.level_of(settings.log), readable(ThreadedSink(on_drop=dropped), settings)
    return set_up(sink, level=least), AccessLog(sink, least=least)


async def serve_alone(source: Source, settings: Settings, begun: Logging) -> int:
    """Run one process with both listeners. ``begun``: the log until it has its own. Returns the exit status, which is 0 even if requests were aborted."""
    begun.close()
    registry = process_registry()
    metrics = Metrics(registry, backend=settings.backend, rules=settings.rule_names)
    logging_, log = _logs(settings, metrics)
    started = time.monotonic()
    given = descriptors.claim(settings)
    descriptors.say(given, settings)
    board = Board(0)
    instance = Instance(source, settings, metrics=metrics, log=log, descriptors=given, registry=registry, board=board)
    admin = AdminServer(
        Pages(
            is_ready=lambda: instance.lifecycle.is_ready,
            metrics=lambda accept: scrape(registry, accept),
            status=lambda: read_status(
                registry,
                instance.facts,
                board,
                state=instance.lifecycle.state,
                uptime_seconds=time.monotonic() - started,
            ),
            inspector=Inspector(instance.knowledge.ask, instance.in_force, registry),
        )
    )
    admin_at, data_ports = parse_address(settings.admin), data_ports_of(settings)
    try:
        ports = await instance.open(*data_ports)
        port = await admin.start((admin_at.host, admin_at.port))
        collect_seldom()
        talk.announce_ports(data_ports, ports, settings)
        talk.announce("admin", admin_at.host, port, is_text=talk.is_text(settings.log))
        introduce(settings, (admin_at.host, port))
        with background(look_upstream(settings)), background(hourly(instance.knowledge.ask)):
            await instance.serve()
        LOGGER.info(talk.summary(registry, last_words(instance.measured)))
    finally:
        await instance.close()
        await admin.close()
        logging_.close()
    return 0


BACKLOG = 1024
MAIN = Callable[[Coroutine[None, None, int]], int]


def serve_workers(source: Source, settings: Settings, run_loop: MAIN, parent_log: Logging) -> int:
    """Bind all ports, fork, and supervise until told to stop. Raises OSError for an address in use.

    ``run_loop`` runs the main coroutine of a child.
    """
    descriptors.say(descriptors.claim(settings), settings)  # each worker computes the same value
    data_ports, admin_at = data_ports_of(settings), parse_address(settings.admin)
    data = tuple(_bound(port.host, port.port, port.flag) for port in data_ports)
    shared = tuple(replace(data_port, shared=listening) for data_port, listening in zip(data_ports, data, strict=True))
    admin = _bound(admin_at.host, admin_at.port, ADMIN_FLAG)
    ports = tuple(listening.getsockname()[1] for listening in data)
    talk.announce_ports(data_ports, ports, settings)
    talk.announce("admin", *admin.getsockname()[:2], is_text=talk.is_text(settings.log))
    introduce(settings, admin.getsockname()[:2])

    def work(worker: Worker) -> int:
        return run_loop(_work(worker, source, settings, shared, parent_log))

    def administrate(worker: Worker) -> int:
        return run_loop(_administrate(worker, source, settings, admin))

    served = BACKENDS[settings.backend]  # whose package is loaded before the fork, so that the workers share its memory
    served.grpc if any(data_port.grpc is not None for data_port in data_ports) else served.rest
    limits = settings.limits
    try:
        return run_workers(
            Workers(
                count=settings.workers,
                worker=work,
                admin=administrate,
                data_sockets=data,
                admin_sockets=(admin,),
                drain_seconds=limits.drain_accept_seconds + limits.drain_seconds,
            )
        )
    finally:
        for listening in (*data, admin):
            listening.close()


def _bound(host: str, port: int, flag: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with binding(host, port, flag=flag):
        return socket.create_server((host, port), family=family, backlog=BACKLOG)


async def _work(
    worker: Worker, source: Source, settings: Settings, data_ports: tuple[DataPort, ...], parent_log: Logging
) -> int:
    parent_log.close()
    files = WorkerFiles(worker.metrics_directory, worker.number)
    metrics = Metrics(CollectorRegistry(), backend=settings.backend, rules=settings.rule_names, store=files)
    _, log = _logs(settings, metrics)  # closed when the process ends, after its last words
    FILES_LOGGER.disabled = worker.number > 0

    def beat() -> None:
        worker.beat()
        metrics.process_resident_memory_bytes.set(resident_bytes())

    instance = Instance(
        source,
        settings,
        metrics=metrics,
        log=log,
        number=worker.number,
        beat=beat,
        descriptors=descriptors.claim(settings),
        registry=shared_registry(worker.metrics_directory, backend=settings.backend, rules=settings.rule_names),
        board=worker.board,
    )
    to_admin = await open_to_admin(worker.metrics_directory, worker.number, instance.knowledge)
    try:
        await instance.open(*data_ports)
        worker.is_ready()
        await instance.serve()
        leave_rows(worker.metrics_directory, worker.number, instance.measured)
    finally:
        to_admin.close()
        await instance.close()
    return 0


def _pages(
    worker: Worker, registry: CollectorRegistry, ask: Ask, in_force: InForce, *, facts: Callable[[], Facts]
) -> Pages:
    started, board = time.monotonic(), worker.board
    return Pages(
        is_ready=lambda: state_of(board).value == "ready",
        metrics=lambda _accept: scrape(registry, ""),
        status=lambda: read_status(
            registry,
            facts(),
            board,
            state=state_of(board),
            uptime_seconds=time.monotonic() - started,
            workers=worker_statuses(board),
        ),
        inspector=Inspector(ask, in_force, registry),
    )


async def _administrate(worker: Worker, source: Source, settings: Settings, where: socket.socket) -> int:
    """Run the admin process, which answers even if workers are blocked."""
    registry = shared_registry(worker.metrics_directory, backend=settings.backend, rules=settings.rule_names)
    facts, in_force = facts_of(settings, settings), InForce(settings)

    async def reload() -> None:
        nonlocal facts
        with suppress(SettingsError):  # the workers refuse them, and say so
            fresh = await in_thread(source.load)
            await in_thread(lambda: context_of(settings))
            facts = facts_of(fresh, settings)
            in_force.take(fresh)

    ask = ask_of_workers(worker.metrics_directory, settings.workers)
    pages = _pages(worker, registry, ask, in_force, facts=lambda: facts)
    lifecycle = Lifecycle(drain_accept_seconds=0, drain_seconds=0, reload=reload)
    lifecycle.listen_to_signals()
    server = AdminServer(pages)

    def beat() -> None:
        worker.beat()
        if source.file.has_changed():
            lifecycle.handle_signal(signal.SIGHUP)

    lag = LoopLag(lambda _: None, clock=time.monotonic, beat=beat)
    try:
        await server.start(where)
        lag.start()
        worker.is_ready()
        lifecycle.started()
        with background(look_upstream(settings)), background(hourly(ask)):
            await lifecycle.stopping()  # no drain is needed: the pages are served at once
        LOGGER.info(talk.summary(registry, last_words(left_rows(worker.metrics_directory))))
    finally:
        await lag.close()
        await server.close()
    return 0


def run(*, config: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Serve until told to stop. Returns the exit status. Raises SettingsError, or OSError for an address in use."""
    source = Source(config, environment, flags)
    settings = source.load()
    read_files(settings)  # before the first fork
    keep_freed_blocks(glibc_mallopt())
    journal = settings.journal.path
    # Nothing of this process has a thread or a loop yet, and the parent of workers never has: it writes the log synchronously.
    with (
        closing(set_up(readable(PollingSink(), settings), level=talk.level_of(settings.log))) as begun,
        locked(None if journal is None else Path(journal)),  # before the fork: workers inherit it
    ):
        if settings.workers > 1:
            return serve_workers(source, settings, run_loop, begun)
        return run_loop(serve_alone(source, settings, begun))


def run_loop(main: Coroutine[None, None, int]) -> int:
    """Run on uvloop if it is installed, else on asyncio's loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
