"""S1: requests that two parsers read apart, each followed by a poisoned one: the database sees only what the client framed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prove.finding import Finding, Scale
from prove.security_corpus import POISON, PROBES, Probe
from prove.security_readers import READERS, Reader, Request, requests
from support.network.faulty_upstream import reply
from support.network.streams import serving
from support.process.running import running

MODES = ("off", "shadow", "on")
SETTINGS = b"\0\0\0\x04"  # how an answer in HTTP/2 begins
SLICES = (0, 1, 7)  # bytes a segment; 0: all at once. CVE-2026-54277 needed more than one segment
POISON_LINE = POISON.split(b"\r\n", 1)[0]
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")
TIMEOUT_SECONDS = 10.0
QUIET_SECONDS = 0.05  # a shadow measurement begins beside the answer


@dataclass
class Recorder:
    """A database that keeps every byte of each connection, and answers what its own reader takes for a request."""

    port: int = 0
    connections: list[bytearray] = field(default_factory=list)

    def since(self, marks: Sequence[int]) -> list[bytes]:
        """What came on each connection after it held so many bytes."""
        return [bytes(raw[(marks[n] if n < len(marks) else 0) :]) for n, raw in enumerate(self.connections)]

    def marks(self) -> list[int]:
        """How much each connection holds."""
        return [len(raw) for raw in self.connections]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends."""
        raw, answered = bytearray(), 0
        self.connections.append(raw)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                raw += data
                parsed, _ = requests(bytes(raw), READERS[0])
                writer.write(reply(b"seen") * (len(parsed) - answered))
                answered = len(parsed)
        writer.close()


@asynccontextmanager
async def recorder() -> AsyncIterator[Recorder]:
    """A recording database on a free port."""
    made = Recorder()
    async with serving(made.serve) as made.port:
        yield made


async def exchanged(port: int, data: bytes, *, slice_bytes: int = 0) -> bytes | None:
    """All that comes back on a connection of its own; None when it does not end.

    A bare socket: asyncio's streams drop the answer that has come when a late slice meets the closed connection.
    """
    loop, answer, step = asyncio.get_running_loop(), bytearray(), slice_bytes or len(data)
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(data), step):
                await loop.sock_sendall(client, data[start : start + step])
                await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while piece := await loop.sock_recv(client, 65_536):
                        answer += piece
            except TimeoutError:
                return None
    return bytes(answer)


def faults(probe: Probe, raws: Sequence[bytes], answer: bytes | None) -> list[str]:
    """What is wrong with what the database got (on each connection) and the client was told."""
    wrong = [] if answer is not None else ["the connection stays open"]
    statuses = [int(status) for status in STATUS.findall(answer or b"")]
    # The preface is refused in HTTP/2, which has no status, if it comes alone.
    is_http2 = probe.data.startswith(b"PRI ") and (answer or b"").startswith(SETTINGS)
    if probe.status is not None and not is_http2 and (len(statuses) != 1 or statuses[0] < 400):
        wrong.append(f"answered {statuses}, not refused")
    if probe.status is None and [status for status in statuses if status != 100] not in _answers(probe):
        wrong.append(f"answered {statuses}")
    for reader in READERS:
        parsed, left = [], []
        for raw in raws:
            whole, rest = requests(raw, reader)
            parsed += whole
            left.append(rest)
        wrong += _unframed(probe, parsed, reader)
        wrong += [f"{reader.name}: begins {rest[:40]!r}" for rest in left if rest and not _may_begin(probe, rest)]
    return wrong


def _answers(probe: Probe) -> list[list[int]]:
    whole = [200] * (len(probe.framed) + 1)
    return [whole, whole[1:]] if probe.may_be_last else [whole]


def _unframed(probe: Probe, parsed: Sequence[Request], reader: Reader) -> list[str]:
    """The requests that the client did not frame, and those that it did and that are missing."""
    expected = [(probe.line, content) for content in probe.framed]
    if probe.status is None:
        expected.append((POISON_LINE, b""))
    wrong = []
    for request in parsed:
        exact, rewritten = (request.line, request.content), (request.line, None)
        if exact in expected:
            expected.remove(exact)
        elif rewritten in expected:  # a widened request, its repetition, its shadow: each is this search
            continue
        else:
            wrong.append(f"{reader.name}: sees {request.line[:60]!r}")
        if request.line == POISON_LINE and request.names - {b"host", b"connection"}:
            wrong.append(f"{reader.name}: the poison carries {sorted(request.names)}")
    lines = {request.line for request in parsed}
    missing = [line for line, content in expected if content is not None or line not in lines]
    if probe.may_be_last and missing == [POISON_LINE]:
        return wrong
    return wrong + [f"{reader.name}: misses {line[:60]!r}" for line in missing]


def _may_begin(probe: Probe, rest: bytes) -> bool:
    return probe.begins and rest.startswith(probe.line)


async def prove(scale: Scale) -> list[Finding]:
    """Every probe in every mode, whole and in slices."""
    return [await corpus(mode, slices) for mode in MODES for slices in SLICES]


async def corpus(mode: str, slice_bytes: int, probes: Sequence[Probe] = PROBES) -> Finding:
    """All probes through one data plane; what one leaves behind in the pool would show in the next."""
    failed: dict[str, str] = {}
    async with recorder() as database, running(f"http://127.0.0.1:{database.port}", mode=mode) as proxy:
        for probe in probes:
            wrong = await probed(database, proxy.port, probe, slice_bytes=slice_bytes)
            if wrong:
                failed[probe.name] = wrong[0]
    how = f"in slices of {slice_bytes} B" if slice_bytes else "whole"
    details = "".join(f"; {name}: {wrong}" for name, wrong in failed.items())
    return Finding(
        "S1",
        f"{len(probes)} probes, {how}, mode {mode}",
        "0 requests unframed by the client; refused with a close",
        f"{len(failed)} of {len(probes)}{details}",
        not failed,
    )


async def probed(database: Recorder, port: int, probe: Probe, *, slice_bytes: int = 0) -> list[str]:
    """Send one probe and its poison; what was wrong."""
    marks = database.marks()
    answer = await exchanged(port, probe.data + POISON, slice_bytes=slice_bytes)
    if None in probe.framed:
        await asyncio.sleep(QUIET_SECONDS)
    return faults(probe, database.since(marks), answer)
