from __future__ import annotations

import asyncio
import gzip
import json
from typing import cast
from unittest.mock import Mock

import pytest
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.helpers import must_be_empty_body
from aiohttp.http import HttpVersion, StreamWriter
from aiohttp.test_utils import make_mocked_request

from support.network.relay_server import PlainDialect
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.proxy.http.answers import Editing, LocalAnswers, RawResponse, hold, readable
from vecsieve.proxy.http.headers import RawHeaders
from vecsieve.proxy.http.upstream_connection import Exchange
from vecsieve.proxy.search.errors import WORDING, Trouble

ANSWERS = LocalAnswers(PlainDialect())


@pytest.mark.parametrize("trouble", list(Trouble))
def test_every_trouble_has_a_native_answer_that_says_it_is_ours(trouble: Trouble) -> None:
    response = ANSWERS.response(trouble, "/")
    assert response.status == WORDING[trouble][0]
    assert response.headers["x-vecsieve-origin"] == "proxy"
    assert response.headers["Content-Type"] == "application/json"
    assert (response.headers.get("Retry-After") == "1") is (response.status == 503)


@pytest.mark.parametrize("trouble", list(Trouble))
def test_the_same_answer_as_bytes_is_whole_and_says_that_it_closes(trouble: Trouble) -> None:
    head, body = ANSWERS.wire(trouble).split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 %d " % WORDING[trouble][0])
    assert b"Content-Length: %d" % len(body) in lines
    assert b"Connection: close" in lines
    assert json.loads(body)["status"]["error"] == WORDING[trouble][1]


@pytest.mark.parametrize("trouble", [Trouble.MALFORMED, Trouble.BODY_TIMEOUT, Trouble.TWO_FRAMINGS, Trouble.INTERNAL])
def test_what_leaves_a_connection_in_doubt_ends_it(trouble: Trouble) -> None:
    assert ANSWERS.response(trouble, "/").keep_alive is False


@pytest.mark.parametrize("trouble", [Trouble.NO_UPSTREAM, Trouble.UPSTREAM_TIMEOUT, Trouble.OVERLOADED])
def test_what_is_the_databases_doing_keeps_the_connection(trouble: Trouble) -> None:
    assert ANSWERS.response(trouble, "/").keep_alive is None


def test_an_answer_without_a_type_sends_none() -> None:
    response = ANSWERS.native(NativeAnswer(status=401, content_type="", body=b"no"))
    assert "Content-Type" not in response.headers


class Wire(asyncio.Transport):
    """A client's connection that remembers what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_ended = False

    def write(self, data: bytes) -> None:  # type: ignore[override]  # - bytes are all that is written
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_ended


def request_of(wire: Wire, method: str, version: HttpVersion) -> web.BaseRequest:
    protocol = Mock(transport=wire, must_close=False, _paused=False)
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    return make_mocked_request(method, "/", version=version, transport=wire, protocol=protocol, writer=writer)


FRAMINGS = {"length": ("content-length", "{}"), "chunks": ("Transfer-Encoding", "chunked"), "end": None}


@pytest.mark.parametrize("version", [HttpVersion10, HttpVersion11])
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("status", [200, 204, 304, 404])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("body", [b"", b"hello"])
async def test_a_whole_answer_is_one_write_of_the_bytes_that_aiohttps_writer_would_send(
    version: HttpVersion, framing: str, status: int, method: str, body: bytes
) -> None:
    framing_field = FRAMINGS[framing]
    headers = [
        ("X-A", "1"),
        ("x-a", "caf\u00e9"),
        *([] if framing_field is None else [(framing_field[0], framing_field[1].format(len(body)))]),
    ]
    streamed, whole = Wire(), Wire()
    response, request = RawResponse(status, "Fine", headers), request_of(streamed, method, version)
    await response.prepare(request)
    if not must_be_empty_body(method, status):
        await response.put(body)
    await response.write_eof()
    at_once, request = RawResponse(status, "Fine", headers), request_of(whole, method, version)
    at_once.send_whole(request, body)
    assert whole.writes == [b"".join(streamed.writes)]
    assert (at_once.keep_alive, at_once.body_bytes) == (response.keep_alive, response.body_bytes)
    await at_once.prepare(request)
    await at_once.write_eof()
    assert len(whole.writes) == 1, "aiohttp's server ends every answer once more"


async def test_a_whole_answer_for_a_client_that_is_gone_is_not_written() -> None:
    wire = Wire()
    wire.is_ended = True
    with pytest.raises(ConnectionError):
        RawResponse(200, "OK", [("Content-Length", "2")]).send_whole(request_of(wire, "GET", HttpVersion11), b"ok")
    assert wire.writes == []


# What is asked of an answer that is to be changed, and what becomes of it.

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
