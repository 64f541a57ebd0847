"""What is asked of an answer that is to be changed, and what becomes of it."""

from __future__ import annotations

import gzip
from typing import cast

import pytest

from vecsieve.proxy.http.answers import Editing, hold, readable
from vecsieve.proxy.http.headers import RawHeaders
from vecsieve.proxy.http.upstream_connection import Exchange

BIG = Editing(change=lambda body: body.replace(b"a", b"bb"), limit_bytes=1000)


class Canned:
    """A reply whose body comes in the given pieces."""

    def __init__(self, *pieces: bytes, status: int = 200, headers: RawHeaders = ()) -> None:
        self.status, self.reason, self.raw_headers = status, "Fine", headers
        self.pieces = pieces
        self.taken = 0

    async def read(self) -> bytes:
        self.taken += 1
        return b"".join(self.pieces[self.taken - 1 : self.taken])

    @property
    def as_reply(self) -> Exchange:
        return cast("Exchange", self)


def headers_of(reply: Canned, body: bytes) -> list[tuple[str, str]] | None:
    answer = BIG.answer(reply.as_reply, body)
    return None if answer is None else list(answer.headers.items())


def test_a_changed_answer_has_its_own_length_and_every_other_field_in_its_place() -> None:
    fields = ((b"X-B", b"1"), (b"content-length", b"1"), (b"x-b", b"2"), (b"Connection", b"x-gone"), (b"X-Gone", b"3"))
    assert headers_of(Canned(headers=fields), b"a") == [("X-B", "1"), ("content-length", "2"), ("x-b", "2")]


def test_chunks_become_a_length() -> None:
    assert headers_of(Canned(headers=((b"Transfer-Encoding", b"chunked"),)), b"a") == [("Content-Length", "2")]


def test_a_coding_is_undone_and_no_longer_claimed() -> None:
    packed = gzip.compress(b"aaa", mtime=0)
    reply = Canned(headers=((b"Content-Encoding", b"gzip"), (b"Content-Length", b"%d" % len(packed))))
    assert headers_of(reply, packed) == [("Content-Length", "6")]


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (Canned(), b"nothing to do"),
        (Canned(status=404), b"a"),
        (Canned(status=302), b"a"),
        (Canned(headers=((b"Content-Encoding", b"br"),)), b"a"),
        (Canned(headers=((b"Content-Encoding", b"gzip"),)), b"a"),
        (
            Canned(headers=((b"Content-Encoding", b"gzip"), (b"Content-Encoding", b"gzip"))),
            gzip.compress(b"a", mtime=0),
        ),
        (Canned(headers=((b"Content-Encoding", b"gzip"),)), gzip.compress(b"a" * 1001, mtime=0)),
    ],
)
def test_what_has_nothing_to_change_or_cannot_be_read_goes_out_as_it_came(reply: Canned, body: bytes) -> None:
    assert headers_of(reply, body) is None


@pytest.mark.parametrize("offer", [b"", b"gzip, deflate", b"GZIP;q=1.0,deflate", b"identity", b"gzip;q=0"])
def test_codings_that_can_be_undone_are_asked_for_as_the_client_did(offer: bytes) -> None:
    raw = ((b"A", b"1"), (b"Accept-Encoding", offer), (b"B", b"2"))
    assert readable(raw) is raw
    assert readable(()) == ()


@pytest.mark.parametrize("offer", [b"br", b"gzip, deflate, br, zstd", b"*", b"gzip, *;q=0.1"])
def test_others_are_not_asked_for(offer: bytes) -> None:
    raw = ((b"A", b"1"), (b"Accept-Encoding", offer), (b"B", b"2"))
    assert readable(raw) == [(b"A", b"1"), (b"Accept-Encoding", b"identity"), (b"B", b"2")]


async def test_a_body_within_the_limit_is_held_whole() -> None:
    assert await hold(Canned(b"ab", b"c").as_reply, 3) == ([b"ab", b"c"], True)
    assert await hold(Canned().as_reply, 3) == ([], True)


async def test_past_the_limit_nothing_more_is_read() -> None:
    reply = Canned(b"ab", b"cd", b"ef")
    assert await hold(reply.as_reply, 3) == ([b"ab", b"cd"], False)
    assert reply.taken == 2
