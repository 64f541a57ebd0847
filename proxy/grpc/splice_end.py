"""One of the two connections of a splice: what it is given goes out, what comes in is the splice's to carry."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, cast

from vecsieve.proxy.grpc.endings import unacknowledged_bytes
from vecsieve.proxy.grpc.frames import Buffer

if TYPE_CHECKING:
    from vecsieve.proxy.grpc.splice import Splice

# gRPC always reads its sockets, and slows its peer down by HTTP/2's own windows: who takes nothing that long is gone or
# means harm, and the other side's end would never be noticed, for it is not read. As limits.stream_idle_timeout_seconds.
STALLED_SECONDS = 60.0
# What the gRPC server has sent may still be in the socket between us: given to the client in one of our next turns.
PAUSE_SECONDS = 0.5
READ_BYTES = 65536
MOST_LOOKS = 100  # nobody waits for ever behind others
HELD_SECONDS = 0.002  # until it is looked again whether calls still wait
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s


class End(asyncio.Protocol):
    """One of the two connections. Before it is made and after it is lost, whatever is asked of it is nothing."""

    __slots__ = (
        "_given_at",
        "_has_finished",
        "_is_next",
        "_looks",
        "_splice",
        "_stalled",
        "has_ended",
        "is_full",
        "is_lost",
        "other",
        "rest",
        "transport",
    )
    other: End

    def __init__(self, splice: Splice) -> None:
        self._splice = splice
        self.transport: asyncio.Transport | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._given_at = 0.0
        self.rest: memoryview | None = None  # of what was read, what has not been carried yet
        self._looks = 0  # in a row, at calls that still wait
        self._is_next = False  # to be carried at the next turn
        self.is_full = False
        self.has_ended = False
        self._has_finished = False  # it is given nothing more
        self.is_lost = False

    @property
    def is_gone(self) -> bool:
        """Whether there is no connection: not yet, or no longer."""
        return self.transport is None or self.is_lost

    @property
    def is_owed(self) -> bool:
        """Whether it has not taken what it was given, or was given something just now."""
        if (open_ := self._open) is None:
            return False
        if asyncio.get_running_loop().time() < self._given_at + PAUSE_SECONDS or open_.get_write_buffer_size() > 0:
            return True
        return unacknowledged_bytes(open_.get_extra_info("socket").fileno()) > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """It said something."""
        self._splice.carry(self, data)

    def eof_received(self) -> bool:
        """It will say no more."""
        self.has_ended = True
        self._splice.ended(self)
        return self.transport is not None and self.transport.can_write_eof()  # TLS has no half-close

    def pause_writing(self) -> None:
        """It takes too slowly: the other is not read meanwhile."""
        self.is_full = True
        self._stalled = asyncio.get_running_loop().call_later(STALLED_SECONDS, self._splice.cut)
        self.other.hold()

    def resume_writing(self) -> None:
        """It has taken enough."""
        self.is_full = False
        self._is_taking()
        self.other.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.is_lost = True
        self._is_taking()
        self._splice.lost(self, exc)

    def _is_taking(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def take(self, data: Buffer) -> None:
        """Give it some."""
        if (open_ := self._open) is not None and not self._has_finished:
            self._given_at = asyncio.get_running_loop().time()
            open_.write(data)

    def left_unread(self) -> bytes:
        """What has arrived and was not read, for a failed write ends reading too. Only while the loss is being told."""
        read = bytearray()
        assert self.transport is not None  # noqa: S101 - what is lost was made
        with self.transport.get_extra_info("socket").dup() as same, contextlib.suppress(OSError):
            while piece := same.recv(READ_BYTES):
                read += piece
        return bytes(read)

    def hold(self) -> None:
        """Read nothing more of it."""
        if (open_ := self._open) is not None:
            open_.pause_reading()

    def go_on(self) -> None:
        """Read again, or carry what is left of the last read at the next turn; not while nobody takes it, who says when that is over."""
        if (open_ := self._open) is None or not self._may_go_on:
            return
        if self.rest is None:
            open_.resume_reading()
        elif not self._is_next:
            self._is_next = True
            loop = asyncio.get_running_loop()
            loop.call_later(
                HELD_SECONDS, self._at_next_turn
            ) if self._splice.is_held or self._splice.is_resting else loop.call_soon(self._at_next_turn)

    def _at_next_turn(self) -> None:
        self._is_next = False
        self._looks = self._looks + 1 if self._splice.is_held else 0
        if 0 < self._looks < MOST_LOOKS:
            self.go_on()
        elif self.rest is not None and self._may_go_on:
            rest, self.rest = self.rest, None
            self._splice.carry(self, rest)
        if self.rest is None:
            self.go_on()

    @property
    def _may_go_on(self) -> bool:
        return not self._splice.is_cut and (self.other.is_gone or not self.other.is_full)

    def finish(self) -> None:
        """Give it nothing more."""
        self._has_finished = True
        if (open_ := self._open) is None:
            return
        if not open_.can_write_eof():
            open_.close()
            return
        with contextlib.suppress(OSError):  # reset since its own end, which nobody reads after that
            open_.write_eof()

    def close(self) -> None:
        """End it when it has taken what it was given."""
        if (open_ := self._open) is not None:
            open_.close()

    def reset(self) -> None:
        """Close without a farewell: the peer's next read fails instead of ending."""
        if self.transport is None or self.is_lost:
            return
        if not self.transport.is_closing():
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()

    @property
    def _open(self) -> asyncio.Transport | None:
        return None if self.transport is None or self.transport.is_closing() else self.transport
