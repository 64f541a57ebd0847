"""A whole data plane inside the test's own loop: real listener, real upstream pool, counters at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry

from support.deploy.expositions import value
from vecsieve.config.schema import Settings
from vecsieve.proxy.process.assembly import Process
from vecsieve.proxy.runtime.addresses import data_ports_of
from vecsieve.proxy.search.hedge import HedgeTimes
from vecsieve.proxy.telemetry.log import Access
from vecsieve.proxy.telemetry.metrics import Metrics

# No answer of a test may depend on a machine that stalls for seconds: only tests about hedges take the product's own.
UNHURRIED = HedgeTimes(attempt_least=60.0, hedge_least=30.0, hedge_most=60.0)
UNHURRIED_ATTEMPT_SECONDS = 60.0
UNHURRIED_WRITE_SECONDS = 30.0
T = TypeVar("T")


@dataclass(slots=True)
class Running:
    """The data plane, its port, what it counted, what it would have logged, the ports with an index behind each, and gRPC's own."""

    process: Process
    port: int
    registry: CollectorRegistry
    log: list[Access] = field(default_factory=list)
    index_ports: tuple[int, ...] = ()
    grpc_port: int = 0

    def count(self, name: str, **labels: str) -> float:
        """A metric's value by its name without the prefix."""
        self.process.levels.look()
        return value(self.registry, name, **labels)

    @property
    def requests_in_flight(self) -> int:
        """How many it has begun and not ended, with a place or without."""
        return self.process.recorder.requests_in_flight

    def failed_open(self) -> dict[str, float]:
        """Every fail-open reason that was counted."""
        return {
            sample.labels["reason"]: sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == "vecsieve_fail_open_total" and sample.value
        }


async def until(met: Callable[[], T]) -> T:
    """What holds at last: a handler counts just after its answer has left. Given up after three seconds."""
    for _ in range(300):
        if seen := met():
            return seen
        await asyncio.sleep(0.01)
    return met()


@asynccontextmanager
async def running(upstream: str, /, **settings: object) -> AsyncIterator[Running]:
    """Run a data plane in front of ``upstream``; ``settings`` are top-level settings, and its ``hedge_times``."""
    registry = CollectorRegistry()
    hedge_times = settings.pop("hedge_times", UNHURRIED)
    assert isinstance(hedge_times, HedgeTimes)
    if hedge_times is UNHURRIED:
        limits = settings.get("limits", {})
        assert isinstance(limits, dict)
        settings["limits"] = {"attempt_timeout_seconds": UNHURRIED_ATTEMPT_SECONDS, **limits}
    policy = settings.get("policy")
    if isinstance(policy, dict) and isinstance(write := policy.get("write"), dict):
        settings["policy"] = {**policy, "write": {"deadline_seconds": UNHURRIED_WRITE_SECONDS, **write}}
    section = settings.pop("upstream", {})
    assert isinstance(section, dict)
    log: list[Access] = []
    made = Settings.model_validate({"listen": "127.0.0.1:0", **settings, "upstream": {"url": upstream, **section}})
    metrics = Metrics(registry, backend=made.backend)
    process = Process(made, metrics=metrics, log=log.append, hedge_times=hedge_times)
    try:
        data_ports = data_ports_of(made)
        port, *others = await process.listen(*data_ports)
        grpc_port = others.pop() if data_ports[-1].is_for_grpc else 0
        yield Running(process, port, registry, log, tuple(others), grpc_port)
    finally:
        await process.close()
