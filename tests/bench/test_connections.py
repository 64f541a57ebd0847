"""The gRPC side of the benchmarks: a generator that counted failures, or another search, would print a wrong table."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import http2
from bench.connections import TOP_UP_BYTES, GrpcConnection
from bench.generator import RECEIVE_BYTES
from bench.load import Request

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


def test_requests_are_asked_for_the_generator_in_frames() -> None:
    request = Request(method="POST", path="/a.B/C", body=b"m", is_grpc=True)
    assert request.raw() == http2.request("/a.B/C", b"m")
