"""Load on one server: closed loops of many different requests on keep-alive connections, and what they cost a process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench import http2
from bench.generator import packed
from bench.processes import cpu_seconds, environment, project_module

CONNECTIONS = 8
GRACE_SECONDS = 60.0

Order = Literal["turn", "zipf"]


class MeasurementFailedError(Exception):
    """Requests failed under load: a rate of failures is no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``is_grpc``: a call with the one message ``body``, to the method ``path``."""

    method: str
    path: str
    body: bytes
    is_grpc: bool = False

    def raw(self) -> bytes:
        """The request as it goes over the wire; of a call, the frames."""
        if self.is_grpc:
            return http2.request(self.path, self.body)
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if self.body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n"
        return head.encode() + b"\r\n" + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is asked: these requests, in turn or by Zipf's law, on so many connections."""

    requests: Sequence[Request]
    order: Order = "turn"
    connections: int = CONNECTIONS
    _file: list[tempfile._TemporaryFileWrapper[bytes]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The file of the requests, written once; it goes with the script."""
        if not self._file:
            written = tempfile.NamedTemporaryFile(prefix="bench-")  # noqa: SIM115 - lives as long as the script
            written.write(packed([request.raw() for request in self.requests]))
            written.flush()
            self._file.append(written)
        return Path(self._file[0].name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Replies in all and per second, the mean size of a reply with its head, percentiles of the latency in ms.

    ``cpu_ms``: processor time per request of the process that was asked, user and system; nan when none was named.
    """

    replies: int
    per_second: float
    reply_bytes: float
    p50: float
    p99: float
    cpu_ms: float


def capacity(request: Request, port: int, *, seconds: int) -> Outcome:
    """One request again and again. Raises MeasurementFailedError when any failed."""
    return ask(Script(requests=[request]), port, seconds=seconds)


def ask(
    script: Script, port: int, *, seconds: float = 60.0, count: int = 0, seed: int = 0, pid: int | None = None
) -> Outcome:  # the generator's arguments
    """A closed loop. Raises MeasurementFailedError when any request failed."""
    protocol = "grpc" if script.requests[0].is_grpc else "http"
    command = project_module(
        "generator", *map(str, (port, script.path, script.connections, seconds, count, script.order, seed, protocol))
    )
    before = cpu_seconds(pid) if pid else 0.0
    seen = _output(command, seconds)
    used = cpu_seconds(pid) - before if pid else float("nan")
    if seen["failures"] or not seen["replies"]:
        raise MeasurementFailedError(f"{seen['failures']:.0f} failures beside {seen['replies']:.0f} replies")
    replies = int(seen["replies"])
    return Outcome(
        replies,
        replies / seen["seconds"],
        seen["reply_bytes"] / replies,
        seen["p50"] * 1e3,
        seen["p99"] * 1e3,
        used / replies * 1e3,
    )


def _output(command: list[str], seconds: float) -> dict[str, float]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=seconds + GRACE_SECONDS, env=environment()
        )
    except subprocess.CalledProcessError as error:
        raise MeasurementFailedError(f"{command[2]} ended with {error.returncode}: {error.stderr[-1000:]}") from error
    outcome: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return outcome
