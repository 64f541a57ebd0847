"""W: writes on dying connections, writes whose client goes, and large ones: each arrives once and as it was sent, or not at all"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator

from prove.finding import Finding, Scale
from prove.stack import Proxy, proxy
from prove.usage import MIB, forget_peak, usage
from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, header_list, reply

METHODS = (b"PUT", b"POST", b"DELETE", b"PATCH")
TARGET = b"/collections/c/points"
BLOCK = bytes(range(256)) * 1024
WHOLE_BYTES = 100_000
ABORTED_AT = (0, 1, 50_000, WHOLE_BYTES - 1)
SIZES = (0, 1, 1_000, 65_537, MIB, 4 * MIB + 1)  # then the largest of the run


async def prove(scale: Scale) -> list[Finding]:
    """A proxy of its own for each of the three."""
    return [
        await stale(max(2, scale.fault_rounds // 4)),
        *await aborted(max(2, scale.fault_rounds // 10)),
        *await large(scale),
    ]


async def answers_once_then_dies(talk: Talk) -> None:
    """The second request of a connection is read whole, then the connection ends."""
    if await talk.request() is not None:
        await talk.send(reply(b"ok"))
        await talk.request()


def written(method: bytes, number: int, body: bytes = b"{}") -> bytes:
    """A write that carries its number."""
    head = b"%s %s HTTP/1.1\r\nHost: c\r\nx-number: %d\r\nContent-Length: %d\r\n\r\n"
    return head % (method, TARGET, number, len(body)) + body


async def stale(rounds: int) -> Finding:
    """W1: pairs of writes; the second meets a connection that dies once it has been read."""
    async with FaultyUpstream(answers_once_then_dies) as upstream, proxy(upstream.url) as running:
        statuses: Counter[int] = Counter()
        for number in range(rounds * len(METHODS)):
            client = await RawClient.connect(running.port)
            for half in range(2):
                await client.send(written(METHODS[number % len(METHODS)], 2 * number + half))
                statuses[(await client.reply()).status] += 1
            await client.close()
        total = 2 * rounds * len(METHODS)
        return judged_once(upstream, total, f"{total} writes, each second one on a connection that dies", statuses)


def judged_once(upstream: FaultyUpstream, total: int, what: str, statuses: Counter[int]) -> Finding:
    """Whether each number arrived exactly once, and the trap was met at all."""
    times = Counter(received.header(b"x-number") for received in upstream.requests)
    once = sum(1 for one in times.values() if one == 1)
    measured = f"{once} of {total} ({', '.join(f'{count} × {status}' for status, count in sorted(statuses.items()))})"
    return Finding("W1", what, "each arrives exactly once", measured, met=once == total and len(statuses) > 1)


async def aborted(rounds: int) -> list[Finding]:
    """W3: the client goes within its body, by FIN and by RST, with a length and in chunks; then after it."""
    async with FaultyUpstream(takes_all) as upstream, proxy(upstream.url) as running:
        sent = 0
        for number in range(rounds):
            for size in ABORTED_AT:
                for is_chunked in (False, True):
                    await leave(running.port, started(size, is_chunked=is_chunked), is_reset=bool(number % 2))
                    sent += 1
        await asyncio.sleep(0.5)
        short = len(upstream.requests)
        upstream.requests.clear()
        for number in range(rounds):
            await leave(running.port, written(b"PUT", number, b"x" * WHOLE_BYTES), is_reset=bool(number % 2))
        await asyncio.sleep(0.5)
        times = Counter(received.header(b"x-number") for received in upstream.requests)
        bad = sum(1 for received in upstream.requests if len(received.content) != WHOLE_BYTES)
    twice = sum(1 for one in times.values() if one > 1)
    return [
        Finding("W3", f"{sent} clients that go within their body", "0 bodies taken for whole", str(short), not short),
        Finding(
            "W3",
            f"{rounds} clients that go after their body",
            "the full write once, or not at all",
            f"{len(times)} arrived, {twice} twice, {bad} not whole",
            met=not twice and not bad,
        ),
    ]


async def takes_all(talk: Talk) -> None:
    """Every request, answered late enough for its client to be gone."""
    while await talk.request() is not None:
        await asyncio.sleep(0.02)
        await talk.send(reply(b"ok"))


def started(size: int, *, is_chunked: bool) -> bytes:
    """A write of which only so many bytes of the body follow."""
    framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % WHOLE_BYTES
    head = b"PUT %s HTTP/1.1\r\nHost: c\r\n%s\r\n\r\n" % (TARGET, framing)
    return head + (b"%x\r\n" % WHOLE_BYTES if is_chunked else b"") + b"x" * size


async def leave(port: int, raw: bytes, *, is_reset: bool) -> None:
    """Send, wait a moment, and go."""
    client = await RawClient.connect(port)
    await client.send(raw)
    await asyncio.sleep(0.01)
    if is_reset:
        client.reset()
    else:
        await client.close()


async def large(scale: Scale) -> list[Finding]:
    """W4: bodies of every size through one process."""
    async with FaultyUpstream(hashes) as upstream, proxy(upstream.url) as running:
        pid = running.command.process.pid
        await uploaded(running, 4 * MIB, is_chunked=True)
        before = usage([pid]).resident
        forget_peak(pid)
        sizes = [*SIZES, scale.largest_body_bytes]
        wrong = [
            f"{size} B{', chunked' if is_chunked else ''}"
            for size in sizes
            for is_chunked in (False, True)
            if not await uploaded(running, size, is_chunked=is_chunked)
        ]
        grown = (usage([pid]).peak - before) / MIB
    count = 2 * len(sizes)
    what = f"bodies of 0 B to {scale.largest_body_bytes // MIB} MiB, with a length and in chunks"
    measured = f"{count - len(wrong)} of {count}{'; ' if wrong else ''}{', '.join(wrong)}"
    return [
        Finding("W4", what, "100 % arrive as sent, by their hash", measured, met=not wrong),
        Finding("W4", what, "memory grows ≤ 16 MiB", f"{grown:.1f} MiB at the peak", grown <= 16),
    ]


async def uploaded(running: Proxy, size: int, *, is_chunked: bool) -> bool:
    """Whether the upstream answers with the hash of what was sent."""
    framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % size
    client, whole = await RawClient.connect(running.port), hashlib.sha256()
    await client.send(b"PUT %s HTTP/1.1\r\nHost: c\r\n%s\r\n\r\n" % (TARGET, framing))
    for start in range(0, size, len(BLOCK)):
        piece = BLOCK[: size - start]
        whole.update(piece)
        await client.send(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
    if is_chunked:
        await client.send(b"0\r\n\r\n")
    answer = await client.reply()
    await client.close()
    return answer.body == whole.hexdigest().encode()


async def hashes(talk: Talk) -> None:
    """Answers each body with its hash, holding none."""
    while (head := await talk.head()) is not None:
        whole = hashlib.sha256()
        async for piece in pieces(talk.reader, dict(header_list(head.lower()))):
            whole.update(piece)
        await talk.send(reply(whole.hexdigest().encode()))


async def pieces(reader: asyncio.StreamReader, fields: dict[bytes, bytes]) -> AsyncIterator[bytes]:
    """A body, as it comes. Raises IncompleteReadError when it is cut."""
    is_chunked = fields.get(b"transfer-encoding") == b"chunked"
    left = 0 if is_chunked else int(fields.get(b"content-length", b"0"))
    while left or is_chunked:
        if is_chunked and not left:
            left = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if not left:
                await reader.readexactly(2)
                return
        piece = await reader.read(min(left, 65_536))
        if not piece:
            raise asyncio.IncompleteReadError(piece, left)
        left -= len(piece)
        yield piece
        if is_chunked and not left:
            await reader.readexactly(2)
