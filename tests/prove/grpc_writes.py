"""W over gRPC: unique writes while the database and the workers are killed: none arrives twice, none that was acknowledged is lost."""

from __future__ import annotations

from collections import Counter

from prove.finding import Finding, Scale
from prove.grpc_calls import OK, Calls, callers
from prove.grpc_database import UPSERT
from prove.grpc_stack import grpc_stack
from prove.openload import open_load
from prove.writes import killing
from support.qdrant.scripted_grpc import upsert

RATE = 250.0
SHARE = 4  # of as many writes as over HTTP


async def prove(scale: Scale) -> list[Finding]:
    """Both are killed again and again; on both ports in turn."""
    acknowledged: set[int] = set()
    calls = Calls()

    def heard(number: int, outcome: int, seconds: float) -> None:
        calls.heard(number, outcome, seconds)
        if outcome == OK:
            acknowledged.add(number)

    async with grpc_stack(workers=2) as running, callers(running.port, running.separate_port) as clients:
        count = scale.writes // SHARE
        load = open_load(0, upsert, rate=RATE, count=count, heard=heard, ask=clients.to(UPSERT))
        broken = await killing(running, load, database_seconds=1.5, worker_seconds=2.5)
        written = running.database.written()
    what = f"gRPC, {count} writes at {RATE:.0f}/s, upstream and workers killed"
    return [*judged(what, written, acknowledged, calls), _ran(what, broken, calls)]


def judged(what: str, written: Counter[int], acknowledged: set[int], calls: Calls) -> list[Finding]:
    """What the database has beside what clients were told."""
    twice = sum(times > 1 for times in written.values())
    lost = len(acknowledged - set(written))
    return [
        Finding("W2", what, "0 arrived twice", f"{twice} ({calls.words()})", not twice),
        Finding("W2", what, "0 acknowledged and missing", f"{lost} of {len(acknowledged)}", not lost),
    ]


def _ran(what: str, broken: list[str], calls: Calls) -> Finding:
    """Whether both were killed to the end, and whether anybody noticed."""
    failed = f"{calls.failed} failed, {len(broken)} killers broke {''.join(broken)}"
    return Finding("W2", what, "the kills were felt", failed, bool(calls.failed) and not broken)
