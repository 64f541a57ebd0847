"""The gRPC side of the benchmarks: a generator that counted failures, or another search, would print a wrong table."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench import http2
from bench.connections import GrpcConnection
from bench.generator import RECEIVE_BYTES


class Scripted:
    """A connection whose other end is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours, self.theirs = socket.socketpair()
        monkeypatch.setattr("bench.connections.connected", lambda _port: ours)
        self.connection = GrpcConnection(1, bytearray(RECEIVE_BYTES))
        self.stated = self.theirs.recv(1 << 16)

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
    assert scripted.stated == http2.greeting()
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
