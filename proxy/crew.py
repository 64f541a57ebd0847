"""`--workers N`: N data planes on the same listening sockets, and the admin listener in a process of its own."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace

from vecsieve.config.addresses import parse_address
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy import descriptors
from vecsieve.proxy.admin.reading import read_status, state_of, worker_statuses
from vecsieve.proxy.admin.server import AdminServer, Pages
from vecsieve.proxy.announcement import announce, announce_doors
from vecsieve.proxy.doors import Door, doors_of
from vecsieve.proxy.exposition import Scrape, exposition, shared_registry
from vecsieve.proxy.instance import Instance, Source, facts_of
from vecsieve.proxy.lifecycle import Lifecycle
from vecsieve.proxy.log import AccessLog
from vecsieve.proxy.log_setup import Logging, set_up
from vecsieve.proxy.log_sink import PollingSink, ThreadedSink
from vecsieve.proxy.loop_lag import LoopLag
from vecsieve.proxy.memory import resident_bytes
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.worker_metrics import join, show_memory
from vecsieve.proxy.workers import Crew, Worker, run_workers

LOGGER = logging.getLogger("vecsieve.crew")
BACKLOG = 1024
MAIN = Callable[[Coroutine[None, None, int]], int]


def serve_crew(source: Source, settings: Settings, run_loop: MAIN) -> int:
    """Bind all ports, fork, and watch until told to stop. Raises OSError for an address in use.

    ``run_loop`` runs a child's main coroutine. The parent has no thread and no loop, so its log writes at once.
    """
    parent_log = set_up(PollingSink())
    descriptors.say(descriptors.claim(settings), settings)  # each worker reckons for itself, and comes to the same
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
    worker: Worker, source: Source, settings: Settings, doors: tuple[Door, ...], parent_log: Logging
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
        descriptors=descriptors.claim(settings),
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
            LOGGER.info("the status page keeps showing the settings in force")

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
