"""Ports for settings that must name them: free a moment ago, which on loopback is free enough."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> tuple[int, ...]:
    """So many different free ports of loopback."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return tuple(each.getsockname()[1] for each in sockets)
