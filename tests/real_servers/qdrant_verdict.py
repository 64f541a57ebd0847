"""Qdrant's own server: generated searches as bytes, and the calls of qdrant-client, directly and in every mode, over REST and gRPC.

The searches and what may differ in them are those of prove.engine_searches, on clouds of all metrics with and without copies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version as installed
from urllib.parse import urlsplit

from prove.engine_searches import (
    CUT_VARIES,
    GROUPS_VARY,
    TIES_VARY,
    TWO_MINDS,
    RequestRecorder,
    fuzzed,
    running,
)

from real_servers.qdrant_scenario import call_outcomes
from real_servers.verdict import MODES, Verdict
from support.process import real_servers
from support.process.stack import exchange

SEARCHES = 480  # twenty a cloud
UNSETTLED = (TWO_MINDS, TIES_VARY, CUT_VARIES, GROUPS_VARY)
Outcomes = Mapping[str, str]


def judged(program: str) -> list[Verdict]:
    """The server's verdicts: one for each transport."""
    with real_servers.qdrant(program) as server:
        place = (server.url, f"http://{server.grpc}")
        version = json.loads(exchange(server.url, "GET", "/").body)["version"]
        calls = {transport: called(place, prefers_grpc=transport == "gRPC") for transport in ("REST", "gRPC")}
        return [
            verdict(name, version, recorder, calls[name]) for name, recorder in fuzzed(SEARCHES, server=place).items()
        ]


def called(place: tuple[str, str], *, prefers_grpc: bool) -> dict[str, Outcomes]:
    """What qdrant-client sees directly, once more directly, and in each mode."""
    with running(place) as (rest, rpc, proxies):
        urls = {"direct": (rest, rpc), "again": (rest, rpc), **{mode: (url, url) for mode, url in proxies.items()}}
        return {
            name: call_outcomes(url, urlsplit(grpc).port or 0, prefers_grpc=prefers_grpc)
            for name, (url, grpc) in urls.items()
        }


def verdict(transport: str, version: str, recorder: RequestRecorder, calls: Mapping[str, Outcomes]) -> Verdict:
    """Of one transport. ``calls``: as ``called`` gives them."""
    unstable = {name for name, outcome in calls["direct"].items() if calls["again"][name] != outcome}
    return Verdict(
        server=f"Qdrant, {transport}",
        version=version,
        client=f"qdrant-client {installed('qdrant-client')}",
        calls=recorder.made + len(calls["direct"]),
        distinct=recorder.distinct,
        unstable=len(unstable) + sum(recorder.reasons[f"off: {reason}"] for reason in UNSETTLED),
        faults={mode: tuple(faults(mode, recorder, calls, unstable)) for mode in MODES},
    )


def faults(mode: str, recorder: RequestRecorder, calls: Mapping[str, Outcomes], unstable: set[str]) -> Iterator[str]:
    """What differs in a mode and must not."""
    yield from (line for line in recorder.stray if line.partition(" ")[0] == mode)
    for name, outcome in calls["direct"].items():
        if name not in unstable and (made := calls[mode].get(name)) != outcome:
            yield f"{name}: directly {outcome[:300]}, through the proxy {(made or 'nothing')[:300]}"
