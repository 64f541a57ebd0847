"""The embedded server for tests: in a process of its own, or in the running loop. Both always end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from vecsieve.proxy.embedded.server import EmbeddedServer, start

_END_SECONDS = 10
_PROGRAM = (
    "import pathlib, sys\n"
    "from vecsieve.proxy.embedded.server import run\n"
    "run(listen=sys.argv[1], path=pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None)\n"
)
_ANNOUNCEMENT = "vecsieve embedded listening on "


@contextmanager
def start_embedded_process(path: Path | None = None, *, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """The URL of a server in its own process on a free port; it has ended, with code 0, when the block is left."""
    command = [sys.executable, "-c", _PROGRAM, listen, *([] if path is None else [str(path)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(_ANNOUNCEMENT), f"the embedded server did not start: {line!r}"
            yield line.removeprefix(_ANNOUNCEMENT).strip()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            finally:
                process.kill()
    assert process.returncode == 0


@asynccontextmanager
async def embedded_server(path: Path | None = None, *, api_key: str | None = None) -> AsyncIterator[EmbeddedServer]:
    """A server in the running loop on a free port, closed when the block is left."""
    server = await start(host="127.0.0.1", port=0, path=path, api_key=api_key)
    try:
        yield server
    finally:
        await server.close()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One raw answer: what a client library would not show."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def exchange(
    url: str, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None
) -> Exchange:
    """Send one request on a connection of its own; `bytes` go out as they are, anything else as JSON."""
    sent = {"Content-Type": "application/json"} if body is not None else {}
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {**sent, "Content-Length": str(len(raw or b"")), **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders(raw)
        answer = connection.getresponse()
        return Exchange(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()
