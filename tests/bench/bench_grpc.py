"""Searches over gRPC: against a bare relay of grpc.aio, against the proxy that only relays, and against REST.

The same pools with the same payloads as over REST, by the same closed loop; a client is a connection with one call at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from bench.bench_search import unselected_share
from bench.contenders import Both, Server, ask, ask_grpc, check_page, check_selected
from bench.figures import Aim, Figure, Sides, figure
from bench.grpc_bodies import shown
from bench.grpc_upload import MESSAGE_MEBIBYTES, upload
from bench.load import Latency, closed_latency
from bench.rates import Contest, contest, rate
from bench.rounds import Effort, interleave
from bench.scenes import DIMENSIONS, POOL, QUERY_METHOD, Scene, collection
from bench.stats import differences

RELAY = "bare grpc.aio relay"
AGAINST_RELAY = (Aim("ratio", ">=", 0.7),)
CLIENTS = (1, 8)
PERCENTILES = ("p50", "p99")
UPLOAD_MEBIBYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """What runs: the proxy with selection on, the proxy that is off, the bare relay, and the upstream's port for gRPC."""

    proxy: Both
    off: Both
    relay: Server
    upstream_port: int


def bench_grpc(scene: Scene, running: Sets, effort: Effort) -> Iterator[Figure]:
    """Rates per dimension, what a search takes longer with 1 and 8 clients, REST beside gRPC, and a stream's throughput."""
    for dimensions in DIMENSIONS:
        yield from _rates(scene, dimensions, running, effort)
    for dimensions in DIMENSIONS:
        for clients in CLIENTS:
            yield from _added(scene, dimensions, clients, running, effort)
    for dimensions in DIMENSIONS:
        yield from _beside_rest(scene, dimensions, running.proxy, effort)
    yield from _streamed(running, effort)


def _rates(scene: Scene, dimensions: int, running: Sets, effort: Effort) -> Iterator[Figure]:
    request = scene.grpc_searches[dimensions]
    selected = ask_grpc(request, running.proxy.grpc.port)
    check_page(shown(selected))
    name = f"gRPC search {POOL} × {dimensions}, 8 connections"
    one = Contest(name=name, unit="searches/s", request=request, aims=AGAINST_RELAY, against=RELAY)
    rounds, figures = contest(one, running.proxy.grpc, running.relay, effort)
    pool_bytes = len(scene.grpc_replies[collection(dimensions) + QUERY_METHOD])
    share = unselected_share(rounds, selected_bytes=len(selected), pool_bytes=pool_bytes)
    note = f"{share:.1%} unselected" if share else ""
    yield from (replace(each, note=note) for each in figures)
    off = Contest(name=f"{name}, mode off", unit="searches/s", request=request, aims=(), against=RELAY)
    yield from contest(off, running.off.grpc, running.relay, effort)[1]


def _added(scene: Scene, dimensions: int, clients: int, running: Sets, effort: Effort) -> Iterator[Figure]:
    request = scene.grpc_searches[dimensions]
    ports = {"proxy": running.proxy.grpc.port, "relay": running.relay.port, "direct": running.upstream_port}
    sides = {
        side: partial(closed_latency, request, port, seconds=effort.seconds, clients=clients)
        for side, port in ports.items()
    }
    outcomes = interleave(sides, rounds=effort.rounds)
    for which in PERCENTILES:
        added = _differences(outcomes, which)
        name = f"added {which}, gRPC search {POOL} × {dimensions}, closed loop of {clients}"
        yield figure(name, added, unit="ms", against="bare relay adds")


def _differences(outcomes: Mapping[str, list[Latency]], which: str) -> Sides:
    taken = {side: [float(getattr(each, which)) * 1e3 for each in rounds] for side, rounds in outcomes.items()}
    return Sides(differences(taken["proxy"], taken["direct"]), differences(taken["relay"], taken["direct"]))


def _beside_rest(scene: Scene, dimensions: int, proxy: Both, effort: Effort) -> Iterator[Figure]:
    rest, call = scene.searches[dimensions], scene.grpc_searches[dimensions]
    check_selected(ask(rest, proxy.http.port))
    sides = {
        "grpc": partial(rate, call, proxy.grpc, seconds=effort.seconds),
        "rest": partial(rate, rest, proxy.http, seconds=effort.seconds),
    }
    rates = interleave(sides, rounds=effort.rounds)
    for name, unit, member in (("search", "searches/s", "per_second"), ("processor time, search", "ms", "cpu_ms")):
        both = {side: [float(getattr(each, member)) for each in rounds] for side, rounds in rates.items()}
        title = f"{name} {POOL} × {dimensions} over gRPC"
        yield figure(title, Sides(both["grpc"], both["rest"]), unit=unit, against="the same over REST")


def _streamed(running: Sets, effort: Effort) -> Iterator[Figure]:
    ports = {"proxy": running.proxy.grpc.port, "relay": running.relay.port, "direct": running.upstream_port}
    sides = {side: partial(upload, port, mebibytes=UPLOAD_MEBIBYTES) for side, port in ports.items()}
    rates = interleave(sides, rounds=effort.upload_rounds)
    name = f"gRPC stream of {UPLOAD_MEBIBYTES} MiB in messages of {MESSAGE_MEBIBYTES} MiB"
    for baseline, against in (("direct", "direct"), ("relay", RELAY)):
        yield figure(name, Sides(rates["proxy"], rates[baseline]), unit="MiB/s", against=against)
