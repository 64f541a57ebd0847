"""The open client connections of one process: how many, which may leave, and when they have to go.

A connection is new until its first request head is whole. Of the others up to 80 % of the limit nothing happens; above it
each first request costs the oldest idle connection its place, and every answer says `Connection: close`. New ones cost nobody
anything until the limit is reached: then the oldest gives its place to a newcomer, once it had time to ask something. So a
crowd that only connects takes no place from clients that are served. Who finds no place is accepted and closed at once: a
refused client knows immediately, one left in the backlog would wait for its own timeout.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Protocol

from vecsieve.proxy.http.events import Events
from vecsieve.proxy.search.errors import Trouble

CROWDED_SHARE = 0.8  # Envoy's overload actions begin at 95 %; a process of 4096 needs the warning earlier
NEW_SECONDS = 1.0  # a client that connects to ask something has asked by then
# How many connections are looked at for an idle one: looking at 4,096 for each newcomer would hold the loop.
LOOKED_AT = 64


class Connection(Protocol):
    """What the ledger asks of a connection."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received, handled or answered, and at least one has been."""
        ...

    def leave(self) -> None:
        """Close now: the connection is idle, or has asked nothing for too long."""
        ...


class Connections:
    """The ledger. ``clock``: monotonic seconds."""

    def __init__(self, *, limit: int, events: Events, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._crowd = max(1, int(limit * CROWDED_SHARE))
        self._events = events
        self._clock = clock
        # A dict for its order: oldest first, so that it is the same one that goes each time.
        self._open: dict[Connection, None] = {}
        self._new: dict[Connection, float] = {}  # since when
        self._is_draining = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def must_close(self) -> bool:
        """Whether answers are to end their connections: too many are in use, or the process is leaving."""
        return self._is_draining or self._in_use > self._crowd

    def admit(self, connection: Connection) -> bool:
        """Enter a new connection; False when it is to be closed at once."""
        if len(self._open) >= self._limit:
            self._make_room()
        if len(self._open) >= self._limit:
            self._events.connection_rejected("limit")
            return False
        self._open[connection] = None
        self._new[connection] = self._clock()
        self._events.connections_changed(len(self._open))
        return True

    def asked(self, connection: Connection) -> None:
        """A whole request head has come on it. Only the first counts."""
        if self._new.pop(connection, None) is not None and self._in_use > self._crowd:
            self._dismiss_idle()

    def forget(self, connection: Connection) -> None:
        """Strike a closed connection off. One that was turned away was never entered."""
        if connection in self._open:
            del self._open[connection]
            self._new.pop(connection, None)
            self._events.connections_changed(len(self._open))

    def cut_flood(self) -> None:
        """A connection is cut because it sends more than it may."""
        self._events.connection_rejected("flood")

    def refused_message(self) -> None:
        """A gRPC message inflates to more than is taken."""
        self._events.answered_locally(Trouble.INFLATES.value)

    def drain(self) -> None:
        """From now on every answer ends its connection.

        Idle ones stay: a request may be on its way on any of them, and whoever closes first resets it.
        """
        self._is_draining = True

    def dismiss(self) -> None:
        """The idle ones leave at once."""
        for connection in [each for each in self._open if each.is_idle]:
            connection.leave()

    @property
    def _in_use(self) -> int:
        return len(self._open) - len(self._new)

    def _make_room(self) -> None:
        oldest = next(iter(self._new.items()), None)
        if oldest is None:
            self._dismiss_idle()
        elif self._clock() - oldest[1] >= NEW_SECONDS:
            self._dismiss(oldest[0])

    def _dismiss_idle(self) -> None:
        """The oldest idle one leaves, when there is one among those looked at; busy ones are looked at last the next time."""
        for connection in list(itertools.islice(self._open, LOOKED_AT)):
            if connection.is_idle:
                self._dismiss(connection)
                return
            del self._open[connection]
            self._open[connection] = None

    def _dismiss(self, connection: Connection) -> None:
        self._events.connection_rejected("crowded")
        self.forget(connection)
        connection.leave()
