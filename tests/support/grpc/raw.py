"""gRPC spoken frame by frame, for what no gRPC library would send or show: both sides, one call a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived

from support.network.streams import serving

Fields = list[tuple[bytes, bytes]]
REPLY_HEAD: Fields = [(b":status", b"200"), (b"content-type", b"application/grpc")]


def framed(message: bytes) -> bytes:
    """A message as it stands in DATA frames: not compressed, its length before it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


@dataclass
class RawReply:
    """What came back, in the order of the frames. A reply of trailers alone has one block of fields."""

    blocks: list[Fields] = field(default_factory=list)
    data: bytes = b""
    is_reset: bool = False

    def last(self, name: bytes) -> bytes | None:
        """A field of the last block."""
        return dict(self.blocks[-1]).get(name)


class _Peer:
    """A connection under h2, without h2's opinions on what may be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_client: bool) -> None:
        self.reader, self.writer = reader, writer
        self.state = H2Connection(
            H2Configuration(
                client_side=is_client,
                header_encoding=None,
                validate_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.state.initiate_connection()

    def flush(self) -> None:
        self.writer.write(self.state.data_to_send())

    async def events(self) -> AsyncIterator[Event]:
        self.flush()
        while data := await self.reader.read(65536):
            for event in self.state.receive_data(data):
                if isinstance(event, DataReceived) and event.flow_controlled_length:
                    self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                yield event
            self.flush()


async def raw_call(
    port: int, fields: Fields, body: bytes | None = framed(b"question"), *, path: bytes = b"/test.Service/method"
) -> RawReply:
    """One call. ``fields``: beside those every call has; ``body``: its DATA, None for an end without any."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    peer = _Peer(reader, writer, is_client=True)
    head = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"db.example"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
    peer.state.send_headers(1, [*head, *fields], end_stream=body is None)
    if body is not None:
        peer.state.send_data(1, body, end_stream=True)
    reply = RawReply()
    async with asyncio.timeout(10):
        async for event in peer.events():
            if isinstance(event, ResponseReceived | TrailersReceived):
                reply.blocks.append([(bytes(name), bytes(value)) for name, value in event.headers or ()])
            elif isinstance(event, DataReceived):
                reply.data += event.data or b""
            reply.is_reset = reply.is_reset or isinstance(event, StreamReset)
            if isinstance(event, StreamEnded | StreamReset):
                break
    writer.close()
    return reply


@dataclass
class RawUpstream:
    """A server that answers every call with the same frames when it has ended. ``heads``: the fields of the calls that came;
    ``ends``: how each ended that did, by the client's END_STREAM or a reset.
    """

    port: int = 0
    heads: list[Fields] = field(default_factory=list)
    ends: list[type[Event]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def raw_upstream(*blocks: Fields | bytes, reset: ErrorCodes | None = None) -> AsyncIterator[RawUpstream]:
    """A server for the block. ``blocks``: fields and DATA to answer with, the last ending the stream unless ``reset`` does."""
    upstream = RawUpstream()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _Peer(reader, writer, is_client=False)
        async for event in peer.events():
            if isinstance(event, RequestReceived):
                upstream.heads.append([(bytes(name), bytes(value)) for name, value in event.headers or ()])
            if isinstance(event, StreamEnded | StreamReset):
                upstream.ends.append(type(event))
            if isinstance(event, StreamEnded):
                _answer(peer.state, event.stream_id or 0, blocks, reset)

    async with serving(serve) as upstream.port:
        yield upstream


def _answer(state: H2Connection, stream: int, blocks: Sequence[Fields | bytes], reset: ErrorCodes | None) -> None:
    for number, block in enumerate(blocks, 1):
        is_last = number == len(blocks) and reset is None
        if isinstance(block, bytes):
            state.send_data(stream, block, end_stream=is_last)
        else:
            state.send_headers(stream, block, end_stream=is_last)
    if reset is not None:
        state.reset_stream(stream, reset)
