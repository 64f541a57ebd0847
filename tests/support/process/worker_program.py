"""Workers that are real processes, which answer with their process id, and an admin listener over all of them.

    support.process.forked.forking("workers", COUNT[, "crash"])

Prints one JSON line with the ports, then serves until told to stop. A worker asked for `/die` ends itself; with `crash`
no worker ever starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from functools import partial

from prometheus_client import CollectorRegistry, generate_latest

from vecsieve.config.schema import Settings
from vecsieve.proxy.admin.inspector import InForce, Inspector
from vecsieve.proxy.admin.knowledge import ask_of_workers
from vecsieve.proxy.admin.server import AdminServer, Pages
from vecsieve.proxy.admin.status import Facts, read_status, state_of, worker_statuses
from vecsieve.proxy.process.workers import Worker, Workers, run_workers
from vecsieve.proxy.runtime.lifecycle import Lifecycle
from vecsieve.proxy.runtime.loop import LoopLag
from vecsieve.proxy.runtime.memory import resident_bytes
from vecsieve.proxy.telemetry.exposition import Scrape, WorkerFiles, shared_registry
from vecsieve.proxy.telemetry.labels import Origin, Outcome
from vecsieve.proxy.telemetry.metrics import Metrics

# A test that ends a worker waits for less: then the worker did not wait for its time to drain.
DRAIN_SECONDS = 120.0
FACTS = Facts(version="0", backend="qdrant", mode="on", upstream="db:6333", settings_hash="0" * 12)


class TinyPlane:
    """Answers every connection with the process id, on a listening socket that others share."""

    def __init__(self, metrics: Metrics) -> None:
        self.in_flight = 0
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def listen(self, where: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve, sock=where)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.in_flight += 1
        self._metrics.in_flight.labels("requests").inc()
        line = (await reader.readline()).decode()
        if line.startswith("/die"):
            os.kill(os.getpid(), signal.SIGKILL)
        self._metrics.request_done("other", Outcome.PASSTHROUGH, status=200, origin=Origin.UPSTREAM, seconds=0.001)
        writer.write(f"{os.getpid()}\n".encode())
        writer.close()
        self._metrics.in_flight.labels("requests").inc(-1)
        self.in_flight -= 1

    def drain(self) -> None:
        """Every answer ends its connection anyway."""

    def stop_accepting(self) -> None:
        assert self._server is not None
        self._server.close()


async def work(worker: Worker, data: socket.socket) -> None:
    files = WorkerFiles(worker.metrics_directory, worker.number)
    metrics = Metrics(CollectorRegistry(), backend="qdrant", store=files)
    plane = TinyPlane(metrics)

    async def reload() -> None:
        metrics.config_taken(f"reloaded{worker.number}", at=time.time())

    cycle = Lifecycle(drain_accept_seconds=0, drain_seconds=DRAIN_SECONDS, reload=reload)
    cycle.listen_to_signals()

    def beat() -> None:
        worker.beat()
        metrics.process_resident_memory_bytes.set(resident_bytes())

    lag = LoopLag(metrics.event_loop_lag_seconds.observe, clock=time.monotonic, beat=beat)
    await plane.listen(data)
    lag.start()
    cycle.started()
    worker.is_ready()
    await cycle.finish(plane)
    await lag.close()


class Nothing:
    """The admin process has nothing in flight that is worth waiting for."""

    in_flight = 0

    def drain(self) -> None:
        """Nothing."""

    def stop_accepting(self) -> None:
        """Nothing."""


async def administrate(worker: Worker, admin: socket.socket) -> None:
    registry, board = shared_registry(worker.metrics_directory, backend="qdrant"), worker.board
    in_force = InForce(Settings())
    ask = ask_of_workers(worker.metrics_directory, board.places - 1)
    pages = Pages(
        is_ready=lambda: state_of(board).value == "ready",
        metrics=lambda _accept: Scrape(generate_latest(registry)),
        status=lambda: read_status(
            registry, FACTS, board, state=state_of(board), uptime_seconds=0.0, workers=worker_statuses(board)
        ),
        inspector=Inspector(ask, in_force, registry),
    )
    cycle = Lifecycle(drain_accept_seconds=0, drain_seconds=0, reload=partial(asyncio.sleep, 0))
    cycle.listen_to_signals()
    server = AdminServer(pages)
    lag = LoopLag(lambda _: None, clock=time.monotonic, beat=worker.beat)
    await server.start(admin)
    lag.start()
    worker.is_ready()
    await cycle.finish(Nothing())
    await lag.close()
    await server.close()


def main() -> int:
    data, admin = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"data": data.getsockname()[1], "admin": admin.getsockname()[1]}), flush=True)

    def worker(process: Worker) -> int:
        if "crash" in sys.argv:
            raise RuntimeError("no worker ever starts")
        asyncio.run(work(process, data))
        return 0

    def administrator(process: Worker) -> int:
        asyncio.run(administrate(process, admin))
        return 0

    return run_workers(
        Workers(
            count=int(sys.argv[1]),
            worker=worker,
            admin=administrator,
            data_sockets=(data,),
            admin_sockets=(admin,),
            drain_seconds=DRAIN_SECONDS,
        )
    )
