"""Two servers under the same load in turn: requests per second, and processor time per request.

The rate is what was asked for; processor time says the same with less noise where neighbours take turns on the cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from bench.contenders import Server
from bench.figures import Aim, Figure, Sides, figure
from bench.load import Request, capacity
from bench.processes import cpu_seconds
from bench.rounds import Effort, interleave

RELAY = "bare aiohttp relay"


@dataclass(frozen=True, slots=True)
class Rate:
    """One round on one server. ``cpu_ms``: its processor time per request, user and system."""

    per_second: float
    reply_bytes: float
    cpu_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What is asked of both, and how it is shown."""

    name: str
    unit: str
    request: Request
    aims: tuple[Aim, ...]
    against: str = RELAY


def contest(one: Contest, proxy: Server, relay: Server, effort: Effort) -> tuple[list[Rate], Iterator[Figure]]:
    """The proxy's rounds, and the figures against the relay. Raises MeasurementFailedError when a request failed."""
    for server in (proxy, relay):  # connections open, caches warm, heaps grown
        capacity(one.request, server.port, seconds=1)
    sides = {
        "proxy": partial(rate, one.request, proxy, seconds=effort.seconds),
        "relay": partial(rate, one.request, relay, seconds=effort.seconds),
    }
    rates = interleave(sides, rounds=effort.rounds)
    return rates["proxy"], _figures(one, rates["proxy"], rates["relay"])


def rate(request: Request, server: Server, *, seconds: int) -> Rate:
    """One round of the closed loop."""
    before = cpu_seconds(server.pid)
    outcome = capacity(request, server.port, seconds=seconds)
    used = cpu_seconds(server.pid) - before
    return Rate(outcome.per_second, outcome.reply_bytes, used / outcome.replies * 1e3)


def _figures(one: Contest, proxy: list[Rate], relay: list[Rate]) -> Iterator[Figure]:
    per_second = Sides([each.per_second for each in proxy], [each.per_second for each in relay])
    yield figure(one.name, per_second, unit=one.unit, against=one.against, aims=one.aims)
    cpu = Sides([each.cpu_ms for each in proxy], [each.cpu_ms for each in relay])
    yield figure(f"processor time, {one.name}", cpu, unit="ms", against=one.against)
