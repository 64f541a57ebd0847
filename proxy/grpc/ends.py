"""One of the two connections of a splice."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Protocol, cast

from ..http.connections import reset, unacknowledged_bytes
from .messages import Buffer

# gRPC always reads its sockets, and slows its peer down by HTTP/2's own windows: a peer that reads nothing for this long is gone or
# malicious, and the other side's end would never be noticed, because it is not read. As limits.stream_idle_timeout_seconds.
STALLED_SECONDS = 60.0
# Data from the gRPC server may still be in the socket between us; it reaches the client in one of our next turns.
ON_ITS_WAY_SECONDS = 0.5
READ_BYTES = 65536
MOST_CHECKS = 100  # then the frames are forwarded in any case
CHECK_SECONDS = 0.002  # seconds between checks whether calls still wait


class Joint(Protocol):
    """What joins two ends. ``is_paused``, ``is_resting``: the client's next frames wait. ``is_cut``: nothing more is read from the client."""

    is_cut: bool

    @property
    def is_paused(self) -> bool: ...
    @property
    def is_resting(self) -> bool: ...
    def carry(self, end: End, data: Buffer) -> None: ...
    def ended(self, end: End) -> None: ...
    def lost(self, end: End, error: Exception | None) -> None: ...
    def break_off(self) -> None: ...


@dataclass(slots=True, eq=False)
class End(asyncio.Protocol):
    """One of the two connections. Before it is made and after it is lost, its methods do nothing."""

    _splice: Joint
    other: End = field(init=False)
    transport: asyncio.Transport | None = None
    rest: memoryview | None = None  # data that was read but not forwarded yet
    is_full: bool = False
    has_ended: bool = False
    is_lost: bool = False
    _has_finished: bool = False  # nothing more may be written to it
    _stalled: asyncio.TimerHandle | None = None
    _given_at: float = 0.0
    _checks: int = 0  # checks in a row at which calls still waited
    _is_next: bool = False  # to be forwarded at the next turn

    @property
    def is_gone(self) -> bool:
        """Whether there is no connection: not yet, or no longer."""
        return self.transport is None or self.is_lost

    @property
    def address(self) -> str:
        """Of the peer; "" without one."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""

    @property
    def is_unsent(self) -> bool:
        """Whether the peer has not taken all data, or some was written just now."""
        if (open_ := self._open) is None:
            return False
        if asyncio.get_running_loop().time() < self._given_at + ON_ITS_WAY_SECONDS or open_.get_write_buffer_size() > 0:
            return True
        return unacknowledged_bytes(open_) > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._splice.carry(self, data)

    def eof_received(self) -> bool:
        self.has_ended = True
        self._splice.ended(self)
        return self.transport is not None and self.transport.can_write_eof()  # TLS has no half-close

    def pause_writing(self) -> None:
        self.is_full = True
        self._stalled = asyncio.get_running_loop().call_later(STALLED_SECONDS, self._splice.break_off)
        self.other.hold()

    def resume_writing(self) -> None:
        self.is_full = False
        self._is_taking()
        self.other.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._is_taking()
        self._splice.lost(self, exc)

    def _is_taking(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def take(self, data: Buffer) -> None:
        if (open_ := self._open) is not None and not self._has_finished:
            self._given_at = asyncio.get_running_loop().time()
            open_.write(data)

    def left_unread(self) -> bytes:
        """Data that has arrived and was not read: a failed write ends reading too. Only during connection_lost."""
        read = bytearray()
        assert self.transport is not None  # noqa: S101 - what is lost was made
        with self.transport.get_extra_info("socket").dup() as same, contextlib.suppress(OSError):
            while piece := same.recv(READ_BYTES):
                read += piece
        return bytes(read)

    def hold(self) -> None:
        """Pause reading it."""
        if (open_ := self._open) is not None:
            open_.pause_reading()

    def go_on(self) -> None:
        """Resume reading, or forward the rest of the last read at the next turn; not while the other side is full."""
        if (open_ := self._open) is None or not self._may_go_on:
            return
        if self.rest is None:
            open_.resume_reading()
        elif not self._is_next:
            self._is_next = True
            loop = asyncio.get_running_loop()
            if self._splice.is_paused or self._splice.is_resting:
                loop.call_later(CHECK_SECONDS, self._at_next_turn)
            else:
                loop.call_soon(self._at_next_turn)

    def _at_next_turn(self) -> None:
        self._is_next = False
        self._checks = self._checks + 1 if self._splice.is_paused else 0
        if 0 < self._checks < MOST_CHECKS:
            self.go_on()
        elif self.rest is not None and self._may_go_on:
            self._checks = 0
            rest, self.rest = self.rest, None
            self._splice.carry(self, rest)
        if self.rest is None:
            self.go_on()

    @property
    def _may_go_on(self) -> bool:
        return not self._splice.is_cut and (self.other.is_gone or not self.other.is_full)

    def finish(self) -> None:
        """Write nothing more."""
        self._has_finished = True
        if (open_ := self._open) is None:
            return
        if not open_.can_write_eof():
            open_.close()
            return
        with contextlib.suppress(OSError):  # the connection was reset after its end
            open_.write_eof()

    def close(self) -> None:
        """Close when everything was written."""
        if (open_ := self._open) is not None:
            open_.close()

    def reset(self) -> None:
        """Close so that the peer's next read fails instead of ending."""
        if self.transport is not None and not self.is_lost:
            reset(self.transport)

    @property
    def _open(self) -> asyncio.Transport | None:
        return None if self.transport is None or self.transport.is_closing() else self.transport
