"""The open client connections of one process: how many there are, which must close, and how old connections may become.

A connection is new until its first request head is complete. Up to 80 % of the limit nothing happens. Above it each first request closes
the oldest idle connection, and every answer says `Connection: close`. At the limit the oldest new connection is replaced if it had
NEW_SECONDS to send a request. So connections without requests take no place from clients with requests. A connection without a place is
accepted and closed at once: the client knows immediately, while one left in the backlog would wait for its own timeout.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from ..search.errors import Trouble
from ..search.limits import spread
from ..telemetry.labels import LocalError
from ..telemetry.metrics import Metrics

CROWDED_SHARE = 0.8  # Envoy's overload actions begin at 95 %; a process with 4096 connections needs them earlier
NEW_SECONDS = 1.0  # a client that connects to send a request has sent it by then
# How many connections are checked for an idle one: checking 4,096 for each new one would block the loop.
LOOKED_AT = 64


JITTER = 0.1  # as gRPC's core does
NEVER = float("inf")


class Ages:
    """Sets the end of each new connection, spread by ± 10 %. ``seconds``: None: never. ``clock``: monotonic seconds.

    Old connections do not spread over new replicas and stay on removed addresses.
    """

    __slots__ = ("_clock", "_count", "_seconds", "_spread")

    def __init__(self, seconds: float | None, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._count = 0
        self._spread = spread(0)

    def end(self) -> float:
        """When a connection made now is to end, by the clock."""
        if self._seconds is None:
            return NEVER
        self._count += 1
        return self._clock() + self._seconds * (1 + JITTER * self._spread(self._count))


class Connection(Protocol):
    @property
    def is_idle(self) -> bool:
        """Whether no request is being received, handled or answered, and at least one has been."""
        ...

    def leave(self) -> None:
        """Close now: the connection is idle, or has sent no request for too long."""
        ...


class Connections:
    """``clock``: monotonic seconds."""

    def __init__(self, *, limit: int, events: Events, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._crowd = max(1, int(limit * CROWDED_SHARE))
        self.events = events
        self._clock = clock
        # A dict for its order, oldest first.
        self._open: dict[Connection, None] = {}
        self._new: dict[Connection, float] = {}  # by the time of opening
        self._is_draining = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def must_close(self) -> bool:
        """Whether answers must end their connections: too many are in use, or the process is draining."""
        return self._is_draining or len(self._open) - len(self._new) > self._crowd

    def admit(self, connection: Connection) -> bool:
        """Register a new connection; False when it must be closed at once."""
        if len(self._open) >= self._limit:
            self._make_room()
        if len(self._open) >= self._limit:
            self.events.connection_rejected("limit")
            return False
        self._open[connection] = None
        self._new[connection] = self._clock()
        return True

    def head_received(self, connection: Connection) -> None:
        """The connection's first request head is complete; later calls do nothing."""
        if self._new.pop(connection, None) is not None and len(self._open) - len(self._new) > self._crowd:
            self._dismiss_idle()

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection; one that was never registered is ignored."""
        if connection in self._open:
            del self._open[connection]
            self._new.pop(connection, None)

    def drain(self) -> None:
        """End every connection with its next answer.

        Idle ones stay: a request may be on its way, and closing first would reset it.
        """
        self._is_draining = True

    def dismiss(self) -> None:
        """Close the idle connections."""
        for connection in [idle for idle in self._open if idle.is_idle]:
            connection.leave()

    def _make_room(self) -> None:
        oldest = next(iter(self._new.items()), None)
        if oldest is None:
            self._dismiss_idle()
        elif self._clock() - oldest[1] >= NEW_SECONDS:
            self._dismiss(oldest[0])

    def _dismiss_idle(self) -> None:
        """Close the oldest idle connection among LOOKED_AT; busy ones are moved to the end."""
        for connection in list(itertools.islice(self._open, LOOKED_AT)):
            if connection.is_idle:
                self._dismiss(connection)
                return
            del self._open[connection]
            self._open[connection] = None

    def _dismiss(self, connection: Connection) -> None:
        self.events.connection_rejected("crowded")
        self.forget(connection)
        connection.leave()


@dataclass(slots=True)
class Events:
    """What the data plane reports to the metrics: labels of closed sets, never a path, header or message. Without metrics nothing is counted.

    ``reason``: of ConnectionRejected. ``trouble``: of Trouble. ``kind``: of FailureKind.
    """

    _metrics: Metrics | None = None

    def connection_rejected(self, reason: str) -> None:
        if self._metrics is not None:
            self._metrics.connections_rejected_total.labels(reason).inc()

    def answered_locally(self, trouble: str) -> None:
        if self._metrics is not None:
            self._metrics.local_errors_total.labels(_LOCAL.get(trouble, LocalError.BAD_REQUEST)).inc()

    def upstream_failed(self, kind: str) -> None:
        if self._metrics is not None:
            self._metrics.upstream_errors_total.labels(kind).inc()


# All other local answers are caused by the request: it is wrong, or late.
_LOCAL: Mapping[str, LocalError] = MappingProxyType(
    {
        Trouble.NO_UPSTREAM: LocalError.NO_UPSTREAM,
        Trouble.UPSTREAM_TIMEOUT: LocalError.NO_UPSTREAM,
        Trouble.UPSTREAM_BROKE: LocalError.NO_UPSTREAM,
        Trouble.INTERNAL: LocalError.INTERNAL,
        Trouble.OVERLOADED: LocalError.SHED,
    }
)


# On, 0 seconds: closing sends a reset.
LINGER_RESET = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Close a connection so that the peer's next read fails instead of ending."""
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    transport.abort()


def unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """Bytes in the kernel that the peer has not acknowledged; 0 if unknown."""
    raw: socket.socket | None = transport.get_extra_info("socket")
    try:
        return (
            0 if raw is None else int.from_bytes(fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        )
    except (OSError, ValueError):  # not Linux, or closed
        return 0
