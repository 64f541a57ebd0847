from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.outflow import ReplyObserver
from vecsieve.proxy.http.upstream_connection import Exchange


@dataclass(frozen=True, slots=True)
class Head:
    status: int = 200
    raw_headers: tuple[tuple[bytes, bytes], ...] = field(default=())

    @property
    def content_length(self) -> int | None:
        return next((int(value) for name, value in self.raw_headers if name.lower() == b"content-length"), None)


def heard(
    *pieces: bytes,
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    limit: int = 100,
    cut: bool = False,
) -> list[bytes]:
    learned: list[bytes] = []
    observer = ReplyObserver(learned.append, limit_bytes=limit)
    observer.begin(cast(Exchange, Head(status, headers)))
    for piece in pieces:
        observer.receive(piece)
    if not cut:
        observer.end()
    return learned


@given(pieces=st.lists(st.binary(max_size=20), max_size=5))
def test_the_whole_body_is_heard_once_however_it_comes(pieces: list[bytes]) -> None:
    """Invariant: one call with the joined pieces, with a length or without."""
    body = b"".join(pieces)
    assert heard(*pieces) == [body]
    assert heard(*pieces, headers=((b"Content-Length", b"%d" % len(body)),)) == [body]


def test_the_last_piece_is_read_before_it_is_sent_on() -> None:
    assert heard(b"ab", b"c", headers=((b"content-length", b"3"),), cut=True) == [b"abc"]


def test_a_body_that_was_cut_is_not_heard() -> None:
    assert heard(b"ab", headers=((b"content-length", b"3"),), cut=True) == []
    assert heard(b"ab", cut=True) == []


@pytest.mark.parametrize("status", [199, 300, 404, 500])
def test_only_a_success_is_heard(status: int) -> None:
    assert heard(b"ab", status=status) == []


def test_what_is_too_long_is_not_heard() -> None:
    assert heard(b"a" * 60, b"b" * 40) != []
    assert heard(b"a" * 60, b"b" * 41, b"c") == []


def test_a_coding_that_is_read_is_undone_and_another_is_not_heard() -> None:
    packed = zlib.compress(b"x" * 50, wbits=31)
    assert heard(packed, headers=((b"content-encoding", b"gzip"),)) == [b"x" * 50]
    assert heard(zlib.compress(b"x" * 500, wbits=31), headers=((b"content-encoding", b"gzip"),)) == []
    assert heard(b"...", headers=((b"Content-Encoding", b"br"),)) == []


def test_an_answer_whose_head_never_came_is_not_heard() -> None:
    learned: list[bytes] = []
    observer = ReplyObserver(learned.append)
    observer.receive(b"a")
    observer.end()
    assert learned == []
