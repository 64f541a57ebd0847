"""The database misbehaves: the client sees what a direct call would have shown, or an answer that says it is ours."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from support.network.broken_answers import CHUNKED, CUT_BODIES, NO_HEAD, after_request
from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, answering, reply
from support.network.relay_server import bare_relay, relayed
from support.network.streams import serving
from support.network.upstream_wire import sending
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.search.errors import FailureKind, UpstreamExchangeError

GET = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"


@pytest.mark.parametrize("name", NO_HEAD)
async def test_no_usable_head_is_a_502_that_says_whose_it_is(name: str) -> None:
    sent, reset, kind = NO_HEAD[name]
    async with relayed(after_request(sent, reset=reset), GET) as (client, relay, _):
        answer = await client.reply()
        await client.close()
        assert answer.status == 502
        assert answer.header(b"x-vecsieve-origin") == b"proxy"
        assert relay.heard.upstream == [kind]
        assert relay.heard.answered == ["upstream_broke"]


@pytest.mark.parametrize("answer", CUT_BODIES.values(), ids=CUT_BODIES)
@pytest.mark.parametrize("reset", [False, True])
async def test_a_cut_body_is_a_broken_connection_never_a_complete_answer(answer: bytes, reset: bool) -> None:
    async with relayed(after_request(answer, reset=reset), GET) as (client, relay, _):
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reply()
        await client.close()
        assert relay.heard.upstream == ["truncated"]
        assert relay.heard.answered == []


async def test_a_bad_chunk_amid_a_body_breaks_the_connection_at_once() -> None:
    proceed = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(CHUNKED + b"5\r\nhello\r\n")
        await proceed.wait()
        await talk.send(b"zz\r\n")
        await talk.reader.read()

    async with relayed(script, GET) as (client, relay, _):
        await client.head()
        assert await client.reader.readexactly(10) == b"5\r\nhello\r\n"
        proceed.set()
        assert await client.rest() == b"", "a bad chunk passed for an end"
        await client.close()
        assert relay.heard.upstream == ["truncated"]


async def test_a_reset_within_a_close_delimited_body_is_a_reset_not_an_end() -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\nsome of it"
    async with relayed(after_request(answer, reset=True), GET) as (client, _, _):
        await client.head()
        with pytest.raises(ConnectionError):
            await client.rest()


async def test_a_refused_connection_is_a_502_and_nothing_was_sent() -> None:
    async with FaultyUpstream(answering(reply())) as gone:
        url = gone.url
    async with bare_relay(url) as relay:
        client = await RawClient.connect(relay.port)
        await client.send(GET)
        assert (await client.reply()).status == 502
        assert relay.heard.upstream == ["connect"]
        await client.close()


async def test_the_first_request_after_the_database_returns_succeeds() -> None:
    async with FaultyUpstream(answering(reply())) as first:
        port = first.port
    async with bare_relay(f"http://127.0.0.1:{port}") as relay:
        client = await RawClient.connect(relay.port)
        await client.send(GET)
        assert (await client.reply()).status == 502
        async with serving(_answer_one, port=port):
            await client.send(GET)
            assert (await client.reply()).status == 200
            await client.close()


async def _answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(reply(b"back"))
    writer.close()


async def test_a_full_backlog_is_given_up_at_the_connect_deadline() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = []
    for _ in range(4):  # the kernel answers no further SYN once the queue is full
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        fillers.append(filler)
    upstream = Upstream(
        UpstreamSettings(url=f"http://127.0.0.1:{listener.getsockname()[1]}", connect_timeout_seconds=0.2)
    )
    with pytest.raises(UpstreamExchangeError) as caught:
        async with sending(upstream, method="GET", raw_target="/", headers=[], body=None):
            pass
    assert caught.value.kind is FailureKind.CONNECT
    await upstream.close()
    for sock in [*fillers, listener]:
        sock.close()


async def test_an_unknown_host_is_a_dns_failure() -> None:
    upstream = Upstream(UpstreamSettings(url="http://does-not-exist.invalid:6333"))
    with pytest.raises(UpstreamExchangeError) as caught:
        async with sending(upstream, method="GET", raw_target="/", headers=[], body=None):
            pass
    assert caught.value.kind is FailureKind.DNS
    await upstream.close()


async def test_a_silent_database_is_a_504_after_the_idle_deadline() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.reader.read()

    async with relayed(script, GET, upstream_settings={"stream_idle_timeout_seconds": 0.2}) as (client, relay, _):
        assert (await client.reply()).status == 504
        assert relay.heard.upstream == ["timeout"]


async def test_a_database_that_stops_within_a_body_breaks_the_connection_at_the_idle_deadline() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(b"some", length=100))
        await talk.reader.read()

    async with relayed(script, GET, upstream_settings={"stream_idle_timeout_seconds": 0.2}) as (client, relay, _):
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reply()
        assert relay.heard.upstream == ["timeout"]


async def test_a_database_that_stops_reading_an_upload_is_given_up_at_the_idle_deadline() -> None:
    async def script(talk: Talk) -> None:
        talk.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await talk.head()
        await asyncio.sleep(10)

    async with FaultyUpstream(script) as upstream:
        client = Upstream(UpstreamSettings(url=upstream.url, stream_idle_timeout_seconds=0.3))
        with pytest.raises(UpstreamExchangeError) as caught:
            async with sending(client, method="PUT", raw_target="/", headers=[], body=b"x" * 30_000_000):
                pass
        await client.close()
    assert caught.value.kind is FailureKind.TIMEOUT


async def test_a_slow_but_steady_database_is_waited_for() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(b"0123456789"), slice_bytes=16, pause_seconds=1.2)

    async with relayed(script, GET, upstream_settings={"stream_idle_timeout_seconds": 3.5}) as (client, _, _):
        assert (await client.reply()).body == b"0123456789"


@pytest.mark.parametrize("late", [False, True])
async def test_what_a_database_says_unasked_is_no_answer_to_the_next_request(late: bool) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(b"first") + (b"" if late else reply(b"evil")))
        if late:
            await asyncio.sleep(0.05)
            await talk.send(reply(b"evil"))
        while await talk.request() is not None:
            await talk.send(reply(b"next"))

    async def plain(talk: Talk) -> None:
        await (script(talk) if talk.number == 0 else answering(reply(b"next"))(talk))

    async with relayed(plain, GET) as (client, _, _):
        assert (await client.reply()).body == b"first"
        await asyncio.sleep(0.1)
        await client.send(GET)
        assert (await client.reply()).body == b"next"


async def test_a_deadline_covers_the_body_too() -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(reply(b"some", length=100))
        await talk.reader.read()

    async with FaultyUpstream(script) as upstream:
        client = Upstream(UpstreamSettings(url=upstream.url))
        with pytest.raises(UpstreamExchangeError) as caught:
            async with sending(
                client, method="GET", raw_target="/", headers=[], body=None, deadline_seconds=0.2
            ) as answer:
                await answer.read_bounded(1000)
        await client.close()
    assert caught.value.kind is FailureKind.TIMEOUT


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    extra = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command, *extra], check=True, capture_output=True)
    return key, cert


async def test_an_https_database_is_verified_by_default(certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(cert, key)
    async with FaultyUpstream(answering(reply(b"ok")), tls=served) as upstream:
        settings = UpstreamSettings(url=f"https://localhost:{upstream.port}")
        distrustful = Upstream(settings)
        with pytest.raises(UpstreamExchangeError) as caught:
            async with sending(distrustful, method="GET", raw_target="/", headers=[], body=None):
                pass
        await distrustful.close()
        trusting = Upstream(settings, tls=ssl.create_default_context(cafile=str(cert)))
        async with sending(trusting, method="GET", raw_target="/", headers=[], body=None) as answer:
            assert await answer.read_bounded(10) == b"ok"
        await trusting.close()
    assert caught.value.kind is FailureKind.TLS
