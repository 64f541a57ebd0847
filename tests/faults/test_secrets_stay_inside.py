"""A secret in any header, target, body or malformed request appears in no log record and in no answer of ours."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import pytest
from aiohttp import web

from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, answering, raw_exchange, reply
from support.network.relay_server import Invalidation, PlainDialect, bare_relay
from support.network.streams import listening
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.listener import DataServer, listen
from vecsieve.proxy.runtime.addresses import DataPort

CANARY = b"s3cr3t-canary"
HOST = b"Host: c\r\n"
REQUESTS = {
    "control character": b"GET / HTTP/1.1\r\n" + HOST + b"api-key: " + CANARY + b"\x01\r\n\r\n",
    "over-long field": b"GET / HTTP/1.1\r\n" + HOST + b"api-key: " + CANARY * 2000 + b"\r\n\r\n",
    "over-long name": b"GET / HTTP/1.1\r\n" + HOST + CANARY * 2000 + b": x\r\n\r\n",
    "over-long target": b"GET /" + CANARY * 2000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "bad name": b"GET / HTTP/1.1\r\n" + HOST + b"api key " + CANARY + b": x\r\n\r\n",
    "bad method": CANARY.upper() + b" / HTTP/1.1\r\n" + HOST + b"\r\n",
    "bad target": b"GET " + CANARY + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "absolute target": b"GET http://u:" + CANARY + b"@evil/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "bad authority": b"CONNECT " + CANARY + b":x:y HTTP/1.1\r\n" + HOST + b"\r\n",
    "bad version": b"GET / HTTP/" + CANARY + b"\r\n" + HOST + b"\r\n",
    "bad host": b"GET / HTTP/1.1\r\nHost: [" + CANARY + b"\r\nConnection: close\r\n\r\n",
    "bad length": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + CANARY + b"\r\n\r\n",
    "bad coding": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: " + CANARY + b"\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + CANARY + b"\r\n",
    "no UTF-8": b"GET / HTTP/1.1\r\n" + HOST + b"api-key: \xff" + CANARY + b"\r\n\r\n",
    "bad cookie": b"GET / HTTP/1.1\r\n" + HOST + b"Cookie: a=" + CANARY + b"\x00;\r\n\r\n",
    "websocket key": b"GET / HTTP/1.1\r\n" + HOST + b"Sec-WebSocket-Key1: " + CANARY + b"\r\n\r\n",
    "plain": b"GET /?key="
    + CANARY
    + b" HTTP/1.1\r\n"
    + HOST
    + b"Authorization: Bearer "
    + CANARY
    + b"\r\nConnection: close\r\n\r\n",
    "half a head": b"GET / HTTP/1.1\r\n" + HOST + b"api-key: " + CANARY,
}


def assert_silent(caplog: pytest.LogCaptureFixture, *answers: bytes) -> None:
    canary = CANARY.decode()
    for answer in answers:
        assert CANARY.lower() not in answer.lower()
    for record in caplog.records:
        whole = logging.Formatter("%(message)s").format(record) + repr(record.__dict__)
        assert canary not in whole.lower(), record.name


@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_secret_in_a_request_is_neither_logged_nor_reflected(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(False)
    async with (
        FaultyUpstream(answering(b"no http at all\r\n\r\n")) as upstream,
        bare_relay(upstream.url, limits=LimitSettings(head_timeout_seconds=0.2)) as relay,
    ):
        answer = await raw_exchange(relay.port, data)
    assert answer
    assert_silent(caplog, answer)


async def test_control_aiohttp_alone_reflects_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    async def hello(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    aiohttp_logger = logging.getLogger("aiohttp.server")
    kept, aiohttp_logger.filters = aiohttp_logger.filters, []
    try:
        async with listening(web.Server(hello)) as server:
            answer = await raw_exchange(server.sockets[0].getsockname()[1], REQUESTS["control character"])
    finally:
        aiohttp_logger.filters = kept
    assert CANARY in answer, f"aiohttp {aiohttp.__version__} no longer reflects: our override may go"
    assert CANARY.decode() in caplog.text


async def test_a_secret_in_the_message_of_a_handlers_exception_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: web.BaseRequest) -> web.StreamResponse:
        raise ValueError(request.headers["api-key"])

    limits, heard = LimitSettings(), Invalidation()
    server = DataServer(broken, limits, LocalAnswers(PlainDialect()), heard)
    listener = await listen(server, limits, DataPort("127.0.0.1", 0))
    answer = await raw_exchange(listener.ports[0], b"GET / HTTP/1.1\r\n" + HOST + b"api-key: " + CANARY + b"\r\n\r\n")
    await listener.close(grace_seconds=1)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert heard.answered == ["internal"]
    assert "ValueError at " in caplog.text, "the operator still learns what and where"
    assert_silent(caplog, answer)


async def test_a_secret_in_an_unobserved_exception_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url):
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"lost {CANARY.decode()}", "exception": ValueError(CANARY.decode())}
        )
    assert any(record.name == "asyncio" and "ValueError" in record.message for record in caplog.records)
    assert_silent(caplog)


async def test_a_secret_in_a_damaged_reply_or_a_cut_upload_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\nX: " + CANARY + b"\x01\r\n\r\n")

    async with FaultyUpstream(script) as upstream, bare_relay(upstream.url) as relay:
        client = await RawClient.connect(relay.port)
        await client.send(b"PUT /" + CANARY + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 50\r\n\r\n" + CANARY)
        answer = await client.reply()
        client.reset()
    assert answer.status == 502
    assert_silent(caplog, answer.head + answer.body)
