"""Ports for settings that must name them: free a moment ago, and from where the kernel hands out none by itself."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

# Below Linux's ip_local_port_range (32768 to 60999), from which connections and `port 0` are served meanwhile.
LOWEST, COUNT = 20_000, 12_000


def free_ports(count: int) -> tuple[int, ...]:
    """So many different free ports of loopback."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_bound()) for _ in range(count)]
        return tuple(bound.getsockname()[1] for bound in sockets)


def free_port() -> int:
    return free_ports(1)[0]


def _bound() -> socket.socket:
    for port in _NEXT:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError:
            continue
    raise AssertionError("the ports never end")


def _ports() -> Iterator[int]:
    # Processes that test beside each other begin far apart.
    for step in itertools.count(os.getpid() * 97):
        yield LOWEST + step % COUNT


_NEXT = _ports()
