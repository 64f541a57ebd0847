"""A peer that floods one connection for so long, in a process of its own, and comes back at once when it is cut.

``python -m prove.flooder PORT NAME SECONDS [waits]`` says "ready" and waits for a line if it is to wait; it prints how often it was cut, how many of these with a goodbye, and what it sent.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time

from support.network.floods import FLOODS, Flood

RECEIVE_BYTES = 1 << 18
POLL_SECONDS = 0.2
LAST_SECONDS = 1.0  # for what is on its way when a connection ends
GOAWAY_CALM = b"\x07\x00\x00\x00\x00\x00"  # the type, no flags, stream 0
CALM = b"\x00\x00\x00\x0b"  # ENHANCE_YOUR_CALM


class Invalidation:
    """What came back on one connection, as far as it says goodbye."""

    def __init__(self, flood: Flood) -> None:
        self._is_http2 = flood.is_http2
        self._last = b""

    def take(self, data: bytes) -> None:
        """Some of it."""
        self._last = (self._last + data)[-4096:]

    @property
    def is_goodbye(self) -> bool:
        """Whether the connection ended in the protocol's own words."""
        if self._is_http2:
            return GOAWAY_CALM in self._last and CALM in self._last
        return b"HTTP/1.1 4" in self._last


def flooded(port: int, flood: Flood, until: float) -> tuple[bool, bool, int]:
    """One connection: whether it was cut, whether with a goodbye, and how much was sent."""
    heard, sent = Invalidation(flood), 0
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setblocking(False)
        try:
            peer.sendall(flood.beginning)
            for block in flood.more():
                for piece in (block[at : at + 1] for at in range(len(block))) if flood.is_slow else (block,):
                    sent += _sent(peer, piece, heard, until)
                if time.monotonic() >= until:
                    return False, False, sent
        except (ConnectionError, EOFError):
            peer.settimeout(LAST_SECONDS)
            with contextlib.suppress(OSError):
                while data := peer.recv(RECEIVE_BYTES):
                    heard.take(data)
            return True, heard.is_goodbye, sent
    raise AssertionError("a flood has no end")


def _sent(peer: socket.socket, piece: bytes, heard: Invalidation, until: float) -> int:
    """Send all of it and take what has come meanwhile. Raises EOFError when the other side has ended."""
    view = memoryview(piece)
    while view and time.monotonic() < until:
        readable, writable, _ = select.select([peer], [peer], [], POLL_SECONDS)
        if readable:
            if not (data := peer.recv(RECEIVE_BYTES)):
                raise EOFError
            heard.take(data)
        if writable:
            view = view[peer.send(view) :]
    return len(piece) - len(view)


def main() -> None:
    """The command line."""
    os.nice(19)  # an attacker has a machine of its own
    port, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    flood = next(flood for flood in FLOODS if flood.name == name)
    if sys.argv[4:] == ["waits"]:
        print("ready", flush=True)
        sys.stdin.readline()
    until, cuts, goodbyes, sent = time.monotonic() + seconds, 0, 0, 0
    while time.monotonic() < until:
        try:
            was_cut, is_goodbye, more = flooded(port, flood, until)
        except OSError:
            continue
        cuts, goodbyes, sent = cuts + was_cut, goodbyes + is_goodbye, sent + more
    print(cuts, goodbyes, sent, flush=True)


if __name__ == "__main__":
    main()
