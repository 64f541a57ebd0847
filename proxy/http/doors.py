"""The data ports of one process: where each is, and which index stands behind it."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from vecsieve.config.addresses import parse_address
from vecsieve.config.schema import Settings
from vecsieve.proxy.http.origin import Origin


@dataclass(frozen=True, slots=True)
class Door:
    """One data port: what to bind, 0 for any free port, or ``shared``, a socket that is bound there already.

    ``index``: what plain paths of an index lead to here; None where they lead nowhere, and for backends with one upstream.
    """

    host: str
    port: int
    index: Origin | None = None
    shared: socket.socket | None = None


def doors_of(settings: Settings) -> tuple[Door, ...]:
    """The main port first, then those that lead to one index each, by number."""
    at, own = parse_address(settings.listen), settings.pinecone
    if settings.backend != "pinecone":
        return (Door(at.host, at.port),)
    fixed = None if own.index_host is None else Origin.of(own.index_host)
    others = sorted(own.index_ports.items())
    return (Door(at.host, at.port, fixed), *(Door(at.host, port, Origin.of(url)) for port, url in others))
