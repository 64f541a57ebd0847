"""A proxied search: against a bare relay of the same upstream bytes, and against the same job done in the client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from bench.client_side import connect, loop, search, search_and_select
from bench.contenders import TOP_K, Server, ask, check_selected
from bench.figures import Aim, Figure, Sides, figure
from bench.rates import Contest, Rate, contest
from bench.rounds import Effort, interleave
from bench.scenes import DIMENSIONS, POOL, Scene, collection
from bench.upstream import Upstream

AGAINST_RELAY = (Aim("ratio", ">=", 0.45),)
AGAINST_CLIENT = (Aim("ratio", ">=", 2.0),)
# The head that a reply may add to its body, with the report header.
HEAD_BYTES = 600
# On a crowded machine a pause may cost a search its deadline, and its client gets the plain answer. More than this many
# of those, and the rate is a rate of something else.
MOST_UNSELECTED = 0.05


class MixedAnswersError(Exception):
    """Under load some searches were answered unselected: the rate is not a rate of selected searches."""


def bench_search(scene: Scene, proxy: Server, relay: Server, effort: Effort) -> Iterator[Figure]:
    """Searches per second with 8 connections, per dimension."""
    for dimensions in DIMENSIONS:
        request = scene.searches[dimensions]
        selected = ask(request, proxy.port)
        check_selected(selected)
        one = Contest(
            name=f"search {POOL} × {dimensions}, 8 connections",
            unit="searches/s",
            request=request,
            aims=AGAINST_RELAY,
        )
        rounds, figures = contest(one, proxy, relay, effort)
        share = unselected_share(rounds, selected_bytes=len(selected), pool_bytes=len(scene.replies[request.path]))
        note = f"{share:.1%} unselected" if share else ""
        yield from (replace(each, note=note) for each in figures)


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


def unselected_share(rounds: Sequence[Rate], *, selected_bytes: int, pool_bytes: int) -> float:
    """How many searches were answered with the whole pool, from the mean size of a reply.

    Raises MixedAnswersError when they are too many, or when replies were smaller than a selected page.
    """
    mean = sum(each.reply_bytes for each in rounds) / len(rounds)
    if mean < selected_bytes:
        raise MixedAnswersError(f"{mean:.0f} bytes a reply, wanted {selected_bytes} and a head")
    share = max(0.0, mean - selected_bytes - HEAD_BYTES) / (pool_bytes - selected_bytes)
    if share > MOST_UNSELECTED:
        raise MixedAnswersError(f"{share:.0%} of the searches were answered unselected")
    return share
