"""One running data plane with its signals, its reloads and its lag sampler; alone or one of a crew."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.admin.reading import Facts
from vecsieve.proxy.admin.status import settings_hash, upstream_address
from vecsieve.proxy.descriptors import Budget
from vecsieve.proxy.doors import Door
from vecsieve.proxy.lifecycle import Lifecycle
from vecsieve.proxy.log import AccessLog
from vecsieve.proxy.loop_lag import LoopLag
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.process import Process

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
        index_ports=tuple(sorted(settings.pinecone.index_ports)) if settings.backend == "pinecone" else (),
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

    async def open(self, *doors: Door) -> tuple[int, ...]:
        """Listen, take signals; returns the ports. Raises OSError, or IncompatibleLibrary."""
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
