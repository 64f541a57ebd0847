"""Requests that two parsers could read apart: the database never sees one that the client did not frame.

The corpus of `make prove`, each probe with a poisoned request behind it on the same connection. Requests are framed before any
mode is looked at: every probe is sent in mode `on`, and one of each kind in the others. `make prove` sends all in each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prove.security_corpus import HEAD, POISON, PROBES, Probe
from prove.security_smuggling import MODES, Recorder, probed, recorder

from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, answering, raw_exchange, reply
from support.network.relay_server import bare_relay
from support.process.running import running

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
# One that is refused for two framings, for a coding, for a length, for a field, for a chunk, within a chunked body; and what is
# let through: trailers, a body with a request in it, searches, which each mode treats in its own way.
IN_EVERY_MODE = {
    "CL.TE",
    "TE.TE, xchunked",
    "CL twice, apart",
    "bare LF in the head",
    "chunks, a size that is none",
    "chunks, a size that is none, behind a good one",
    "trailers",
    "a request inside a body",
    "a request inside a search",
    "a request behind a search",
}
Plane = tuple[Recorder, int]


def probes_of(mode: str) -> list[Probe]:
    return [probe for probe in PROBES if mode == "on" or probe.name in IN_EVERY_MODE]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(request: pytest.FixtureRequest) -> AsyncIterator[Plane]:
    async with recorder() as database, running(f"http://127.0.0.1:{database.port}", mode=request.param) as proxy:
        yield database, proxy.port


def test_the_corpus_has_at_least_sixty_probes_each_with_a_name_of_its_own() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES) >= 60
    assert len({probe.data for probe in PROBES}) == len(PROBES)
    assert {probe.name for probe in PROBES} >= IN_EVERY_MODE


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("plane", "probe"),
    [pytest.param(mode, probe, id=f"{mode}-{probe.name}") for mode in MODES for probe in probes_of(mode)],
    indirect=["plane"],
)
async def test_the_database_sees_what_the_client_framed_and_nothing_else(plane: Plane, probe: Probe) -> None:
    assert await probed(*plane, probe) == []


Relay = tuple[FaultyUpstream, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def relay() -> AsyncIterator[Relay]:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        yield upstream, relay.port


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "probe", [probe for probe in PROBES if probe.status is not None and not probe.begins], ids=lambda probe: probe.name
)
async def test_a_refusal_says_who_refused_and_needs_no_connection_to_the_database(relay: Relay, probe: Probe) -> None:
    upstream, port = relay
    answer = await raw_exchange(port, probe.data + POISON)
    assert upstream.connections == 0
    assert answer.split(b" ")[1] == b"%d" % (probe.status or 0)
    assert b"x-vecsieve-origin: proxy" in answer
    assert b"Server:" not in answer
    assert b"Date:" not in answer


async def test_an_upgrade_to_http2_is_answered_as_an_ordinary_request() -> None:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        client = await RawClient.connect(relay.port)
        await client.send(
            b"GET /a HTTP/1.1\r\nHost: c\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n"
        )
        assert (await client.reply()).body == b"seen"
        await client.send(POISON)
        assert (await client.reply()).body == b"seen"
        await client.close()
        assert [name for name, _ in upstream.requests[0].headers] == [b"Host"]
        assert len(upstream.requests) == 2


async def test_a_trailer_never_becomes_a_field_of_the_next_request() -> None:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        client = await RawClient.connect(relay.port)
        await client.send(CHUNKED + b"3\r\nabc\r\n0\r\nApi-Key: stolen\r\n\r\n")
        answer = await client.reply()
        assert (answer.body, answer.header(b"connection")) == (b"seen", b"close")
        assert await client.rest() == b""
        await client.close()
        assert [received.content for received in upstream.requests] == [b"abc"]


async def test_behind_chunks_without_trailers_a_connection_is_used_again() -> None:
    async with FaultyUpstream(answering(reply(b"seen"))) as upstream, bare_relay(upstream.url) as relay:
        client = await RawClient.connect(relay.port)
        for _ in range(3):
            await client.send(CHUNKED + b"3\r\nabc\r\n")
            await client.send(b"0\r\n\r\n")
            assert (await client.reply()).header(b"connection") is None
        await client.close()
        assert [received.content for received in upstream.requests] == [b"abc"] * 3


@pytest.mark.parametrize("slices", [0, 1])
async def test_a_trailer_of_an_answer_is_in_no_other_answer(slices: int) -> None:
    async def script(talk: Talk) -> None:
        while (request := await talk.request()) is not None:
            first = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nSet-Cookie: other\r\n\r\n"
            answer = first if request.line == b"GET /first HTTP/1.1" else reply(b"seen")
            await talk.send(answer, slice_bytes=slices or None)

    async with FaultyUpstream(script) as upstream, bare_relay(upstream.url) as relay:
        for path in (b"/first", b"/second", b"/third"):
            answer = await raw_exchange(relay.port, b"GET %s HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n" % path)
            assert b"other" not in answer
        assert upstream.connections == 1, "another connection would prove nothing"
