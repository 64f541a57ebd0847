"""The proxy in front of a Weaviate: where clients are pointed, and raw calls there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from support.grpc.calls import Pairs, Seen
from support.grpc.stack import Asker
from support.process.stack import command
from support.weaviate.conversations import PATH


class Server(Protocol):
    """A Weaviate, real or emulated: where it speaks REST (URL) and gRPC (host and port)."""

    @property
    def url(self) -> str: ...
    @property
    def grpc(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client is pointed: a port for REST, and another for gRPC. ``admin``: the proxy's own."""

    rest: str
    grpc: str
    admin: str = ""


def direct(server: Server) -> Place:
    """Without the proxy."""
    return Place(server.url, server.grpc)


@contextmanager
def fronted(server: Server, mode: str | None, *options: str) -> Iterator[Place]:
    """The proxy in front of it, for the block. ``mode``: None leaves it to the policies."""
    ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
    upstream = ("--upstream", server.url, "--grpc-upstream", server.grpc)
    modes = () if mode is None else ("--mode", mode)
    with command("serve", "--backend", "weaviate", *modes, *ports, *upstream, *options) as running:
        urls = running.addresses(3)
        yield Place(urls["serve"], urls["gRPC"].removeprefix("http://"), urls["admin"])


def answered(place: Place, messages: list[bytes], metadata: Pairs = (), *, path: str = PATH) -> list[Seen]:
    """What comes of these searches, or calls of another path."""
    with Asker(place.grpc) as asker:
        return [asker.raw(path, message, metadata=metadata) for message in messages]


def plain(seen: Iterable[Seen]) -> list[Any]:
    """Without the metadata, in which the proxy says what it did."""
    return [(call.messages, call.code, call.details) for call in seen]
