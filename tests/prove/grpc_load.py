"""L over gRPC: what the proxy adds to a call and to a search, what it sheds when it has too much, how late its loop wakes."""

from __future__ import annotations

import asyncio

from prove.finding import Finding, Scale
from prove.grpc_calls import OK, OURS, Callers, Calls, at, callers, capacity
from prove.grpc_database import PASSED, QUERY, UNKNOWN
from prove.grpc_searches import CANDIDATES, LARGE, TINY, TOP_K, query
from prove.grpc_stack import GrpcStack, grpc_stack
from prove.load import lag as loop_lag

CHANNELS = 8
CAPACITY_SECONDS = 2.0
SHARE = 2  # of as long as over HTTP
SEARCHES_PER_SECOND = 20.0  # a search alone: what it costs, not what waiting behind others does
RECOVERY_SECONDS = 5.0
ANSWER_SECONDS = 1.5


async def prove(scale: Scale) -> list[Finding]:
    """One process. The clients are in this one, the database in a third."""
    seconds = scale.load_seconds / SHARE
    async with (
        grpc_stack(workers=1) as running,
        callers(running.database.port, channels=CHANNELS) as direct,
        callers(running.port, channels=CHANNELS) as through,
    ):
        findings = []
        for method, kind in ((PASSED, "of one message"), (UNKNOWN, "of unknown shape")):
            findings += await added(direct, through, method, f"gRPC calls {kind}", seconds)
        return [*findings, *await searched(direct, through, seconds), *await overload(running, through, seconds)]


async def added(direct: Callers, through: Callers, method: str, what: str, seconds: float) -> list[Finding]:
    """Direct and through the proxy at the same rate, half of what goes through it."""
    message = bytes(100)
    most = await capacity(through, method, message, seconds=min(CAPACITY_SECONDS, seconds))
    rate = most / 2
    here = await at(direct, method, message, rate=rate, seconds=seconds)
    there = await at(through, method, message, rate=rate, seconds=seconds)
    return [
        *compared("L1", f"{what} at {rate:.0f}/s, half of {most:.0f}/s", here, there, p50=1.0, p99=2.5),
        Finding("L3", f"{what}, closed loop, 16 clients", "reported", f"{most:.0f}/s", None),
    ]


async def searched(direct: Callers, through: Callers, seconds: float) -> list[Finding]:
    """A page of ten through the proxy, beside the over-fetch that it makes for it."""
    page, pool = query(LARGE, limit=TOP_K), query(LARGE, limit=CANDIDATES, with_vectors=True)
    await through.ask(QUERY, page)
    here = await at(direct, QUERY, pool, rate=SEARCHES_PER_SECOND, seconds=2 * seconds)
    there = await at(through, QUERY, page, rate=SEARCHES_PER_SECOND, seconds=2 * seconds)
    what = f"gRPC searches, {TOP_K} of {CANDIDATES} × {LARGE[2]}, over the same over-fetch made directly"
    return compared("L2", what, here, there, p50=4.0, p99=15.0)


def compared(name: str, what: str, direct: Calls, through: Calls, *, p50: float, p99: float) -> list[Finding]:
    """Milliseconds that the proxy adds beside those that it may."""
    findings = [Finding(name, what, "0 failed", through.words(), not through.failed)]
    for share, most in ((0.5, p50), (0.99, p99)):
        more = through.milliseconds(share) - direct.milliseconds(share)
        findings.append(Finding(name, what, f"p{100 * share:.0f} ≤ {most} ms added", f"{more:.2f} ms", more <= most))
    return findings


async def overload(running: GrpcStack, through: Callers, seconds: float) -> list[Finding]:
    """Searches at half of what one process can do, at twice, and at half again."""
    message = query(TINY, limit=3)
    most = await capacity(through, QUERY, message, seconds=min(CAPACITY_SECONDS, seconds))
    before = await at(through, QUERY, message, rate=most / 2, seconds=seconds)
    lag = await loop_lag(running, 0.99)
    over = await at(through, QUERY, message, rate=2 * most, seconds=seconds)
    shed = await running.metric(r'fail_open_total\{[^}]*reason="overload"[^}]*\}')
    await asyncio.sleep(RECOVERY_SECONDS)
    after = await at(through, QUERY, message, rate=most / 2, seconds=seconds)
    is_alive = running.command.process.poll() is None
    what = f"gRPC searches at {2 * most:.0f}/s, twice {most:.0f}/s"
    on_time = f"≤ {1000 * lag:.0f} ms"
    return [
        Finding("L5", f"loop's lag at {most / 2:.0f} gRPC searches/s", "p99 ≤ 20 ms", on_time, lag <= 0.020),
        *shedding(what, over, shed, is_alive=is_alive),
        recovered(before, after),
    ]


def shedding(what: str, over: Calls, shed: float, *, is_alive: bool) -> list[Finding]:
    """What became of too many: answered OK or told by the proxy to come back, and in time."""
    slowest = over.latency.percentile(1.0)
    expected = {OK, *(outcome for outcome in over.outcomes if outcome >= OURS)}
    is_answered = is_alive and set(over.outcomes) <= expected
    share = 100 * over.outcomes[OK] / over.outcomes.total()
    return [
        Finding("L4", what, "no crash, every call answered", over.words(), is_answered),
        Finding("L4", what, "selection is shed first", f"{shed:.0f} shed, {share:.1f} % OK", shed > 0),
        Finding(
            "L4",
            what,
            f"answered ≤ {ANSWER_SECONDS} s after due",
            f"slowest {slowest:.2f} s",
            slowest <= ANSWER_SECONDS,
        ),
    ]


def recovered(before: Calls, after: Calls) -> Finding:
    """Whether all is as it was."""
    was, again = (calls.milliseconds(0.99) for calls in (before, after))
    what = f"gRPC, {RECOVERY_SECONDS:.0f} s later"
    return Finding("L4", what, "p99 as before ± 50 %", f"{again:.1f} ms, was {was:.1f} ms", again <= 1.5 * was)
