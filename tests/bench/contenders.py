"""What is measured and what it is measured against, running before one upstream: VecSieve and the bare relay."""

from __future__ import annotations

import contextlib
import http.client
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import msgspec

from bench.load import Request
from bench.processes import free_port, listening, own_module

TOP_K = 10


class OtherSearchError(Exception):
    """The proxy answered, but not with a selected page: its figure would be a figure of something else."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, and the process whose memory counts."""

    port: int
    pid: int


class _Point(msgspec.Struct):
    id: int
    vector: object = None


class _Points(msgspec.Struct):
    points: list[_Point]


class _Reply(msgspec.Struct):
    result: _Points


@contextlib.contextmanager
def vecsieve(upstream_port: int) -> Iterator[Server]:
    """The proxy as a user starts it, selection on. Raises DidNotStartError."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("vecsieve")), "serve", "--mode", "on"]
    command += ["--upstream", f"http://127.0.0.1:{upstream_port}"]
    command += ["--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0"]
    with listening(command, port) as pid:
        yield Server(port, pid)


@dataclass(frozen=True, slots=True)
class Both:
    """A proxy's two ports."""

    http: Server
    grpc: Server


@contextlib.contextmanager
def vecsieve_grpc(upstream_port: int, grpc_upstream_port: int, *, mode: str) -> Iterator[Both]:
    """The proxy with a port for each transport. Raises DidNotStartError."""
    port, grpc_port = free_port(), free_port()
    command = [str(Path(sys.executable).with_name("vecsieve")), "serve", "--mode", mode]
    command += ["--upstream", f"http://127.0.0.1:{upstream_port}", "--grpc-upstream", f"127.0.0.1:{grpc_upstream_port}"]
    command += ["--listen", f"127.0.0.1:{port}", "--grpc-listen", f"127.0.0.1:{grpc_port}", "--admin", "127.0.0.1:0"]
    with listening(command, grpc_port) as pid:
        yield Both(Server(port, pid), Server(grpc_port, pid))


@contextlib.contextmanager
def grpc_relay(upstream_port: int) -> Iterator[Server]:
    """The least that a relay of grpc.aio can do. Raises DidNotStartError."""
    port = free_port()
    with listening(own_module("grpc_relay", str(port), str(upstream_port)), port) as pid:
        yield Server(port, pid)


@contextlib.contextmanager
def bare_relay(upstream_port: int) -> Iterator[Server]:
    """The least that an aiohttp relay can do. Raises DidNotStartError."""
    port = free_port()
    with listening(own_module("bare_relay", str(port), str(upstream_port)), port) as pid:
        yield Server(port, pid)


def ask(request: Request, port: int) -> bytes:
    """One request, its body. Raises OtherSearchError for any other status than 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"} if request.body else {}
        connection.request(request.method, request.path, body=request.body or None, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != 200:
        raise OtherSearchError(f"port {port} answered {answer.status} to {request.method} {request.path}")
    return body


def check_selected(body: bytes) -> None:
    """Ten points, without vectors, other than the pool's first ten: the copies among those were collapsed."""
    points = msgspec.json.decode(body, type=_Reply).result.points
    check_page([(point.id, point.vector is not None) for point in points])


def ask_grpc(request: Request, port: int) -> bytes:
    """One call, its message. Raises OtherSearchError for any other status than OK."""
    options = (("grpc.max_receive_message_length", -1),)
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(request.path)
        try:
            return call(request.body, timeout=10.0, wait_for_ready=True)
        except grpc.RpcError as error:
            raise OtherSearchError(f"port {port} answered {error} to {request.path}") from None


def check_page(points: Sequence[tuple[int, bool]]) -> None:
    """The same of points as they are told by their number and whether they came with vectors."""
    ids = [number for number, _ in points]
    if len(ids) != TOP_K or any(has_vectors for _, has_vectors in points):
        raise OtherSearchError(f"saw {len(ids)} points, wanted {TOP_K} without vectors")
    if ids == list(range(1, TOP_K + 1)):
        raise OtherSearchError("saw the pool's first ten, wanted a selection")
