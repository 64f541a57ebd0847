"""Load on one server: its capacity with 8 keep-alive connections (wrk where present), its latency at a given rate."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench import http2
from bench.processes import environment, own_module

CONNECTIONS = 8
OPEN_CONNECTIONS = 64  # enough that a request hardly ever waits for a connection at half load
GRACE_SECONDS = 15.0

# wrk prints no machine-readable summary of its own; `done` does. A reply that is not 2xx counts as a failure.
WRK_SCRIPT = """
local file = io.open("%s", "rb")
wrk.method, wrk.body = "%s", file and file:read("*a") or nil
if file then wrk.headers["Content-Type"] = "application/json" end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\n{"replies":%%d,"failures":%%d,"reply_bytes":%%d,"seconds":%%.6f}\\n', summary.requests,
    e.connect + e.read + e.write + e.status + e.timeout, summary.bytes, summary.duration / 1e6))
end
"""


class MeasurementFailedError(Exception):
    """Requests failed under load: a rate of failures is no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, asked again and again. ``directory`` is where the generators' files go.

    ``is_grpc``: a call with the one message ``body``, to the method ``path``.
    """

    method: str
    path: str
    body: bytes
    directory: Path
    is_grpc: bool = False

    def raw(self) -> bytes:
        """The request as it goes over the wire; of a call, the frames."""
        if self.is_grpc:
            return http2.request(self.path, self.body)
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if self.body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n"
        return head.encode() + b"\r\n" + self.body


@dataclass(frozen=True, slots=True)
class Capacity:
    """Replies in all and per second, and the mean size of a reply with its head, in bytes."""

    replies: int
    per_second: float
    reply_bytes: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles from the moment a request was due, or in a closed loop was sent, in seconds."""

    p50: float
    p90: float
    p99: float


def generator_kind() -> str:
    """Which load generator measures the capacity for HTTP/1.1."""
    return "wrk" if shutil.which("wrk") else "own generator (wrk not found)"


def capacity(request: Request, port: int, *, seconds: int) -> Capacity:
    """Closed loop, 8 connections. Raises MeasurementFailedError when any request failed."""
    wrk = None if request.is_grpc else shutil.which("wrk")
    if wrk is None:
        outcome = _generate(request, port, seconds=seconds, rate=0, connections=CONNECTIONS)
    else:
        outcome = _wrk(wrk, request, port, seconds)
    _check(outcome)
    replies = int(outcome["replies"])
    return Capacity(replies, replies / outcome["seconds"], outcome["reply_bytes"] / replies)


def latency(request: Request, port: int, *, seconds: float, rate: float) -> Latency:
    """Open loop at ``rate`` per second. Raises MeasurementFailedError when any request failed."""
    return _latency(_generate(request, port, seconds=seconds, rate=rate, connections=OPEN_CONNECTIONS))


def closed_latency(request: Request, port: int, *, seconds: float, clients: int) -> Latency:
    """Closed loop: each of so many clients asks again as soon as it is answered. Raises MeasurementFailedError when any request failed."""
    return _latency(_generate(request, port, seconds=seconds, rate=0, connections=clients))


def _latency(outcome: dict[str, float]) -> Latency:
    _check(outcome)
    return Latency(outcome["p50"], outcome["p90"], outcome["p99"])


def _check(outcome: dict[str, float]) -> None:
    if outcome["failures"] or not outcome["replies"]:
        raise MeasurementFailedError(f"{outcome['failures']:.0f} failures beside {outcome['replies']:.0f} replies")


def _wrk(wrk: str, request: Request, port: int, seconds: int) -> dict[str, float]:
    body = request.directory / "load-body"
    body.unlink(missing_ok=True)
    if request.body:
        body.write_bytes(request.body)
    script = request.directory / "load.lua"
    script.write_text(WRK_SCRIPT % (body, request.method), encoding="utf-8")
    url = f"http://127.0.0.1:{port}{request.path}"
    printed = _output([wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), url], seconds)
    return _last_object(printed)


def _generate(
    request: Request, port: int, *, seconds: float, rate: float, connections: int
) -> dict[str, float]:  # the generator's arguments
    file = request.directory / "load-request"
    file.write_bytes(request.raw())
    protocol = "grpc" if request.is_grpc else "http"
    arguments = (str(port), str(file), str(connections), str(seconds), str(rate), protocol)
    return _last_object(_output(own_module("generator", *arguments), seconds))


def _output(command: list[str], seconds: float) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=seconds + GRACE_SECONDS, env=environment()
        )
    except subprocess.CalledProcessError as error:
        raise MeasurementFailedError(f"{command[0]} ended with {error.returncode}: {error.stderr[-1000:]}") from error
    return done.stdout


def _last_object(printed: str) -> dict[str, float]:
    outcome: dict[str, float] = json.loads(printed.strip().splitlines()[-1])
    return outcome
