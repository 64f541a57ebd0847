"""A server that says GOAWAY in the middle of a call, frame by frame: as no library would, in mid-call."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.http2 import GOAWAY, frame
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.exceptions import ProtocolError

from support.grpc.raw import REPLY_HEAD, framed
from support.network.streams import serving
from support.qdrant.scripted_grpc import honest

WHO = "x-who"  # tells the clients apart
END = [(b"grpc-status", b"0"), (b"x-trailing", b"1")]


class _Talk:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.state = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.state.initiate_connection()
        self.messages: dict[int, bytes] = {}
        self.who: dict[int, bytes] = {}

    async def calls(self) -> AsyncIterator[tuple[int, bytes]]:
        """Stream and message of each call whose client has said everything."""
        self.flush()
        while data := await self.reader.read(65_536):
            for event in self.state.receive_data(data):
                if isinstance(event, RequestReceived):
                    self.messages[event.stream_id or 0] = b""
                    self.who[event.stream_id or 0] = dict(event.headers or ()).get(WHO.encode(), b"")
                elif isinstance(event, DataReceived):
                    self.messages[event.stream_id or 0] += event.data or b""
                elif isinstance(event, StreamEnded):
                    yield event.stream_id or 0, self.messages[event.stream_id or 0][5:]
            self.flush()

    def flush(self) -> None:
        self.writer.write(self.state.data_to_send())

    def go_away(self, last: int) -> None:
        # Beside the library, which lets nothing be said after it.
        self.writer.write(frame(GOAWAY, 0, 0, struct.pack(">II", last, 0)))

    def answer(self, stream: int, message: bytes) -> None:
        self.state.send_headers(stream, REPLY_HEAD)
        self.state.send_data(stream, framed(honest(message)))
        self.state.send_headers(stream, END, end_stream=True)
        self.flush()


@asynccontextmanager
async def saying_goodbye(*, has_taken_it: bool, answers: bool = True) -> AsyncIterator[str]:
    """Where it listens. Every connection hears GOAWAY at its first call, which was taken or was not.

    One that was taken is answered, or the connection ends. One that was not was never looked at, and its client may send it
    again: the second time it is taken.
    """
    turned_away: set[bytes] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = _Talk(reader, writer)
        try:
            async for stream, message in talk.calls():
                who = talk.who[stream]
                if not has_taken_it and who not in turned_away:
                    turned_away.add(who)
                    talk.go_away(0)
                    return
                if has_taken_it:
                    talk.go_away(stream)
                    await asyncio.sleep(0.02)
                if not answers:
                    return
                talk.answer(stream, message)
        except (OSError, ProtocolError):  # the client has left, or given the call up
            pass
        finally:
            writer.close()

    async with serving(serve) as port:
        yield f"127.0.0.1:{port}"
