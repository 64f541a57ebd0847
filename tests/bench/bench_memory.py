"""What the feature memory saves where vectors decide: bytes from the database, processor time and memory, beside a process without one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.contenders import Database, Proxy, database, vecsieve
from bench.load import Outcome, Script, ask
from bench.processes import rss_bytes
from bench.report import Section
from bench.rounds import Effort, Turns, interleave, turns
from bench.stats import ratios, spread
from bench.store import QUESTIONS, store
from bench.traffic import WARM_QUESTIONS, searches

DIMENSIONS = 384
# What is asked: the kind of the pools (bench.database).
REPEATED = "pools repeated, Zipf"
TRAFFIC = {
    "never seen": "cold",
    "half of the points new": "half",
    "a tenth of the points new": "few",
    "points known, pools new": "new",
    REPEATED: "same",
}
# Prefixes of collections, by why vectors decide about them.
POLICIES = {"no texts": "bare", "classical": "classical"}
RULES = "rules: [{collection: 'classical-*', preset: classical}]\n"
SIDES: Mapping[str, Mapping[str, str]] = {"with": {}, "without": {"VECSIEVE_MEMORY_BYTES": "0"}}
WARM_ROUNDS, WARM_SEARCHES = 10, 2_500  # of every question; of questions by Zipf's law


class Round(NamedTuple):
    """One round of one side. ``moved``: kilobytes that the database sent per search."""

    outcome: Outcome
    moved: float


def bench_memory(effort: Effort, sides: Mapping[str, Mapping[str, str]] = SIDES) -> Iterator[Section]:
    """One table for each policy. ``sides``: names and variables of the processes that are compared, the last one being the baseline."""
    for policy, prefix in POLICIES.items():
        with ExitStack() as running:
            upstream = running.enter_context(database(DIMENSIONS))
            settings = running.enter_context(tempfile.NamedTemporaryFile("w", suffix=".yaml"))
            settings.write(RULES)
            settings.flush()
            start = partial(vecsieve, upstream, "--config", str(Path(settings.name)))
            proxies = {name: running.enter_context(start(variables=more)) for name, more in sides.items()}
            rows = [row(name, measured(script(prefix, name), proxies, upstream, effort), proxies) for name in TRAFFIC]
        yield Section(f"memory, {policy}", f"50 × {DIMENSIONS}, 8 connections, {' / '.join(sides)}", rows)


def script(prefix: str, traffic: str) -> Script:
    """The searches of one row."""
    is_repeated, kind = traffic == REPEATED, f"{prefix}-{TRAFFIC[traffic]}"
    stored = store(DIMENSIONS)
    if is_repeated:
        return searches(stored, kind, questions=QUESTIONS, order="zipf")
    return searches(stored, kind)


def measured(
    workload: Script, proxies: Mapping[str, Proxy], upstream: Database, effort: Effort
) -> dict[str, list[Round]]:
    """All sides in turn, each from what it has learned before."""
    count = WARM_ROUNDS * WARM_QUESTIONS if workload.order == "turn" else WARM_SEARCHES
    begins = turns()
    for proxy in proxies.values():
        ask(workload, proxy.port, count=count)
    calls = {
        name: partial(_round, workload, proxy, upstream, effort.seconds, begins) for name, proxy in proxies.items()
    }
    return interleave(calls, rounds=effort.rounds)


def _round(workload: Script, proxy: Proxy, upstream: Database, seconds: float, begins: Turns) -> Round:
    sent = upstream.moved()["bytes"]
    outcome = ask(workload, proxy.port, seconds=seconds, seed=next(begins), pid=proxy.pid)
    return Round(outcome, (upstream.moved()["bytes"] - sent) / outcome.replies / 1e3)


def row(name: str, rounds: Mapping[str, Sequence[Round]], proxies: Mapping[str, Proxy]) -> dict[str, object]:
    """Every side's figures, and its share of the baseline's."""
    *_, baseline = rounds.values()
    made: dict[str, object] = {"": name}
    for side, ours in rounds.items():
        made[f"kB, {side}"] = spread([run.moved for run in ours]).median
        made[f"CPU ms, {side}"] = spread([run.outcome.cpu_ms for run in ours])
        made[f"RSS MB, {side}"] = rss_bytes(proxies[side].pid) / 1e6
        if ours is not baseline:
            made[f"of bytes, {side}"] = spread(ratios([run.moved for run in ours], [rival.moved for rival in baseline]))
            made[f"of CPU, {side}"] = spread(
                ratios([run.outcome.cpu_ms for run in ours], [rival.outcome.cpu_ms for rival in baseline])
            )
    return made
