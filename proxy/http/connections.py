"""The open client connections of one process: how many, which are idle, and when they have to go.

Up to 80 % of the limit nothing happens. Above it every newcomer costs the oldest idle connection its place and every
answer says `Connection: close`. At the limit newcomers are accepted and closed at once: a refused client knows
immediately, one left in the backlog would wait for its own timeout.
"""

from __future__ import annotations

from typing import Protocol

from vecsieve.proxy.http.events import Events

CROWDED_SHARE = 0.8  # Envoy's overload actions begin at 95 %; a process of 4096 needs the warning earlier


class Connection(Protocol):
    """What the ledger asks of a connection."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received, handled or answered."""
        ...

    def leave(self) -> None:
        """Close now: the connection is idle."""
        ...


class Connections:
    """The ledger."""

    def __init__(self, *, limit: int, events: Events) -> None:
        self._limit = limit
        self._crowd = max(1, int(limit * CROWDED_SHARE))
        self._events = events
        # A dict for its order: oldest first, so that it is the same one that goes each time.
        self._open: dict[Connection, None] = {}
        self._is_draining = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def must_close(self) -> bool:
        """Whether answers are to end their connections: too many are open, or the process is leaving."""
        return self._is_draining or len(self._open) > self._crowd

    def admit(self, connection: Connection) -> bool:
        """Enter a new connection; False when it is to be closed at once."""
        if len(self._open) >= self._crowd:
            self._make_room()
        if len(self._open) >= self._limit:
            self._events.connection_rejected("limit")
            return False
        self._open[connection] = None
        self._events.connections_changed(len(self._open))
        return True

    def forget(self, connection: Connection) -> None:
        """Strike a closed connection off. One that was turned away was never entered."""
        if connection in self._open:
            del self._open[connection]
            self._events.connections_changed(len(self._open))

    def drain(self) -> None:
        """From now on every answer ends its connection.

        Idle ones stay: a request may be on its way on any of them, and whoever closes first resets it.
        """
        self._is_draining = True

    def dismiss(self) -> None:
        """The idle ones leave at once."""
        for connection in [each for each in self._open if each.is_idle]:
            connection.leave()

    def _make_room(self) -> None:
        idle = next((each for each in self._open if each.is_idle), None)
        if idle is not None:
            self._events.connection_rejected("crowded")
            self.forget(idle)
            idle.leave()
