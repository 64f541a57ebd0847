"""Joins two connections: the client's bytes reach the gRPC server unchanged, and the server's the client.

A side that reads slowly stops reading from the other, so a splice holds at most the buffers of two sockets. Half-closes, closes and a
client's reset are forwarded. The server's reset is not: a gRPC server that has sent everything closes with client frames unread (an
acknowledgement, a ping), and the reset that follows would discard the last answers. HTTP/2 needs no reset to show what is incomplete.

A port for gRPC only is spliced as well. On a port of its own the core (grpcio 1.85, with any channel arguments) never ends a flood of
SETTINGS, WINDOW_UPDATE, PRIORITY, heads, or of calls opened and reset, ends other floods without a reason, and has no bound on inflated
bytes, connections or waiting calls. Other clients are not affected by a flood, but it uses a core for any length of time. The splice costs
0.1 ms per call.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import InitVar, dataclass, field

from ..search.errors import Trouble
from .connections import InnerSocket, SharedConnection, SharedConnections
from .ends import End
from .frames import (
    GOAWAY,
    GOAWAY_SECONDS,
    MOST_WAITING_FLOODING,
    PREFACE_BYTES,
    Frames,
    OpenStreams,
    goaway_flood,
    inserted,
    reset_stream,
)
from .messages import Buffer

LOGGER = logging.getLogger("vecsieve.grpc")
# The server is in this process: it accepts at once, or its backlog is full, or it is gone.
CONNECT_SECONDS = 2.0
# Once one side has ended, gRPC sends nothing more; the other side may read the rest for as long as nginx allows (lingering_timeout 5 s,
# lingering_time 30 s).
CLOSING_SECONDS = 10.0
# Frames of one client per turn of the loop: half a millisecond. The rest waits for the next turn, so that others have theirs.
FRAMES_A_TURN = 1000
# Seconds for a flooding client to read why it is cut. Nothing is read from it meanwhile.
CUT_SECONDS = 1.0
# Calls of a cut or disconnected client that are ended at once; the next ones follow after a pause. Ending one takes 0.3 ms of several
# tasks; a thousand at once delayed another client's call by 0.5 s.
ENDED_AT_ONCE = 16
ENDING_SECONDS = 0.01


@dataclass(slots=True, eq=False)
class Splice(SharedConnection):
    """One client connection joined to ``inner``. Create it, register it, then ``begin``. It is never idle: only the gRPC server knows, and it
    sends GOAWAY itself.
    """

    may_finish = True

    client: InitVar[asyncio.Transport]
    _connections: SharedConnections
    _socket: InnerSocket
    is_cut: bool = False
    _client: End = field(init=False)
    _inner: End = field(init=False)
    _streams: OpenStreams = field(init=False)
    _from_client: Frames = field(init=False)
    _from_server: Frames = field(init=False)
    _connecting: asyncio.Task[None] | None = None
    _closing: asyncio.TimerHandle | None = None
    _goaway_at: float | None = None
    _frames_due: bytes = b""
    _resets_due: bytes = b""
    _has_frame: bool = False  # for a client that was cut, the server has an incomplete frame
    _is_ending: bool = False
    _is_orderly: bool = True

    def __post_init__(self, client: asyncio.Transport) -> None:
        self._client, self._inner = End(self), End(self)
        self._client.other, self._inner.other = self._inner, self._client
        self._client.transport = client
        self._streams = streams = OpenStreams(self._socket.calls, time.monotonic)
        streams.messages.shed = self._shed
        self._from_client = Frames(streams.client_frame, left=PREFACE_BYTES, content=streams.client_content)
        self._from_server = Frames(streams.server_frame)

    @property
    def is_unsent(self) -> bool:
        """An answered call has left the gRPC server before a slow client has the answer: it is in our buffer, or in the kernel's, which
        discards it when the connection is cut. Calls that a client sends before it reads GOAWAY are answered too.
        """
        return self._closing is not None or self._is_leaving or self._client.is_unsent

    @property
    def is_paused(self) -> bool:
        return self._streams.is_paused

    @property
    def is_resting(self) -> bool:
        return self._streams.is_resting

    @property
    def _is_leaving(self) -> bool:
        if self._goaway_at is None or self._client.is_gone:
            return False
        return asyncio.get_running_loop().time() < self._goaway_at + GOAWAY_SECONDS

    def send_goaway(self) -> None:
        """Ask the client to send no more calls here. The frame is sent between the server's frames."""
        if self._goaway_at is not None:
            return
        self._goaway_at = asyncio.get_running_loop().time()
        self._say(GOAWAY)

    def _say(self, frames: bytes) -> None:
        """Send frames to the client between two frames of the server's, now or at the end of the current one."""
        if self._from_server.is_between or (self.is_cut and not self._from_server.has_begun):
            self._client.take(frames)
        else:
            self._frames_due += frames

    def carry(self, end: End, data: Buffer) -> None:
        """Forward what one side sent: everything from the server; from the client at most one turn's frames."""
        if end is not self._client:
            self._carry_down(data)
        elif not self.is_cut:
            self._forward(*self._followed(data))

    def _followed(self, data: Buffer) -> tuple[Buffer, memoryview]:
        """What goes to the server at this turn, and the rest. A flood is cut."""
        self._streams.client_read()
        was_between = self._from_client.is_between
        carried = self._from_client.follow(data, most=FRAMES_A_TURN)
        taken, rest = memoryview(data)[:carried], memoryview(data)[carried:]
        refused, silent = self._streams.refused()
        resets = self._refuse(taken, refused, silent) if refused or silent or self._resets_due else []
        if self._streams.allowance.is_spent:
            self._has_frame = not was_between
            self._cut_flood()
            return b"", rest[:0]
        return inserted(taken, resets) if resets else taken, rest

    def _forward(self, data: Buffer, rest: memoryview) -> None:
        if data:
            self._inner.take(data)
        if rest:
            self._client.hold()
            self._client.rest = rest
            self._client.go_on()

    def _refuse(self, taken: memoryview, refused: list[int], silent: list[int]) -> list[tuple[int, bytes]]:
        """Reset calls whose messages are too large, or that are silent, on both sides. Returns the frames to insert for the gRPC server, and their places.

        It gets the reset before the frame that exceeded the limit. What the client still sends of these calls is forwarded, because it
        counts in the connection's flow control; a server drops it (RFC 9113 5.1).
        """
        insertions, frames = [], self._from_client
        if self._resets_due and frames.place is not None:
            insertions.append((frames.place, self._resets_due))
            self._resets_due = b""
        if refused and frames.begun_at is not None:
            insertions.append((frames.begun_at, self._reset(refused)))
            refused = []
        if ended := refused + silent:  # a silent call may have begun in this data
            resets = self._reset(ended)
            if frames.is_between:
                insertions.append((len(taken), resets))
            else:
                self._resets_due += resets  # after the rest of the frame
        return insertions

    def _reset(self, calls: list[int]) -> bytes:
        """End calls for the client. Returns the frames for the gRPC server."""
        resets = b"".join(map(reset_stream, calls))
        self._connections.ledger.events.answered_locally(Trouble.INFLATES.value)
        self._say(resets)
        return resets

    def _shed(self) -> None:
        """Reset calls to free the memory of their messages or heads, while the client sends nothing."""
        refused, silent = self._streams.refused()
        resets = self._reset(refused + silent)
        if self._from_client.is_between:
            self._inner.take(resets)
        else:
            self._resets_due += resets

    def _carry_down(self, data: Buffer) -> None:
        self._from_server.follow(data)
        place = self._from_server.place
        if self._frames_due and place is not None:
            frames, self._frames_due = self._frames_due, b""
            data = b"".join((data[:place], frames, b"" if self.is_cut else data[place:]))
            if self.is_cut:
                self._client.take(data)
                self._part()
                return
        self._client.take(data)

    def _cut_flood(self) -> None:
        """Tell the client why, and end: the gRPC server's side at once, the client's after it has had time to read the reason."""
        self.is_cut = True
        self._connections.cut_flood(self._client.address)
        self._client.hold()
        self._client.rest = None
        self._say(goaway_flood(self._streams.last, is_first=not self._from_server.has_begun))
        if not self._frames_due:
            self._part()
        if self._closing is not None:
            self._closing.cancel()
        self._closing = asyncio.get_running_loop().call_later(CUT_SECONDS, self.break_off)

    def _part(self) -> None:
        self._client.finish()
        self._end_calls()

    def _end_calls(self, *, is_orderly: bool = False) -> None:
        """End the server's side: if there are many calls, a few at a time. ``is_orderly``: without a reset, unless another ending is in
        progress.
        """
        self._is_orderly = self._is_orderly and is_orderly
        self._client.rest = None
        if not self._is_ending:
            self._is_ending = True
            self._end_some()

    def _end_some(self) -> None:
        ended = self._streams.end_some(ENDED_AT_ONCE) if self._may_insert else []
        if len(ended) == ENDED_AT_ONCE:
            self._inner.take(b"".join(map(reset_stream, ended)))
            asyncio.get_running_loop().call_later(ENDING_SECONDS, self._end_some)
            return
        self._is_ending = False
        if not self._is_orderly:
            self._inner.reset()
        elif self._client.is_lost:
            self._inner.close()
        else:
            self._inner.finish()

    @property
    def _may_insert(self) -> bool:
        """Whether frames may be inserted for the server: within a frame of the client's they would become its content."""
        return not self._has_frame if self.is_cut else self._from_client.is_between

    def break_off(self) -> None:
        """Reset the client now, and end its calls."""
        self._client.reset()
        self._end_calls()

    def begin(self, read: bytes) -> None:
        """Take over the client's transport. ``read``: what it has sent so far."""
        client = self._client
        client.hold()
        assert client.transport is not None  # noqa: S101 - set when it was made
        client.transport.set_protocol(client)
        raw = client.transport.get_extra_info("socket")
        # A client that vanishes without closing would keep its place forever; aiohttp does the same for HTTP/1.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # asyncio sets it only on sockets that name their protocol, which those of `workers` do not: a small answer waited 40 ms for the delayed ACK.
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connecting = self._connections.tasks.start(self._connect(read))

    async def _connect(self, read: bytes) -> None:
        loop = asyncio.get_running_loop()
        if (pause_seconds := self._connections.pause_seconds(self._client.address)) is not None:
            self._streams.most_waiting = MOST_WAITING_FLOODING
            await asyncio.sleep(pause_seconds)
        first = self._followed(read)
        if self.is_cut:  # the gRPC server never hears of it
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connected = await self._socket.connect()
                await loop.create_unix_connection(lambda: self._inner, sock=connected)
        except OSError as error:  # includes TimeoutError
            LOGGER.error("a connection could not be handed to the gRPC server: %s", type(error).__name__)  # noqa: TRY400 - a traceback would say less
            self._client.reset()
            return
        self._forward(*first)
        if not self._inner.is_full:
            self._client.go_on()

    def ended(self, end: End) -> None:
        """One side sends no more."""
        self._close_later()
        if end is self._client:
            self._end_calls(is_orderly=True)
        else:
            end.other.finish()
        if end.other.has_ended or end.other.is_lost:
            end.close()
            end.other.close()

    def lost(self, end: End, error: Exception | None) -> None:
        """One side is gone."""
        if end.other.is_gone:
            self._finish()
        elif self.is_cut:
            self._end_calls()  # the client ended it itself; after the server's end its last data is still delivered
        elif end is self._inner:
            self._close_later()
            if error and not end.has_ended:
                self._client.take(end.left_unread())
            # Not closed yet, and read to its end: the kernel resets a socket that is closed with unread bytes.
            self._client.go_on()
            self._client.close() if self._client.has_ended else self._client.finish()
        elif error is None:
            self._close_later()
            self._end_calls(is_orderly=True)
        else:
            self._end_calls()

    def cut(self) -> None:
        """End both sides now; the client sees a reset, because its answers will not come."""
        self._inner.reset()
        self._client.reset()

    def _close_later(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().call_later(CLOSING_SECONDS, self.break_off)

    def _finish(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        self._streams.end()
        self._connections.leave(self)
