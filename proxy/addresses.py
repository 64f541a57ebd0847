"""The data ports of one process: where each is, and which index stands behind it."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from yarl import URL

from vecsieve.config.addresses import parse_address
from vecsieve.config.schema import Settings

# Where a request goes: scheme and authority, nothing of the path.


@dataclass(frozen=True, slots=True)
class Origin:
    """``authority``: host and, unless it is the scheme's own, port, as the `Host` field has them."""

    scheme: str
    authority: str

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of a URL from the settings: scheme, host and port were checked there."""
        parsed = URL(url)
        return cls(parsed.scheme, parsed.host_port_subcomponent or "")

    @property
    def host(self) -> str:
        """The host alone, as a resolver is asked for it."""
        return URL.build(scheme=self.scheme, authority=self.authority).host or ""

    def url(self, raw_target: str) -> URL:
        """The URL of a target here, byte for byte."""
        # The whole target stands in the path: yarl would drop the `?` of an empty query, and normalises nothing here.
        return URL.build(scheme=self.scheme, authority=self.authority, path=raw_target, encoded=True)


@dataclass(frozen=True, slots=True)
class DataPort:
    """One data port: what to bind, 0 for any free port, or ``shared``, a socket that is bound there already.

    ``index``: what plain paths of an index lead to here; None where they lead nowhere, and for backends with one upstream.
    ``grpc``: where gRPC calls go from here; None where none is spoken. ``is_for_grpc``: what the port is told of as.
    """

    host: str
    port: int
    index: Origin | None = None
    grpc: Origin | None = None
    is_for_grpc: bool = False
    shared: socket.socket | None = None


def doors_of(settings: Settings) -> tuple[DataPort, ...]:
    """The main port first, then those that lead to one index each, by number, then gRPC's own."""
    at, own = parse_address(settings.listen), settings.indexes
    fixed = None if own is None or own.index_host is None else Origin.of(own.index_host)
    grpc = _grpc_of(settings, fixed)
    doors = [DataPort(at.host, at.port, fixed, grpc)]
    for port, url in () if own is None else sorted(own.index_ports.items()):
        doors.append(DataPort(at.host, port, Origin.of(url), Origin.of(url)))
    if settings.grpc.listen is not None:
        apart = parse_address(settings.grpc.listen)
        doors.append(DataPort(apart.host, apart.port, fixed, grpc, is_for_grpc=True))
    return tuple(doors)


def _grpc_of(settings: Settings, fixed: Origin | None) -> Origin | None:
    """Where gRPC calls go that come in by a port of no index."""
    if settings.grpc.upstream is not None:
        return Origin.of(settings.grpc.upstream)
    if settings.traits.shares_port:
        return Origin.of(settings.upstream.url)
    return fixed  # an index answers gRPC at the host of its REST paths
