"""The ports that workers share, and the origins that requests go to."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from yarl import URL

from vecsieve.config.addresses import parse_address
from vecsieve.config.schema import Settings


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request goes: scheme and authority. ``authority``: host, and port unless it is the default of the scheme."""

    scheme: str
    authority: str

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of a URL from the settings, which were validated."""
        parsed = URL(url)
        return cls(parsed.scheme, parsed.host_port_subcomponent or "")

    @property
    def host(self) -> str:
        """The host without the port and without brackets."""
        return URL.build(scheme=self.scheme, authority=self.authority).host or ""

    def url(self, raw_target: str) -> URL:
        """The URL of a target on this origin, byte for byte."""
        # The whole target is passed as the path: yarl would drop the `?` of an empty query, and does not normalise here.
        return URL.build(scheme=self.scheme, authority=self.authority, path=raw_target, encoded=True)


# On the API's port: a client pools a few; separate from the limit of the data ports.
API_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class DataPort:
    """One data port: host and port to bind (0: any free port), or ``shared``, a socket that is already bound.

    ``is_for_api``: the API's port, which is shared and drained like a data port. ``index``: the index for plain paths; None for backends
    with one upstream, and if plain paths have no index. ``grpc``: the upstream of gRPC calls; None if gRPC is off. ``is_for_grpc``:
    announced as the gRPC port. ``flag``: the option that selects another port.
    """

    host: str
    port: int
    index: Origin | None = None
    grpc: Origin | None = None
    is_for_grpc: bool = False
    is_for_api: bool = False
    shared: socket.socket | None = None
    flag: str = "--listen HOST:PORT"


class UnusableAddressError(OSError):
    """An address that cannot be bound. The message names it and the remedy."""


_BIND_FAULTS = {
    errno.EADDRINUSE: "is in use",
    errno.EADDRNOTAVAIL: "is not an address of this machine",
    errno.EACCES: "may not be opened by this user",
}


@contextmanager
def binding(host: str, port: int, *, flag: str) -> Iterator[None]:
    """Raises UnusableAddressError for an OSError of the block. ``flag``: the option that selects another address."""
    try:
        yield
    except OSError as error:
        fault = _BIND_FAULTS.get(error.errno or 0, f"cannot be bound ({error.strerror or error})")
        name, role = f"[{host}]" if ":" in host else host, flag.split(maxsplit=1)[0].strip("-")
        raise UnusableAddressError(f"{name}:{port} {fault} ({role}). Choose another with {flag}.") from None


def data_ports_of(settings: Settings) -> tuple[DataPort, ...]:
    """The main port, then the ports of single indexes by number, then the gRPC port, then the API's."""
    at, indexes = parse_address(settings.listen), settings.indexes
    fixed = None if indexes is None or indexes.index_host is None else Origin.of(indexes.index_host)
    grpc = _grpc_of(settings, fixed)
    data_ports = [DataPort(at.host, at.port, fixed, grpc)]
    for port, url in () if indexes is None else sorted(indexes.index_ports.items()):
        data_ports.append(DataPort(at.host, port, Origin.of(url), Origin.of(url), flag="--index-port PORT=HOST"))
    if settings.grpc.listen is not None:
        apart = parse_address(settings.grpc.listen)
        data_ports.append(
            DataPort(apart.host, apart.port, fixed, grpc, is_for_grpc=True, flag="--grpc-listen HOST:PORT")
        )
    if settings.api.listen is not None:
        api = parse_address(settings.api.listen)
        data_ports.append(DataPort(api.host, api.port, is_for_api=True, flag="--api HOST:PORT"))
    return tuple(data_ports)


def _grpc_of(settings: Settings, fixed: Origin | None) -> Origin | None:
    """The upstream of gRPC calls that arrive on a port without an index."""
    if settings.grpc.upstream is not None:
        return Origin.of(settings.grpc.upstream)
    if settings.traits.shares_port:
        return Origin.of(settings.upstream.url)
    return fixed  # an index serves gRPC on the host of its REST paths
