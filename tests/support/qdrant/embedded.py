"""The full embedded server of the tests: in a process of its own, or in the running loop. Both always end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, TextIO

from servers.qdrant.grpc_messages import Encoding
from servers.qdrant.server import QdrantServer, start

from support.process.forked import forking
from vecsieve.config.addresses import Address

_END_SECONDS = 30
_ANNOUNCEMENT = "vecsieve qdrant listening on "
_GRPC_ANNOUNCEMENT = "vecsieve qdrant gRPC on "


@contextmanager
def start_embedded_process() -> Iterator[str]:
    """The URL of a server in its own process on a free port; it has ended, with code 0, when the block is left."""
    with _process(announces=(_ANNOUNCEMENT,)) as (url,):
        yield url


@contextmanager
def start_embedded_grpc_process(*, encoding: Encoding = Encoding.ONEOF) -> Iterator[tuple[str, str]]:
    """Its URLs for REST and for gRPC; `encoding`: of the vectors in what gRPC answers."""
    arguments = ("--grpc-listen", "127.0.0.1:0", "--encoding", encoding)
    with _process(*arguments, announces=(_ANNOUNCEMENT, _GRPC_ANNOUNCEMENT)) as (url, grpc_url):
        yield url, grpc_url


@contextmanager
def _process(*arguments: str, announces: tuple[str, ...]) -> Iterator[list[str]]:
    with forking("qdrant", *arguments) as (process, printed):
        try:
            yield [_announced(printed, start) for start in announces]
        finally:
            process.terminate()
            process.wait(_END_SECONDS)
    assert process.returncode == 0


def _announced(printed: TextIO, start: str) -> str:
    line = printed.readline()
    assert line.startswith(start), f"the embedded server did not start: {line!r}"
    return line.removeprefix(start).strip()


@asynccontextmanager
async def embedded_server(
    *,
    api_key: str | None = None,
    with_grpc: bool = False,
) -> AsyncIterator[QdrantServer]:
    """A server in the running loop on a free port, on demand with another for gRPC, closed when the block is left."""
    grpc_address = Address("127.0.0.1", 0) if with_grpc else None
    server = await start(host="127.0.0.1", port=0, path=None, api_key=api_key, grpc_address=grpc_address)
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
