"""A proxied search: against a bare relay of the same upstream bytes, and against the same job done in the client."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.client_side import connect, loop, search, search_and_select
from bench.contenders import TOP_K, Server, ask, check_selected
from bench.figures import Aim, Figure, Sides, figure
from bench.load import Capacity, Request, capacity
from bench.rounds import Effort, interleave
from bench.scenes import DIMENSIONS, POOL, Scene, collection
from bench.upstream import Upstream

AGAINST_RELAY = (Aim("ratio", ">=", 0.45),)
AGAINST_CLIENT = (Aim("ratio", ">=", 2.0),)
# A selected page is a tenth of the pool or less; bytes per reply off by more than this were other answers.
REPLY_BYTES_TOLERANCE = 0.05


class MixedAnswers(Exception):  # noqa: N818 - names what the load saw
    """Under load some searches were answered unselected: the rate is not a rate of selected searches."""


def bench_search(scene: Scene, proxy: Server, relay: Server, effort: Effort) -> Iterator[Figure]:
    """Searches per second with 8 connections, per dimension."""
    for dimensions in DIMENSIONS:
        request = scene.searches[dimensions]
        selected = ask(request, proxy.port)
        check_selected(selected)
        sides = {
            "proxy": partial(capacity, request, proxy.port, seconds=effort.seconds),
            "relay": partial(capacity, request, relay.port, seconds=effort.seconds),
        }
        warm(request, proxy, relay)
        rates = interleave(sides, rounds=effort.rounds)
        for outcome in rates["proxy"]:
            check_size(outcome, len(selected))
        yield figure(
            f"search {POOL} × {dimensions}, 8 connections",
            Sides([each.per_second for each in rates["proxy"]], [each.per_second for each in rates["relay"]]),
            unit="searches/s",
            against="bare aiohttp relay",
            aims=AGAINST_RELAY,
        )


def bench_client_side(scene: Scene, proxy: Server, upstream: Upstream, effort: Effort) -> Iterator[Figure]:
    """Searches per second of one client's own loop, per dimension."""
    through, direct = connect(proxy.port), connect(upstream.port)
    for dimensions in DIMENSIONS:
        name, query = collection(dimensions), scene.queries[dimensions]
        sides = {
            "proxy": loop(partial(search, through, name, query, top_k=TOP_K), seconds=effort.seconds),
            "client": loop(partial(search_and_select, direct, name, query, top_k=TOP_K), seconds=effort.seconds),
        }
        rates = interleave(sides, rounds=effort.rounds)
        yield figure(
            f"search {POOL} × {dimensions}, one qdrant-client",
            Sides(rates["proxy"], rates["client"]),
            unit="searches/s",
            against="client-side MMR",
            aims=AGAINST_CLIENT,
        )
    through.close()
    direct.close()


def warm(request: Request, *servers: Server) -> None:
    """One second of load on each: connections open, caches warm, heaps grown."""
    for server in servers:
        capacity(request, server.port, seconds=1)


def check_size(outcome: Capacity, body_bytes: int) -> None:
    """Raise MixedAnswers unless the mean reply was as large as the selected one. Heads are a few hundred bytes."""
    excess = outcome.reply_bytes - body_bytes
    if not 0 <= excess <= 500 + body_bytes * REPLY_BYTES_TOLERANCE:
        raise MixedAnswers(f"{outcome.reply_bytes:.0f} bytes a reply, wanted {body_bytes} and a head")
