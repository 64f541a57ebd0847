"""F: every answer a database must not give, to the widened request or to every request, through the real process

The upstream does what a request's ``x-fault`` names: to widened requests only, or to all with ``x-scope: all``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from prove.faults import seen
from prove.finding import Finding, Scale
from prove.openload import Pool, RequestRecorder, open_load
from prove.stack import Proxy, proxy
from prove.usage import MIB, forget_peak, usage
from prove.verdicts import Judge, is_as_broken, is_direct, is_direct_but_for_report, is_fair, is_never_whole
from support.exchanges.odd_answers import INTERIM, ODD, answered, late
from support.exchanges.widened_faults import FAULTS, MORE_FAULTS, VECTORS
from support.network.broken_answers import CUT_BODIES, NO_HEAD, send
from support.network.faulty_upstream import FaultyUpstream, Received, Talk
from support.qdrant.scripted import Misbehaviour, honest, is_widened, request, search

HEALTHY_BETWEEN = 2  # searches that succeed after each fault: the breaker stays closed, so that each fault is met
SLOW = frozenset({"silence", "trickle", "50-MB", "gzip-bomb"})  # a tenth of the rounds
SETTLED_SECONDS = 8.0
ENVIRONMENT = {"VECSIEVE_LIMITS_ATTEMPT_TIMEOUT_SECONDS": "0.4", "VECSIEVE_LIMITS_REPLY_BODY_BYTES": "1000000"}
WIDENED = {**FAULTS, **MORE_FAULTS}
HEAD = "head: "
SEARCH = search(extra={"with_payload": True})
# Nothing here is an answer by RFC 9112, whatever a lenient client reads into it.
NO_ANSWER = frozenset(
    {"not-http", "two-lengths", "length-and-chunks", "70-kB-header", "101", *(HEAD + name for name in NO_HEAD)}
)
NUMBERS = count()


def cut(answer: bytes, *, reset: bool = False) -> Misbehaviour:
    """The bytes, then the end of the connection."""

    async def act(talk: Talk, _: Received) -> bool:
        await send(talk, answer, reset=reset)
        return False

    return act


ACTS: dict[str, Misbehaviour] = {
    **{name: act for name, (act, _) in {**WIDENED, **VECTORS}.items()},
    **{HEAD + name: cut(answer, reset=reset) for name, (answer, reset, _) in NO_HEAD.items()},
    **{name: cut(answer) for name, answer in CUT_BODIES.items()},
    **{name: answered(made) for name, made in ODD.items()},
    "slow first byte": late,
}


async def planned(talk: Talk) -> None:
    """Honest, but where the request asks for a fault."""
    while (received := await talk.request()) is not None:
        if not await one(talk, received):
            return


async def one(talk: Talk, received: Received) -> bool:
    """Answer one search as it asks for; whether the connection goes on."""
    name = (received.header(b"x-fault") or b"").decode()
    if name and (is_widened(received) or received.header(b"x-scope") == b"all"):
        if not await ACTS[name](talk, received):
            return False
    else:
        await talk.send(honest(received))
    return received.header(b"connection") != b"close"


def query(name: str = "", *, mode: str = "on", everywhere: bool = False) -> bytes:
    """A search of a collection of its own: what is learned of one collection is no other's."""
    fields = b"x-vecsieve-mode: %s\r\n" % mode.encode()
    fields += b"x-fault: %s\r\n" % name.encode() if name else b""
    fields += b"x-scope: all\r\n" if everywhere else b""
    return request(SEARCH, headers=fields, target=b"/collections/c%d/points/query" % next(NUMBERS))


@dataclass(slots=True)
class Rounds:
    """What came of so many rounds. ``wrong``: what the client saw instead, by how often."""

    requested: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    unwell: int = 0

    def add(self, more: Rounds) -> None:
        """Take in other rounds of the same."""
        self.requested, self.unwell = self.requested + more.requested, self.unwell + more.unwell
        self.wrong += more.wrong

    def finding(self, name: str, what: str, criterion: str) -> Finding:
        """One row."""
        reasons = "".join(f"; {times} × {how}" for how, times in self.wrong.most_common(2))
        bad = self.wrong.total()
        return Finding(name, what, criterion, f"{self.requested - bad} of {self.requested}{reasons}", met=not bad)


async def play(
    ports: tuple[int, int], name: str, judge: Judge, rounds: int, *, modes: Sequence[str], everywhere: bool
) -> Rounds:
    """Ask the proxy for the fault again and again; between two faults searches that succeed."""
    upstream, through_port = ports
    done = Rounds()
    is_faulty = everywhere and name not in NO_ANSWER | INTERIM
    direct = await seen(upstream, query(name if is_faulty else "", everywhere=is_faulty))
    for mode in modes:
        for _ in range(max(1, rounds // 10) if name in SLOW else rounds):
            through = await seen(through_port, query(name, mode=mode, everywhere=everywhere))
            done.requested += 1
            if not judge(direct, through):
                done.wrong[f"{mode}: {through.kind} {(through.line or through.body).decode('latin-1')}"] += 1
            for _ in range(HEALTHY_BETWEEN if mode == "on" else 0):
                done.unwell += (await seen(through_port, query())).line != b"HTTP/1.1 200 OK"
    return done


async def prove(scale: Scale) -> list[Finding]:
    """Every fault; what was counted; what is held afterwards; and searches beside a storm of faults."""
    async with FaultyUpstream(planned) as upstream, proxy(upstream.url, environment=ENVIRONMENT) as running:
        ports, pid = (upstream.port, running.port), running.command.process.pid
        # What is kept of each collection is bounded, and is to be full before anything is measured: all faults twice, 28,000 collections each
        # time, took 26.3 MiB, then 0.1 MiB more.
        await widened(running, upstream, ports, max(1, scale.fault_rounds // 5))
        await asyncio.sleep(SETTLED_SECONDS)
        before = usage([pid])
        forget_peak(pid)
        findings = [
            *await widened(running, upstream, ports, scale.fault_rounds),
            *await everywhere(upstream, ports, max(1, scale.fault_rounds // 10)),
        ]
        storm = await alongside(running, scale)
        await asyncio.sleep(SETTLED_SECONDS)
        after = usage([pid])
    grown, peak = (after.resident - before.resident) / MIB, (after.peak - before.resident) / MIB
    descriptors, threads = after.descriptors - before.descriptors, after.threads - before.threads
    return [
        *findings,
        Finding(
            "F4", "memory after all faults, a fifth of them before", "≤ + 20 MiB", f"{grown:+.1f} MiB", grown <= 20
        ),
        Finding("F4", "peak of memory, bombs and 50 MB included", "≤ + 64 MiB", f"{peak:+.1f} MiB", peak <= 64),
        Finding("F4", "descriptors after all faults", "± 2", f"{descriptors:+d}", abs(descriptors) <= 2),
        Finding("F4", "threads after all faults", "± 2", f"{threads:+d}", abs(threads) <= 2),
        *storm,
    ]


async def widened(running: Proxy, upstream: FaultyUpstream, ports: tuple[int, int], rounds: int) -> Iterable[Finding]:
    """F1 and F6: faults of the widened request only."""
    findings, miscounted, times, unwell = [], [], 0, 0
    plans = [(name, is_direct, reason) for name, (_, reason) in WIDENED.items()]
    plans += [(name, is_direct_but_for_report, reason or "") for name, (_, reason) in VECTORS.items()]
    for name, judge, reason in plans:
        before = await running.failed_open()
        done = await play(ports, name, judge, rounds, modes=("on",), everywhere=False)
        counted = (await settled(running)) - before
        expected = Counter({reason: done.requested} if reason else {})
        if counted != expected:
            miscounted.append(f"{name}: {dict(counted)} for {done.requested} × {reason or 'none'}")
        times, unwell = times + done.requested, unwell + done.unwell
        upstream.requests.clear()
        findings.append(done.finding("F1", f"widened request: {name}", "100 % as direct, to the byte"))
    summary = f"{len(plans) - len(miscounted)} of {len(plans)} kinds, {times} faults" + "; ".join(["", *miscounted[:5]])
    what = "fail_open_total, each of the faults above"
    return [
        *findings,
        Finding("F6", what, "counted once, with its reason", summary, met=not miscounted),
        Finding("F1", "searches between two faults", "0 failed", f"{unwell} of {times * HEALTHY_BETWEEN}", not unwell),
    ]


async def everywhere(upstream: FaultyUpstream, ports: tuple[int, int], rounds: int) -> list[Finding]:
    """F2: faults of every answer, in every mode."""
    rows: dict[str, tuple[Rounds, str]] = {}
    groups: list[tuple[Iterable[str], Judge, str]] = [
        (NO_ANSWER, is_never_whole, "off, shadow, on: 502 of ours or a broken connection"),
        (
            [name for name in (*WIDENED, *CUT_BODIES) if name not in NO_ANSWER],
            is_as_broken,
            "off, shadow, on: as direct to the byte, or as broken",
        ),
        ((*ODD, "slow first byte"), is_fair, "off, shadow, on: fields, count and first result as direct"),
    ]
    for modes in (("on",), ("off", "shadow")):  # what shadow meets may open the breaker, and `on` is to meet it all
        for names, judge, criterion in groups:
            for name in sorted(names):
                done = await play(ports, name, judge, rounds, modes=modes, everywhere=True)
                upstream.requests.clear()
                rows.setdefault(name, (Rounds(), criterion))[0].add(done)
    return [done.finding("F2", f"every request: {name}", criterion) for name, (done, criterion) in rows.items()]


async def settled(running: Proxy) -> Counter[str]:
    """What is counted, once it no longer changes: a handler counts just after its answer has left."""
    seen_before: Counter[str] | None = None
    while (now := await running.failed_open()) != seen_before:
        seen_before = now
        await asyncio.sleep(0.05)
    return now


async def alongside(running: Proxy, scale: Scale) -> list[Finding]:
    """F5: searches at a fixed rate alone, then while faults come as fast as they are survived."""
    pool = Pool(running.port)
    kept = query().replace(b"Connection: close\r\n", b"")

    async def healthy() -> RequestRecorder:
        totals = RequestRecorder()
        count = int(50 * scale.load_seconds)
        await open_load(running.port, lambda _: kept, rate=50.0, count=count, heard=totals.heard, ask=pool.ask)
        return totals

    alone = await healthy()
    storm = asyncio.create_task(faults_forever(running.port))
    amid = await healthy()
    storm.cancel()
    (ended,) = await asyncio.gather(storm, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), f"the storm ended early: {ended!r}"
    await pool.close()
    calm, stormy = (1000 * totals.latency.percentile(0.99) for totals in (alone, amid))
    what = "searches at 50/s beside faults"
    return [
        Finding("F5", what, "0 failed", amid.words(), not amid.failed),
        Finding("F5", what, "p99 ≤ 2 × alone", f"{stormy:.1f} ms, alone {calm:.1f} ms", stormy <= 2 * calm),
    ]


async def faults_forever(port: int) -> None:
    """One fault after another, ten a second at most, without those that are large: two cores serve both."""
    names = [name for name in WIDENED if name not in {"50-MB", "gzip-bomb", "too-large"}]
    while True:
        for name in names:
            await asyncio.gather(seen(port, query(name)), asyncio.sleep(0.1))
