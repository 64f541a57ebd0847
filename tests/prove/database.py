"""A database in a process of its own, to be killed: answers searches, and writes a line for each write before it answers.

Usage: python -m prove.database PORT JOURNAL
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.processes import environment

from support.network.faulty_upstream import Received, Talk, reply
from support.network.ports import free_port
from support.qdrant.scripted import JSON, honest

DONE = reply(b'{"result":{"operation_id":1,"status":"completed"},"status":"ok","time":0.0}', headers=[JSON])
PLAIN = reply(b'{"result":{"collections":[]},"status":"ok","time":0.0}', headers=[JSON])


@dataclass
class Database:
    """The process, its port and its journal, which outlives it."""

    journal: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, again on the same port. Returns before it listens."""
        self.port = self.port or free_port()
        command = [sys.executable, "-m", "prove.database", str(self.port), str(self.journal)]
        self.process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def listening(self, seconds: float = 15.0) -> None:
        """Wait until it answers connections."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
        raise AssertionError(f"the database never listened on port {self.port}")

    def written(self) -> Counter[int]:
        """How often each write arrived."""
        return Counter(map(int, self.journal.read_text(encoding="ascii").split()))


def write(number: int) -> bytes:
    """A raw upsert that carries its number."""
    body = b'{"points":[{"id":%d,"vector":[1.0,0.0,0.0,0.0]}]}' % number
    head = b"PUT /collections/c/points HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\n"
    return head + b"x-number: %d\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body


async def serve(port: int, journal: Path) -> None:
    """Serve until killed."""
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def answer(received: Received) -> bytes:
        if received.line.startswith(b"PUT"):
            # The kernel has the line before the answer leaves: a SIGKILL loses nothing that was acknowledged.
            os.write(file, (received.header(b"x-number") or b"-1") + b"\n")
            return DONE
        return honest(received) if received.line.startswith(b"POST") else PLAIN

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        record: list[Received] = []
        one = Talk(reader, writer, 0, record)
        try:
            while (received := await one.request()) is not None:
                record.clear()
                await one.send(answer(received))
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
