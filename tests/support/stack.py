"""The real stack for integration tests: the command line's own processes on free ports, always ended."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

LISTENING = re.compile(r"vecsieve (\w+) (listening|admin) on (http://[\w.:\[\]]+)")
TIME = re.compile(rb'"time":[0-9.eE+-]+')


@dataclass(frozen=True, slots=True)
class Answer:
    """A raw HTTP answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def timeless(self) -> bytes:
        """The body with the one member that differs between two equal calls blanked."""
        return TIME.sub(b'"time":0', self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


def exchange(
    url: str, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """One request on its own connection, nothing added but what HTTP/1.1 demands."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, target, body=body, headers={**sent, **(headers or {})})
        reply = connection.getresponse()
        return Answer(reply.status, tuple(reply.getheaders()), reply.read())
    finally:
        connection.close()


@contextmanager
def command(*arguments: str, lines: int, environment: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Run a `vecsieve` command in its own process; yields role -> URL once it has printed ``lines`` of them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vecsieve.proxy", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        text=True,
    )
    try:
        yield _addresses(process, lines)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _addresses(process: subprocess.Popen[str], lines: int) -> dict[str, str]:
    found: dict[str, str] = {}
    seen: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        seen.append(line)
        if match := LISTENING.search(line):
            found[match[2] if match[2] == "admin" else match[1]] = match[3]
        if len(found) == lines:
            return found
    raise AssertionError("the command ended before it listened: " + "".join(seen))


@contextmanager
def embedded(*arguments: str) -> Iterator[str]:
    """The embedded engine's URL."""
    with command("embedded", "--listen", "127.0.0.1:0", *arguments, lines=1) as urls:
        yield urls["embedded"]


@contextmanager
def serve(upstream: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """The proxy's data and admin URLs."""
    with command(
        *("serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments),
        lines=2,
        environment=environment,
    ) as urls:
        yield urls["serve"], urls["admin"]
