"""Passthrough of small calls against the bare relay: what transparency costs when there is nothing to select."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.bench_search import warm
from bench.contenders import Server
from bench.figures import Aim, Figure, Sides, figure
from bench.load import capacity
from bench.rounds import Effort, interleave
from bench.scenes import Scene

AIMS = (Aim("ratio", ">=", 0.8),)


def bench_passthrough(scene: Scene, proxy: Server, relay: Server, effort: Effort) -> Iterator[Figure]:
    """Calls per second with 8 connections: GET of one point, an answer of about 300 bytes."""
    request = scene.small_call
    warm(request, proxy, relay)
    sides = {
        "proxy": partial(capacity, request, proxy.port, seconds=effort.seconds),
        "relay": partial(capacity, request, relay.port, seconds=effort.seconds),
    }
    rates = interleave(sides, rounds=effort.rounds)
    yield figure(
        "passthrough, GET of one point",
        Sides([each.per_second for each in rates["proxy"]], [each.per_second for each in rates["relay"]]),
        unit="calls/s",
        against="bare aiohttp relay",
        aims=AIMS,
    )
