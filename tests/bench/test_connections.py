"""The gRPC side of the benchmarks: a generator that counted failures, or another search, would print a wrong table."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import bodies, grpc_bodies, grpc_canned, grpc_relay, http2
from bench.connections import TOP_UP_BYTES, GrpcConnection
from bench.contenders import OtherSearchError, ask_grpc, check_page
from bench.generator import RECEIVE_BYTES
from bench.grpc_upload import upload
from bench.load import Request
from bench.pools import sample
from bench.scenes import QUERY_METHOD, scene

FRAMES = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=80)), max_size=6)


@given(FRAMES, st.integers(0, 40))
def test_frames_that_are_whole_are_read_and_the_rest_is_left(
    frames: list[tuple[int, int, bytes]], missing: int
) -> None:
    """Of any bytes the frames read are the first ones written, as many as fit."""
    written = [http2.frame(kind, flags, 1, payload) for kind, flags, payload in frames]
    data = b"".join(written)
    cut = data[: max(0, len(data) - missing)]
    whole = sum(len(b"".join(written[: place + 1])) <= len(cut) for place in range(len(written)))
    read = [(kind, flags, cut[begins:ends]) for kind, flags, begins, ends in http2.heads(cut)]
    assert read == frames[:whole]


@given(st.binary(max_size=40_000))
def test_a_call_is_its_head_and_its_message_in_frames_that_any_server_takes(message: bytes) -> None:
    """The data of all frames together is the message behind its length, and the last of them ends the stream."""
    frames = http2.on_stream(http2.request("/a.B/C", message), 7)
    read = [
        (kind, flags, frames[begins:ends], frames[begins - 4 : begins])
        for kind, flags, begins, ends in http2.heads(frames)
    ]
    assert [kind for kind, *_ in read] == [http2.HEADERS, *[http2.DATA] * (len(read) - 1)]
    assert [flags & http2.END_STREAM for _, flags, *_ in read[1:]] == [0] * (len(read) - 2) + [1]
    assert b"".join(payload for _, _, payload, _ in read[1:]) == b"\0" + struct.pack(">I", len(message)) + message
    assert {stream for *_, stream in read} == {struct.pack(">I", 7)}
    assert all(len(payload) <= http2.FRAME_BYTES for _, _, payload, _ in read)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="fits a window"):
        http2.request("/a", bytes(http2.WINDOW_BYTES))
    with pytest.raises(ValueError, match="at most 126"):
        http2.request("/" + "a" * 126, b"")


class Scripted:
    """A connection whose other end is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours, self.theirs = socket.socketpair()
        monkeypatch.setattr("bench.connections.connected", lambda _port: ours)
        self.connection = GrpcConnection(1, bytearray(RECEIVE_BYTES))
        self.said = self.theirs.recv(1 << 16)

    def heard(self, *frames: bytes) -> bool:
        self.theirs.sendall(b"".join(frames))
        return self.connection.receive()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    made = Scripted(monkeypatch)
    with closing(made.theirs), closing(made.connection.socket):
        yield made


ENDED = http2.frame(http2.HEADERS, http2.END_STREAM | http2.END_HEADERS, 1, b"")
MESSAGE = http2.frame(http2.DATA, 0, 1, b"\0\0\0\0\1x")


def test_a_reply_counts_when_its_call_is_over_and_brought_a_message(scripted: Scripted) -> None:
    assert scripted.said == http2.greeting()
    scripted.connection.send(http2.request("/a", b"m"), 1.5)
    assert scripted.theirs.recv(1 << 16) == http2.on_stream(http2.request("/a", b"m"), 1)
    assert not scripted.heard(MESSAGE[:4])
    assert not scripted.heard(MESSAGE[4:])
    assert scripted.heard(ENDED)
    assert (scripted.connection.due, scripted.connection.reply_bytes) == (1.5, len(MESSAGE + ENDED))
    scripted.connection.send(http2.request("/a", b"m"), 2.5)
    assert scripted.theirs.recv(1 << 16) == http2.on_stream(http2.request("/a", b"m"), 3)


def test_a_call_without_a_message_and_a_connection_that_ends_are_failures(scripted: Scripted) -> None:
    with pytest.raises(ConnectionError, match="without a message"):
        scripted.heard(ENDED)
    with pytest.raises(ConnectionError, match="sent away"):
        scripted.heard(http2.frame(http2.GOAWAY, 0, 0, bytes(8)))
    scripted.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError, match="closed before"):
        scripted.connection.receive()


def test_pings_and_settings_are_answered_and_the_window_is_opened_again(scripted: Scripted) -> None:
    assert not scripted.heard(http2.frame(http2.SETTINGS, 0, 0, b""), http2.frame(http2.PING, 0, 0, b"12345678"))
    answered = http2.frame(http2.SETTINGS, http2.ACK, 0, b"") + http2.frame(http2.PING, http2.ACK, 0, b"12345678")
    assert scripted.theirs.recv(1 << 16) == answered
    scripted.connection._unacknowledged = TOP_UP_BYTES - 6
    assert not scripted.heard(MESSAGE)
    assert scripted.theirs.recv(1 << 16) == http2.widened(TOP_UP_BYTES)


def test_a_grpc_reply_says_what_the_rest_reply_says() -> None:
    pool = sample(12, 16, seed=1)
    message = grpc_bodies.query_reply(pool, bodies.query_reply(pool, seed=1))
    assert grpc_bodies.shown(message) == [(number, True) for number in range(1, 13)]
    assert all(row.tobytes() in message for row in pool.vectors)
    assert "naïve".encode() in message
    asked = grpc_bodies.query_request("bench16", pool, limit=10)
    assert asked.startswith(b"\x0a\x07bench16")
    assert pool.query.tobytes() in asked


def test_only_a_selected_page_is_measured_over_grpc_too() -> None:
    check_page([(number, False) for number in (1, 2, 3, 5, 8, 9, 10, 12, 13, 14)])
    with pytest.raises(OtherSearchError, match="without vectors"):
        check_page([(number, True) for number in (1, 2, 3, 5, 8, 9, 10, 12, 13, 14)])


async def test_canned_messages_are_relayed_by_collection_and_streams_are_counted(tmp_path: Path) -> None:
    made = scene(tmp_path)
    for path, body in made.grpc_replies.items():
        file = tmp_path / "grpc" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    replies = grpc_canned.load(tmp_path / "grpc")
    assert replies[("bench384", QUERY_METHOD)] == made.grpc_replies["bench384" + QUERY_METHOD]
    upstream = grpc.aio.server(handlers=(grpc_canned.Canned(replies),), options=grpc_canned.OPTIONS)
    port = upstream.add_insecure_port("127.0.0.1:0")
    await upstream.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=grpc_canned.OPTIONS) as channel:
        relay = grpc.aio.server(handlers=(grpc_relay.Relay(channel),), options=grpc_canned.OPTIONS)
        through = relay.add_insecure_port("127.0.0.1:0")
        await relay.start()
        loop = asyncio.get_running_loop()
        for dimensions, request in made.grpc_searches.items():
            answer = await loop.run_in_executor(None, ask_grpc, request, through)
            assert answer == replies[(f"bench{dimensions}", QUERY_METHOD)]
        assert await loop.run_in_executor(None, lambda: upload(through, mebibytes=16)) > 0
        unknown = Request(method="POST", path=QUERY_METHOD, body=b"\x0a\x01x", directory=tmp_path, is_grpc=True)
        with pytest.raises(OtherSearchError, match="no canned reply"):
            await loop.run_in_executor(None, ask_grpc, unknown, through)
        await relay.stop(None)
    await upstream.stop(None)


def test_requests_are_asked_for_the_generator_in_frames(tmp_path: Path) -> None:
    request = Request(method="POST", path="/a.B/C", body=b"m", directory=tmp_path, is_grpc=True)
    assert request.raw() == http2.request("/a.B/C", b"m")
