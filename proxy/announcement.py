"""Where something listens, in the one form that people, scripts and tests read."""

from __future__ import annotations

import sys
from contextlib import suppress

from vecsieve.proxy.doors import Door


def announce_doors(doors: tuple[Door, ...], ports: tuple[int, ...], *, over_tls: bool) -> None:
    """Print the main port, each index's with the host that it leads to, and gRPC's own."""
    for number, (door, port) in enumerate(zip(doors, ports, strict=True)):
        announce(_told(door, is_main=number == 0), door.host, port, over_tls=over_tls)


def _told(door: Door, *, is_main: bool) -> str:
    if door.is_for_grpc:
        return "gRPC"
    return "listening" if is_main or door.index is None else f"index {door.index.authority}"


def announce(what: str, host: str, port: int, *, over_tls: bool) -> None:
    """Print `vecsieve serve listening on http://host:port`, with the port that was really bound.

    What cannot be printed, on a full disk or to a reader that is gone, is no reason not to serve.
    """
    scheme = "https" if over_tls else "http"
    name = f"[{host}]" if ":" in host else host
    with suppress(OSError):
        sys.stdout.write(f"vecsieve serve {what} on {scheme}://{name}:{port}\n")
        sys.stdout.flush()
