"""The composition root: settings in, running listeners out."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from vecsieve.config.addresses import parse_address
from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.admin.server import AdminServer, Pages
from vecsieve.proxy.admin.status import Status, settings_hash, upstream_address
from vecsieve.proxy.exposition import exposition, own_registry
from vecsieve.proxy.lifecycle import Lifecycle
from vecsieve.proxy.log import AccessLog
from vecsieve.proxy.log_setup import set_up
from vecsieve.proxy.log_sink import ThreadedSink
from vecsieve.proxy.loop_lag import LoopLag
from vecsieve.proxy.memory import glibc_mallopt, keep_freed_blocks
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.process import Process

LOGGER = logging.getLogger("vecsieve.server")
# What a running process cannot change: its sockets, its pools and what it promised to hold.
FIXED = ("backend", "listen", "admin", "workers", "upstream", "limits", "shadow.in_flight")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the settings come from; read again on SIGHUP."""

    config: Path | None
    environment: Mapping[str, str]
    flags: Mapping[str, object]

    def load(self) -> Settings:
        """The settings as they are now. Raises SettingsError."""
        return load(file=self.config, environment=self.environment, flags=self.flags)


def run(*, config: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Serve until told to stop. Returns the exit status; raises SettingsError, or OSError for an address in use."""
    source = Source(config, environment, flags)
    settings = source.load()
    keep_freed_blocks(glibc_mallopt())
    return run_loop(serve(source, settings))


def run_loop(main: Coroutine[None, None, int]) -> int:
    """Run on uvloop when it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve(source: Source, settings: Settings) -> int:
    """Run one process with both its listeners."""
    registry = own_registry()
    metrics = Metrics(registry, backend=settings.backend)
    sink = ThreadedSink(on_drop=metrics.log_dropped_total.inc)
    logging_ = set_up(sink)
    instance = Instance(source, settings, metrics=metrics, log=AccessLog(sink))
    try:
        return await instance.run(admin_metrics=lambda: exposition(registry))
    finally:
        logging_.close()


class Instance:
    """A data plane with its admin listener, its signals and its reloads. Make it inside the event loop."""

    def __init__(self, source: Source, settings: Settings, *, metrics: Metrics, log: AccessLog) -> None:
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self._started = time.monotonic()
        self._hash = settings_hash(settings)
        self._process = Process(settings, metrics=metrics, log=log.write)
        self._lifecycle = Lifecycle(
            drain_accept_seconds=settings.limits.drain_accept_seconds,
            drain_seconds=settings.limits.drain_seconds,
            reload=self.reload,
        )
        self._lag = LoopLag(metrics.event_loop_lag_seconds.observe, clock=time.monotonic)
        metrics.built(version=version("vecsieve"), parser="c")  # the listener refuses to start on any other
        metrics.config_taken(self._hash, previous=None, at=time.time())

    async def run(self, *, admin_metrics: Callable[[], bytes]) -> int:
        """Listen, announce, serve, drain. Returns the exit status: 0 also when the drain had to cut requests."""
        pages = Pages(is_ready=lambda: self._lifecycle.is_ready, metrics=admin_metrics, status=self.status)
        admin = AdminServer(pages)
        self._lifecycle.listen_to_signals()
        try:
            where, own = parse_address(self._settings.listen), parse_address(self._settings.admin)
            port = await self._process.listen((where.host, where.port))
            await admin.start((own.host, own.port))
            self._lag.start()
            # What lives from here on lives long: the collector need not walk over the modules again.
            gc.collect()
            gc.freeze()
            announce("listening", where.host, port)
            announce("admin", own.host, admin.port)
            self._lifecycle.started()
            if not await self._lifecycle.finish(self._process):
                LOGGER.warning(
                    "requests were cut: the drain time is over",
                    extra={"fields": {"in_flight": self._process.in_flight}},
                )
        finally:
            await self._process.close()
            await self._lag.close()
            await admin.close()
            self._lifecycle.ignore_signals()
        return 0

    def reload(self) -> None:
        """Take new settings; keep the old ones when they are wrong. Never raises."""
        try:
            fresh = self._source.load()
        except SettingsError as error:
            self._metrics.config_refused()
            LOGGER.error("reload refused, the old settings stay: %s", error)  # noqa: TRY400 - a traceback would say less
            return
        if fixed := [name for name in FIXED if _at(fresh, name) != _at(self._settings, name)]:
            LOGGER.warning("these settings take a restart: %s", ", ".join(fixed))
        self._process.reload(fresh)
        previous, self._hash = self._hash, settings_hash(fresh)
        self._settings = fresh
        self._metrics.config_taken(self._hash, previous=previous, at=time.time())
        LOGGER.info("settings reloaded", extra={"fields": {"hash": self._hash}})

    def status(self) -> Status:
        """A reading for the status page."""
        return Status(
            version=version("vecsieve"),
            state=self._lifecycle.state.value,
            uptime_seconds=round(time.monotonic() - self._started, 3),
            backend=self._settings.backend,
            mode=self._settings.mode,
            upstream=upstream_address(self._settings.upstream.url),
            settings_hash=self._hash,
            requests_in_flight=self._process.in_flight,
            searches_in_flight=self._process.searches_in_flight,
            breaker=self._process.breaker.state,
            learned_collections=self._process.learned.capped_collections,
        )


def announce(what: str, host: str, port: int) -> None:
    """Print where something listens, in the one form that scripts and tests read."""
    name = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"vecsieve serve {what} on http://{name}:{port}\n")
    sys.stdout.flush()


def _at(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value
