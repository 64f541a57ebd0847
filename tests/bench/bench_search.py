"""A search through the proxy, by what it has seen before, against bare relays: of the widened bytes (a), of the plain answer (c)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from bench.contenders import Database, Proxy, bare_relay, database, grpc_relay, unselected, vecsieve
from bench.load import Outcome, Script, ask
from bench.report import Section, judged
from bench.rounds import Effort, Turns, interleave, turns
from bench.stats import Spread, ratios, spread
from bench.store import store
from bench.traffic import searches, warm

# Pools: their name, the collection's kind, and what is wanted of (a) at 384 and at 1536.
COLD, HALF, NEW, SAME = "never seen", "half of the points known", "points known, pools new", "pools known, Zipf"
KINDS = {COLD: "cold", HALF: "half", NEW: "new", SAME: "same"}
TARGETS = {(NEW, 384): 0.50, (NEW, 1536): 1.0, (SAME, 384): 0.85, (SAME, 1536): 2.3}
GRPC_TARGETS = {"shared port": 0.45, "own port": 0.6, "own port, mode off": 0.85}


class Round(NamedTuple):
    """One round of one side. ``moved``: kilobytes that the database sent per request; ``plain``: share of plain answers."""

    outcome: Outcome
    moved: float
    plain: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """Whom to ask what, and the process whose time counts. ``selects``: the proxy, where copies are to be removed."""

    script: Script
    port: int
    pid: int
    selects: Proxy | None = None

    def run(self, upstream: Database, seconds: float, turns: Turns) -> Round:
        """One round. Raises OtherSearchError when too few searches were selected from."""
        sent, begun = upstream.moved()["bytes"], self.selects and self.selects.improved()
        outcome = ask(self.script, self.port, seconds=seconds, seed=next(turns), pid=self.pid)
        plain = unselected(begun, self.selects.improved()) if begun and self.selects else None
        return Round(outcome, (upstream.moved()["bytes"] - sent) / outcome.replies / 1e3, plain)


def bench_search(dimensions: int, effort: Effort) -> Iterator[Section]:
    """One table: processor time per search, rates, ratios, bytes."""
    stored = store(dimensions)
    with ExitStack() as running:
        upstream = running.enter_context(database(dimensions))
        # What is new all the time would push out what the warm rows rely on: a process for each.
        known, cold = (running.enter_context(vecsieve(upstream)) for _ in range(2))
        relay = running.enter_context(bare_relay(upstream.port))
        sides = {}
        for name, kind in KINDS.items():
            proxy = known if name in {NEW, SAME} else cold
            script = searches(stored, kind, order="zipf" if name == SAME else "turn")
            sides[name] = Side(script, proxy.port, proxy.pid, proxy)
        sides["a"] = Side(searches(stored, "new", widened=True), relay.port, relay.pid)
        sides["c"] = Side(searches(stored, "new"), relay.port, relay.pid)
        for kind in ("new", "same"):
            warm(searches(stored, kind), known.port, upstream)
        rounds = measured(sides, upstream, effort)
    rows = [row(name, rounds[name], rounds["a"], rounds["c"], target=TARGETS.get((name, dimensions))) for name in KINDS]
    rows += [baseline("(a) relay of 50 with vectors", rounds["a"]), baseline("(c) relay of 10", rounds["c"])]
    yield Section(f"search-{dimensions}", f"a search of 10 among 50 × {dimensions}, 8 connections", rows)


def bench_grpc(dimensions: int, effort: Effort) -> Iterator[Section]:
    """The same over gRPC: on the port both transports share, on a port of its own, and there with mode off."""
    stored = store(dimensions)
    with ExitStack() as running:
        upstream = running.enter_context(database(dimensions, has_grpc=True))
        on = running.enter_context(vecsieve(upstream))
        off = running.enter_context(vecsieve(upstream, mode="off"))
        relay = running.enter_context(grpc_relay(upstream.grpc_port))
        new, widened = (searches(stored, "new", widened=flag, is_grpc=True) for flag in (False, True))
        sides = {
            "shared port": Side(new, on.port, on.pid, on),
            "own port": Side(new, on.grpc_port, on.pid, on),
            "own port, mode off": Side(widened, off.grpc_port, off.pid),
            "a": Side(widened, relay.port, relay.pid),
            "c": Side(new, relay.port, relay.pid),
        }
        warm(new, on.grpc_port, upstream)
        rounds = measured(sides, upstream, effort)
    rows = [row(name, rounds[name], rounds["a"], rounds["c"], target=target) for name, target in GRPC_TARGETS.items()]
    rows += [baseline("(a) grpc.aio relay of 50 with vectors", rounds["a"]), baseline("(c) relay of 10", rounds["c"])]
    yield Section(f"grpc-{dimensions}", f"{NEW}, over gRPC, 50 × {dimensions}, 8 connections", rows)


Rounds = Sequence[Round]


def measured(sides: Mapping[str, Side], upstream: Database, effort: Effort) -> dict[str, list[Round]]:
    """All sides in turn."""
    begins = turns()
    calls = {name: partial(side.run, upstream, effort.seconds, begins) for name, side in sides.items()}
    for side in sides.values():  # connections open, heaps grown
        ask(side.script, side.port, seconds=0.3)
    return interleave(calls, rounds=effort.rounds)


def row(name: str, ours: Rounds, relay: Rounds, plain: Rounds, *, target: float | None = None) -> dict[str, object]:
    """``target``: the least share of (a)."""
    share = over(relay, ours)
    return {
        **baseline(name, ours),
        "of (a)": share,
        "of (c)": over(plain, ours),
        "wanted of (a)": judged(share.median, target),
    }


def baseline(name: str, rounds: Rounds) -> dict[str, object]:
    """What was measured of one side."""
    plain = [item.plain for item in rounds if item.plain is not None]
    return {
        "": name,
        "CPU ms": spread([item.outcome.cpu_ms for item in rounds]),
        "per s": spread([item.outcome.per_second for item in rounds]).median,
        "p50 ms": spread([item.outcome.p50 for item in rounds]).median,
        "p99 ms": spread([item.outcome.p99 for item in rounds]).median,
        "kB from db": spread([item.moved for item in rounds]).median,
        "plain": f"{spread(plain).median:.1%}" if plain else "",
    }


def over(relay: Rounds, ours: Rounds) -> Spread:
    """Their processor time over ours, round by round: 0.5 is twice the work."""
    return spread(ratios([result.outcome.cpu_ms for result in relay], [run.outcome.cpu_ms for run in ours]))
