"""Two connections tied into one: what the client sends reaches the gRPC server byte for byte, and back.

Whoever takes too slowly stops the other from being read, so that a splice never holds more than the buffers of two
sockets. The end of one direction and a close are carried over as what they were, and a client's reset too. The server's
is not: a gRPC server that has said everything closes with frames of its client unread (an acknowledgement, a ping), and a
reset that follows would take the last answers out of the network's hands. HTTP/2 needs none to show what is cut short.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from typing import TYPE_CHECKING, cast

from vecsieve.proxy.grpc.frames import (
    FAREWELL_SECONDS,
    GOAWAY,
    PREFACE_BYTES,
    Buffer,
    Frames,
    OpenStreams,
    calm_down,
    inserted,
    reset_stream,
)
from vecsieve.proxy.grpc.guests import Guests
from vecsieve.proxy.grpc.listener import InnerSocket
from vecsieve.proxy.grpc.relay import unacknowledged_bytes

if TYPE_CHECKING:
    pass  # MERGED

# One of the two connections of a splice: what it is given goes out, what comes in is the splice's to carry.

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


LOGGER = logging.getLogger("vecsieve.grpc")
# The server is in this process: it lets in at once, or its backlog is full, or it is gone.
CONNECT_SECONDS = 2.0
# Once one side has ended, gRPC has nothing more to say; the other may take what is left, as long as nginx lets it
# (lingering_timeout 5 s, lingering_time 30 s).
LAST_WORDS_SECONDS = 10.0
# Of one client, at one turn of the loop: half a millisecond's. What is left waits for the next turn, and others have theirs.
FRAMES_A_TURN = 1000
# For a client that floods us to read why it is cut. Nothing of it is read meanwhile.
CUT_SECONDS = 1.0


class Splice:
    """One client connection and its way to ``inner``. Make it, enter it as a guest, then ``begin``."""

    __slots__ = (
        "_client",
        "_connecting",
        "_from_client",
        "_from_server",
        "_goodbye_at",
        "_goodbye_due",
        "_guests",
        "_inner",
        "_last_words",
        "_resets_due",
        "_socket",
        "_streams",
        "is_cut",
    )

    def __init__(self, client: asyncio.Transport, guests: Guests, inner: InnerSocket) -> None:
        self._guests = guests
        self._socket = inner
        self._client, self._inner = End(self), End(self)
        self._client.other, self._inner.other = self._inner, self._client
        self._client.transport = client
        self._connecting: asyncio.Task[None] | None = None
        self._last_words: asyncio.TimerHandle | None = None
        self._streams = OpenStreams(inner.calls, time.monotonic)
        self._from_client = Frames(self._streams.client_said, skip=PREFACE_BYTES, content=self._streams.client_brought)
        self._from_server = Frames(self._streams.server_said)
        self._goodbye_at: float | None = None
        self._goodbye_due = b""
        self._resets_due = b""
        self.is_cut = False

    @property
    def is_idle(self) -> bool:
        """Never: only the gRPC server knows, and it says goodbye itself."""
        return False

    @property
    def may_finish(self) -> bool:
        """Calls may be under way."""
        return True

    @property
    def is_owed(self) -> bool:
        """An answered call has left the gRPC server before a slow client has it: it is in our buffer, or in the kernel's, which
        forgets it when a connection is cut. And what a client sends until it hears a goodbye is to be answered.
        """
        return self._last_words is not None or self._is_saying_goodbye or self._client.is_owed

    @property
    def is_held(self) -> bool:
        """Whether the client's next frames are to wait for others' calls."""
        return self._streams.is_held

    @property
    def is_resting(self) -> bool:
        """Whether they are to wait a moment, once."""
        return self._streams.is_resting

    @property
    def _is_saying_goodbye(self) -> bool:
        if self._goodbye_at is None or self._client.is_gone:
            return False
        return asyncio.get_running_loop().time() < self._goodbye_at + FAREWELL_SECONDS

    def leave(self) -> None:
        """Not asked of a connection that is never idle."""
        self.cut()

    def say_goodbye(self) -> None:
        """Ask the client to send no more calls this way: between the server's frames, as soon as one has ended."""
        if self._goodbye_at is not None:
            return
        self._goodbye_at = asyncio.get_running_loop().time()
        self._say(GOAWAY)

    def _say(self, goodbye: bytes) -> None:
        """Say it to the client between two frames of the server's, now or when one has ended."""
        if self._from_server.is_between or (self.is_cut and not self._from_server.has_begun):
            self._client.take(goodbye)
        else:
            self._goodbye_due += goodbye

    def carry(self, end: End, data: Buffer) -> None:
        """One side has said something: the server as much as it likes, the client as many frames as it has at a turn."""
        if end is not self._client:
            self._carry_down(data)
            return
        if self.is_cut:
            return
        self._streams.client_speaks()
        carried = self._from_client.follow(data, most=FRAMES_A_TURN)
        taken, rest = memoryview(data)[:carried], memoryview(data)[carried:]
        resets = self._refuse(taken)
        if self._streams.allowance.is_spent:
            self._cut_flood()
            return
        self._inner.take(inserted(taken, resets))
        if rest:
            self._client.hold()
            self._client.rest = rest
            self._client.go_on()

    def _refuse(self, taken: memoryview) -> list[tuple[int, bytes]]:
        """End calls whose messages come to too much, on both sides; what the gRPC server is told, and before which byte.

        It hears of it before the frame that was too much. What the client still sends of them goes on, for it counts in the
        connection's flow control; a server drops it (RFC 9113 5.1).
        """
        told, frames = [], self._from_client
        if self._resets_due and frames.place is not None:
            told.append((frames.place, self._resets_due))
            self._resets_due = b""
        if refused := self._streams.refused():
            resets = b"".join(map(reset_stream, refused))
            self._guests.refused_message()
            self._say(resets)
            if frames.begun_at is not None:
                told.append((frames.begun_at, resets))
            elif frames.is_between:
                told.append((len(taken), resets))
            else:
                self._resets_due = resets  # behind the rest of the frame
        return told

    def _carry_down(self, data: Buffer) -> None:
        self._from_server.follow(data)
        place = self._from_server.place
        if self._goodbye_due and place is not None:
            goodbye, self._goodbye_due = self._goodbye_due, b""
            data = b"".join((data[:place], goodbye, b"" if self.is_cut else data[place:]))
            if self.is_cut:
                self._client.take(data)
                self._part()
                return
        self._client.take(data)

    def _cut_flood(self) -> None:
        """Say why, and let go: of the gRPC server at once, of the client when it has had the time to read it."""
        self.is_cut = True
        self._guests.cut_flood()
        self._client.hold()
        self._client.rest = None
        self._say(calm_down(self._streams.last, is_first=not self._from_server.has_begun))
        if not self._goodbye_due:
            self._part()
        if self._last_words is not None:
            self._last_words.cancel()
        self._last_words = asyncio.get_running_loop().call_later(CUT_SECONDS, self.cut)

    def _part(self) -> None:
        self._inner.reset()
        self._client.finish()

    def begin(self, read: bytes) -> None:
        """Take the client's transport over. ``read``: what it has sent so far."""
        client = self._client
        client.hold()
        assert client.transport is not None  # noqa: S101 - set when it was made
        client.transport.set_protocol(client)
        # A client that vanishes without a word would keep its place for ever; aiohttp does the same for HTTP/1.
        client.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connecting = self._guests.start(self._connect(read), name="vecsieve-splice")

    async def _connect(self, read: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connected = await self._socket.connect()
                await loop.create_unix_connection(lambda: self._inner, sock=connected)
        except OSError as error:  # TimeoutError is one
            LOGGER.error("a connection could not be handed to the gRPC server: %s", type(error).__name__)  # noqa: TRY400 - a traceback would say less
            self._client.reset()
            return
        self.carry(self._client, read)
        if not self._inner.is_full:
            self._client.go_on()

    def ended(self, end: End) -> None:
        """One side will send no more."""
        self._let_last_words_pass()
        end.other.finish()
        if end.other.has_ended or end.other.is_lost:
            end.close()
            end.other.close()

    def lost(self, end: End, error: Exception | None) -> None:
        """One side is gone."""
        if end.other.is_gone:
            self._finish()
        elif self.is_cut:
            self._inner.reset()  # the client's end is its own doing; the server's leaves it its last words
        elif end is self._inner:
            self._let_last_words_pass()
            if error and not end.has_ended:
                self._client.take(end.left_unread())
            # Not closed yet, and read to its end: a socket closed with unread bytes is reset by the kernel.
            self._client.go_on()
            self._client.close() if self._client.has_ended else self._client.finish()
        elif error is None:
            self._let_last_words_pass()
            self._inner.close()
        else:
            self._inner.reset()

    def cut(self) -> None:
        """End both sides now; the client sees a reset, for what it waits for will not come."""
        self._inner.reset()
        self._client.reset()

    def _let_last_words_pass(self) -> None:
        if self._last_words is None:
            self._last_words = asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self.cut)

    def _finish(self) -> None:
        if self._last_words is not None:
            self._last_words.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        self._streams.end()
        self._guests.leave(self)
