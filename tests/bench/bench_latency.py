"""Added latency at half load: open loop, half of the proxy's own capacity, the same rate on every side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from bench.contenders import Server
from bench.figures import Figure, Sides, figure
from bench.load import Latency, Request, capacity, latency
from bench.rounds import Effort, interleave
from bench.scenes import POOL, Scene
from bench.stats import differences
from bench.upstream import Upstream

PERCENTILES = ("p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Trio:
    """The three sides of every figure: ours, the bare relay, the upstream itself."""

    proxy: Server
    relay: Server
    upstream: Upstream


def bench_latency(scene: Scene, trio: Trio, effort: Effort) -> Iterator[Figure]:
    """Milliseconds added over a direct call, against what the bare relay adds."""
    for name, request in ((f"search {POOL} × 384", scene.searches[384]), ("GET of one point", scene.small_call)):
        rate = capacity(request, trio.proxy.port, seconds=effort.seconds).per_second / 2
        yield from _added(name, request, trio, rate=rate, effort=effort)


def _added(name: str, request: Request, trio: Trio, *, rate: float, effort: Effort) -> Iterator[Figure]:
    ports = {"proxy": trio.proxy.port, "relay": trio.relay.port, "direct": trio.upstream.port}
    sides = {side: partial(latency, request, port, seconds=effort.seconds, rate=rate) for side, port in ports.items()}
    outcomes = interleave(sides, rounds=effort.rounds)
    for which in PERCENTILES:
        direct = _milliseconds(outcomes["direct"], which)
        added = {side: differences(_milliseconds(outcomes[side], which), direct) for side in ("proxy", "relay")}
        yield figure(
            f"added {which}, {name}",
            Sides(added["proxy"], added["relay"]),
            unit="ms",
            against="bare relay adds",
            note=f"at {rate:.0f}/s",
        )


def _milliseconds(outcomes: list[Latency], which: str) -> list[float]:
    return [float(getattr(outcome, which)) * 1e3 for outcome in outcomes]
