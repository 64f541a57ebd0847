"""Passthrough of small calls against the bare relay: what transparency costs when there is nothing to select."""

from __future__ import annotations

from collections.abc import Iterator

from bench.contenders import Server
from bench.figures import Aim, Figure
from bench.rates import Contest, contest
from bench.rounds import Effort
from bench.scenes import Scene

AIMS = (Aim("ratio", ">=", 0.8),)


def bench_passthrough(scene: Scene, proxy: Server, relay: Server, effort: Effort) -> Iterator[Figure]:
    """Calls per second with 8 connections: GET of one point, an answer of about 300 bytes."""
    one = Contest(name="passthrough, GET of one point", unit="calls/s", request=scene.small_call, aims=AIMS)
    _, figures = contest(one, proxy, relay, effort)
    yield from figures
