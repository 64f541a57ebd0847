"""F: every fault of the network before the database, in every mode; the client must see what a direct call shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from prove.finding import Finding, Scale
from prove.toxics import Toxic, ToxicRelay
from support.faultup import FaultyUpstream, RawClient, Talk
from support.running import running
from support.scripted_qdrant import honest, request, search

MODES = ("off", "shadow", "on")
CLIENT_SECONDS = 1.5
ASKED = request(search())
# The original answer fits into 400 bytes and the widened one does not; 20 bytes cut any head.
FAULTS: tuple[tuple[Toxic | None, int, float], ...] = (
    (None, 1, 0.0),
    (Toxic.LATENCY, 1, 0.05),
    (Toxic.DOWN, 1, 0.0),
    (Toxic.BANDWIDTH, 2_000, 0.0),
    (Toxic.SLOW_CLOSE, 1, 0.1),
    (Toxic.TIMEOUT, 1, 0.0),
    (Toxic.SLICER, 1, 0.0),
    (Toxic.LIMIT_DATA, 400, 0.0),
    (Toxic.LIMIT_DATA, 20, 0.0),
    (Toxic.RESET_PEER, 1, 0.0),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client saw: a whole answer, an answer of the proxy's own, a broken connection or silence."""

    kind: str
    body: bytes = b""


async def seen(port: int) -> Seen:
    """Ask once on a connection of its own."""
    client = None
    try:
        async with asyncio.timeout(CLIENT_SECONDS):
            client = await RawClient.connect(port)
            await client.send(ASKED)
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
    return Seen("whole", answer.body)


def is_same(direct: Seen, through: Seen, distinct: bytes) -> bool:
    """Whether the proxy kept its promise. ``distinct``: the answer it gives when nothing fails."""
    if direct.kind == "whole":
        return through.kind == "whole" and through.body in (direct.body, distinct)
    if direct.kind == "silence":
        return through.kind == "silence" or through in (Seen("ours", b"504"), Seen("ours", b"502"))
    return through.kind == "broken" or through in (Seen("ours", b"502"), Seen("ours", b"504"))


async def once_a_connection(talk: Talk) -> None:
    """One answer, then the end: how much a connection has carried never depends on who used it before."""
    if (received := await talk.request()) is not None:
        await talk.send(honest(received).replace(b"\r\n", b"\r\nConnection: close\r\n", 1))


async def prove(scale: Scale) -> list[Finding]:
    """One finding for each fault and mode."""
    found = []
    for mode in MODES:
        for toxic, size, seconds in FAULTS:
            found.append(await fault(mode, toxic, size, seconds, rounds=scale.fault_rounds))
    return found


async def fault(mode: str, toxic: Toxic | None, size: int, seconds: float, *, rounds: int) -> Finding:
    """Ask ``rounds`` times through a fresh proxy, beside as many direct questions."""
    async with (
        FaultyUpstream(once_a_connection) as upstream,
        ToxicRelay(upstream.port, size=size, seconds=seconds) as relay,
        running(
            f"http://127.0.0.1:{relay.port}", limits={"attempt_timeout_seconds": 0.4}, policy={"mode": mode}
        ) as proxy,
    ):
        distinct = (await seen(proxy.port)).body
        relay.toxic = toxic
        different = []
        for _ in range(rounds):
            direct, through = await asyncio.gather(seen(relay.port), seen(proxy.port))
            if not is_same(direct, through, distinct):
                different.append(f"direct {direct.kind}, through {through.kind}")
        name = f"{toxic.value if toxic else 'no fault'}{f' {size} B' if toxic is Toxic.LIMIT_DATA else ''}"
        last = f"; {different[-1]}" if different else ""
        measured = f"{rounds - len(different)} of {rounds}{last}"
        return Finding("F1–F3", f"{name}, mode {mode}", "100 % as direct, no hang", measured, not different)
