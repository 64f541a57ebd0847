"""Small calls that pass through: against the bare relay and against nginx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bench.bench_search import Side, baseline, over
from bench.contenders import bare_relay, database, nginx_relay, vecsieve
from bench.load import Request, Script, ask
from bench.report import Section, judged
from bench.rounds import Effort, interleave, turns

TARGET = 0.8
CALLS = {"GET of one point": "/collections/new384/points/1"}


def bench_small(effort: Effort) -> Iterator[Section]:
    """GET of one point, an answer of about 300 bytes, 8 connections."""
    script = Script(requests=[Request(method="GET", path=path, body=b"") for path in CALLS.values()])
    with ExitStack() as running:
        upstream = running.enter_context(database(384))
        servers = {
            "VecSieve": running.enter_context(vecsieve(upstream)),
            "bare relay": running.enter_context(bare_relay(upstream.port)),
            "nginx": running.enter_context(nginx_relay(upstream.port)),
        }
        sides = {name: Side(script, server.port, server.pid) for name, server in servers.items() if server is not None}
        for side in sides.values():
            ask(script, side.port, seconds=0.5)
        begins = turns()
        calls = {name: lambda side=side: side.run(upstream, effort.seconds, begins) for name, side in sides.items()}
        rounds = interleave(calls, rounds=effort.rounds)
    rows = [baseline(name, rounds[name]) for name in sides]
    for name in ("bare relay", "nginx"):
        if name in rounds:
            rows[0] |= {f"of {name}": over(rounds[name], rounds["VecSieve"])}
    rows[0]["wanted"] = judged(over(rounds["bare relay"], rounds["VecSieve"]).median, TARGET)
    if servers["nginx"] is None:
        rows.append({"": "nginx is not installed"})
    yield Section("small", "GET of one point passed through, 8 connections", rows)
