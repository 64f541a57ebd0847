from __future__ import annotations

import asyncio
import json
from unittest.mock import Mock

import pytest
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.helpers import must_be_empty_body
from aiohttp.http import HttpVersion, StreamWriter
from aiohttp.test_utils import make_mocked_request

from support.network.relay_server import PlainDialect
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.proxy.http.answers import LocalAnswers, RawResponse
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


def asked(wire: Wire, method: str, version: HttpVersion) -> web.BaseRequest:
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
    own = FRAMINGS[framing]
    headers = [("X-A", "1"), ("x-a", "caf\u00e9"), *([] if own is None else [(own[0], own[1].format(len(body)))])]
    streamed, whole = Wire(), Wire()
    response, request = RawResponse(status, "Fine", headers), asked(streamed, method, version)
    await response.prepare(request)
    if not must_be_empty_body(method, status):
        await response.put(body)
    await response.write_eof()
    at_once, request = RawResponse(status, "Fine", headers), asked(whole, method, version)
    at_once.send_whole(request, body)
    assert whole.writes == [b"".join(streamed.writes)]
    assert (at_once.keep_alive, at_once.body_length) == (response.keep_alive, response.body_length)
    await at_once.prepare(request)
    await at_once.write_eof()
    assert len(whole.writes) == 1, "aiohttp's server ends every answer once more"


async def test_a_whole_answer_for_a_client_that_is_gone_is_not_written() -> None:
    wire = Wire()
    wire.is_ended = True
    with pytest.raises(ConnectionError):
        RawResponse(200, "OK", [("Content-Length", "2")]).send_whole(asked(wire, "GET", HttpVersion11), b"ok")
    assert wire.writes == []
