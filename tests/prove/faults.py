"""F: every fault of the network before the database, in every mode; the client must see what a direct call shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from prove.finding import Finding, Scale
from prove.toxics import Toxic, ToxicRelay
from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk
from support.process.running import running
from support.qdrant.scripted import honest, request, search
from vecsieve.proxy.search.hedge import HEDGE_TIMES

MODES = ("off", "shadow", "on")
CLIENT_SECONDS = 1.5
QUERY = request(search())
Fault = tuple[Toxic | None, int, float]


def network_faults(*, bandwidth: int) -> tuple[Fault, ...]:
    """The original answer fits into 400 bytes and the widened one does not; 20 bytes cut any head."""
    return (
        (None, 1, 0.0),
        (Toxic.LATENCY, 1, 0.05),
        (Toxic.DOWN, 1, 0.0),
        (Toxic.BANDWIDTH, bandwidth, 0.0),
        (Toxic.SLOW_CLOSE, 1, 0.1),
        (Toxic.TIMEOUT, 1, 0.0),
        (Toxic.SLICER, 1, 0.0),
        (Toxic.LIMIT_DATA, 400, 0.0),
        (Toxic.LIMIT_DATA, 20, 0.0),
        (Toxic.RESET_PEER, 1, 0.0),
    )


FAULTS = network_faults(bandwidth=2_000)


HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
REPORT = b"x-vecsieve"  # the one field that an improved answer may have more
AT_ONCE = 20  # rounds side by side: a toxic that keeps silent takes its time once for all of them


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client saw: a whole answer, an answer of the proxy's own, a broken connection or silence.

    ``line``, ``headers``: of a whole answer, without what belongs to one hop; order, case and duplicates kept.
    """

    kind: str
    body: bytes = b""
    line: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def unexplained(self) -> Seen:
        """The same without the reason why the proxy left the search alone."""
        headers = (
            pair
            for pair in self.headers
            if pair[0].lower() != REPORT or not pair[1].startswith((b"bypass=", b"fail_open="))
        )
        return replace(self, headers=tuple(headers))

    def plainly(self) -> Seen:
        """The same without the proxy's report of what it left out."""
        return replace(self, headers=tuple(pair for pair in self.headers if pair[0].lower() != REPORT))


async def seen(port: int, raw: bytes = QUERY, *, seconds: float = CLIENT_SECONDS) -> Seen:
    """Ask once on a connection of its own."""
    client = None
    try:
        async with asyncio.timeout(seconds):
            client = await RawClient.connect(port)
            await client.send(raw)
            answer = await client.reply()
    except TimeoutError:
        return Seen("silence")
    except (OSError, asyncio.IncompleteReadError):
        return Seen("broken")
    finally:
        if client is not None:
            client.writer.close()
    if answer.header(b"x-vecsieve-origin") == b"proxy":
        return Seen("ours", str(answer.status).encode())
    headers = tuple(pair for pair in answer.headers if pair[0].lower() not in HOP_BY_HOP)
    return Seen("whole", answer.body, answer.line, headers)


def is_same(direct: Seen, through: Seen, distinct: Seen) -> bool:
    """Whether the proxy kept its promise. ``distinct``: the answer it gives when nothing fails."""
    if direct.kind == "whole":
        return through.unexplained() == direct or through.plainly() == distinct.plainly()
    if direct.kind == "silence":
        return through.kind == "silence" or through in (Seen("ours", b"504"), Seen("ours", b"502"))
    return through.kind == "broken" or through in (Seen("ours", b"502"), Seen("ours", b"504"))


async def once_a_connection(talk: Talk) -> None:
    """One answer, then the end: how much a connection has carried never depends on who used it before."""
    if (received := await talk.request()) is not None:
        await talk.send(honest(received).replace(b"\r\n", b"\r\nConnection: close\r\n", 1))


async def prove(scale: Scale) -> list[Finding]:
    """One finding for each fault and mode."""
    findings = []
    for mode in MODES:
        for toxic, size, seconds in FAULTS:
            findings.append(await fault(mode, toxic, size, seconds, rounds=scale.fault_rounds))
    return findings


async def fault(mode: str, toxic: Toxic | None, size: int, seconds: float, *, rounds: int) -> Finding:
    """Ask ``rounds`` times through a fresh proxy, beside as many direct questions."""
    async with (
        FaultyUpstream(once_a_connection) as upstream,
        ToxicRelay(upstream.port, size=size, seconds=seconds) as relay,
        running(
            f"http://127.0.0.1:{relay.port}",
            hedge_times=HEDGE_TIMES,
            limits={"attempt_timeout_seconds": 0.4},
            policy={"mode": mode},
        ) as proxy,
    ):
        distinct = await seen(proxy.port)
        relay.toxic = toxic
        different: list[str] = []
        for first in range(0, rounds, AT_ONCE):
            different += await differences(relay.port, proxy.port, distinct, min(AT_ONCE, rounds - first))
        last = f"; {different[-1]}" if different else ""
        measured = f"{rounds - len(different)} of {rounds}{last}"
        return Finding(
            "F1–F3",
            f"{named(toxic, size)}, mode {mode}",
            "100 % as direct: line, headers, body; no hang",
            measured,
            not different,
        )


def named(toxic: Toxic | None, size: int) -> str:
    return f"{toxic.value if toxic else 'no fault'}{f' {size} B' if toxic is Toxic.LIMIT_DATA else ''}"


async def differences(relay: int, proxy: int, distinct: Seen, rounds: int) -> list[str]:
    """What differed in so many rounds side by side."""
    pairs = await asyncio.gather(*(asyncio.gather(seen(relay), seen(proxy)) for _ in range(rounds)))
    return [
        f"direct {direct.kind}, through {through.kind}"
        for direct, through in pairs
        if not is_same(direct, through, distinct)
    ]
