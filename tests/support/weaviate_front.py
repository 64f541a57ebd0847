"""The proxy in front of an emulated Weaviate: where clients are pointed, and raw calls there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from support.grpc_asking import Pairs, Seen
from support.grpc_stack import Asker
from support.stack import command
from support.weaviate_server import Weaviate
from support.weaviate_talks import PATH


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client is pointed: a port for REST, and another for gRPC. ``admin``: the proxy's own."""

    rest: str
    grpc: str
    admin: str = ""


def direct(server: Weaviate) -> Place:
    """Without the proxy."""
    return Place(server.url, server.grpc)


@contextmanager
def fronted(server: Weaviate, mode: str | None, *options: str) -> Iterator[Place]:
    """The proxy in front of the emulator, for the block. ``mode``: None leaves it to the policies."""
    ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
    upstream = ("--upstream", server.url, "--grpc-upstream", server.grpc)
    modes = () if mode is None else ("--mode", mode)
    with command("serve", "--backend", "weaviate", *modes, *ports, *upstream, *options) as running:
        urls = running.addresses(3)
        yield Place(urls["serve"], urls["gRPC"].removeprefix("http://"), urls["admin"])


def answered(place: Place, messages: list[bytes], metadata: Pairs = ()) -> list[Seen]:
    """What comes of these searches."""
    with Asker(place.grpc) as asker:
        return [asker.raw(PATH, message, metadata=metadata) for message in messages]


def plain(seen: list[Seen]) -> list[Any]:
    """Without the metadata, in which the proxy says what it did."""
    return [(each.messages, each.code, each.details) for each in seen]
