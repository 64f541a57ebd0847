"""The judges of security find what careless servers and proxies do, and have nothing against a careful one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from prove.finding import QUICK
from prove.security_apart import Fared, crowd_apart
from prove.security_canaries import CANARY, Leaks
from prove.security_corpus import HEAD, POISON, PROBES, Probe
from prove.security_floods import HEADS, verdict
from prove.security_ports import PYPROJECT, floor_of, parser
from prove.security_smuggling import Recorder, faults, probed, recorder
from prove.security_targets import internal, prove, requests, tried
from prove.security_tenants import TENANTS, Alone, Judge, calls, database, over_http, pinecones, qdrant, qdrants
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, answering, reply
from support.network.relay_server import bare_relay
from support.network.streams import serving
from support.qdrant.scripted import JSON
from vecsieve.config.schema import LimitSettings

# What S7 and S10 lean on.


def test_the_floor_is_read_from_the_project() -> None:
    assert floor_of("aiohttp", PYPROJECT.read_text(encoding="utf-8")) >= (3, 14, 3), "CVE-2026-54277 and older ones"
    assert floor_of("x", '[project]\ndependencies = ["y>=1", "x>=2.10.1,<3"]') == (2, 10, 1)
    with pytest.raises(ValueError, match="no floor"):
        floor_of("z", '[project]\ndependencies = ["y>=1"]')


def test_the_parser_is_the_tested_one_and_no_other_is_started_on() -> None:
    for finding in parser():
        assert finding.met, finding


# S3 counts a connection when there is one, and through the proxy there is none.


async def test_a_list_that_allows_an_internal_name_is_found_out() -> None:
    async with internal() as inside:
        careless: dict[str, object] = {"pinecone": {"allowed_hosts": (f"a.rebind.example:{inside.port}",)}}
        result = await tried("pinecone", inside, requests(inside.port), careless)
    assert result.met is False
    assert not result.measured.startswith("0;")


async def test_no_form_reaches_an_internal_listener() -> None:
    for finding in await prove(QUICK):
        assert finding.met, finding


# S2 sees a secret where there is one, however it is written.


@pytest.mark.parametrize(
    "text",
    [
        b'{"msg":"' + CANARY + b'"}',
        CANARY.upper(),
        b"Basic " + base64.b64encode(b"u:" + CANARY),
        b"Basic " + base64.b64encode(b"us:" + CANARY + b"!"),
        b"Basic " + base64.b64encode(b"user:" + CANARY),
    ],
)
def test_a_secret_is_seen_in_any_case_and_in_base64(text: bytes) -> None:
    leaks = Leaks()
    leaks.look("here", text)
    assert leaks.places == ["here"]


def test_other_words_are_none() -> None:
    leaks = Leaks()
    leaks.look("here", b"s3cr3t canary " + base64.b64encode(b"another long secret"))
    assert leaks.places == []


# The judge of S4 sees a server that suffers slow heads for ever, and one that does not.


async def attacked(port: int, seconds: float) -> tuple[str, bool]:
    async with crowd_apart(port, HEADS, 5, letters=b"a", seconds=seconds) as crowd:
        crowd.begin()
        await crowd.connected()
        return verdict(await crowd.fared())


async def test_a_server_without_a_deadline_is_found_out() -> None:
    async with FaultyUpstream(answering(reply())) as patient:
        measured, met = await attacked(patient.port, 0.3)
    assert (measured, met) == ("longest 0.0 s, 5 of 5 open still", False)


async def test_one_with_a_deadline_passes() -> None:
    limits = LimitSettings(head_timeout_seconds=0.2)
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url, limits=limits) as relay:
        measured, met = await attacked(relay.port, 1.0)
        assert met, measured
        assert relay.heard.rejected == ["head_timeout"] * 5


def test_without_attackers_nothing_is_proved() -> None:
    assert verdict(Fared(0, 0, 0.0)) == ("longest 0.0 s, 0 of 0 open still", False)


# The judge of S6 finds a cache that forgets whose answer it keeps; through the proxy it finds nothing.


async def test_a_cache_without_the_key_in_its_key_is_found_out() -> None:
    judge, kept = Judge(), dict[bytes, bytes]()
    async with FaultyUpstream(database(judge)) as upstream:

        async def cached(talk: Talk) -> None:
            back = await RawClient.connect(upstream.port)
            while (received := await talk.request()) is not None:
                if received.line not in kept:
                    await back.send(received.raw)
                    kept[received.line] = (await back.reply()).body
                await talk.send(reply(kept[received.line], headers=[JSON]))
            await back.close()

        async with FaultyUpstream(cached) as careless:
            await over_http(careless.port, judge, qdrant, 32)
    finding = judge.finding("searches")
    assert finding.met is False
    assert "answers with the other's bytes" in finding.measured


async def test_an_answer_made_with_the_others_vectors_is_found_out_though_its_bytes_are_the_tenants_own() -> None:
    judge, mark = Judge(), TENANTS[0].mark.encode()
    judge.answer(TENANTS[0], mark + b" r0 r2 r4")
    judge.answer(TENANTS[0], mark + b" r0 r1 r4")
    assert judge.finding("answers").measured == "1 answers that differ from those given alone; 0 answered plainly"


def test_a_plain_answer_is_counted_apart_and_most_must_be_improved() -> None:
    mark = TENANTS[0].mark.encode()
    improved, plain = mark + b" r0 r2 r4", mark + b" r0 r1 r2"
    judge = Judge({TENANTS[0].mark: Alone(improved, plain)})
    for seen in (improved, plain):
        judge.answer(TENANTS[0], seen)
    finding = judge.finding("answers")
    assert finding.measured == "0; 1 answered plainly"
    assert finding.met
    judge.answer(TENANTS[0], plain)
    assert judge.finding("answers").met is False


def test_a_request_that_carries_the_others_bytes_and_an_answer_that_is_nobodys_are_found_out() -> None:
    judge = Judge()
    judge.request(TENANTS[0], Received(0, b"api-key: " + TENANTS[1].mark.encode(), b"").raw)
    judge.answer(TENANTS[1], b"{}")
    assert sum(judge.crossed.values()) == 2


async def test_through_the_proxy_nothing_crosses() -> None:
    for finding in (await qdrants(80), await pinecones(80), await calls(16)):
        assert finding.met, finding
    await asyncio.sleep(0)


# The judge of S1 finds what two careless proxies let through, and has nothing against a careful one.

OF = {probe.name: probe for probe in PROBES}


@asynccontextmanager
async def lengths_only(database: Recorder) -> AsyncIterator[int]:
    """A proxy that frames by Content-Length alone and hands every head on as it came."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", database.port)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                (_, _, length), *_ = [line.partition(b": ") for line in head.split(b"\r\n") if b"Length: " in line] or [
                    (b"", b"", b"0")
                ]
                forth.write(head + await reader.readexactly(int(length)))
                writer.write(await back.readuntil(b"seen"))
                if b"close" in head:
                    break
        except (asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()
            forth.close()

    async with serving(serve) as port:
        yield port


@pytest.mark.parametrize(
    "name", ["CL.TE", "TE.TE, xchunked", "TE.TE, a space before the colon", "TE.TE, folded by a tab"]
)
async def test_a_proxy_that_believes_lengths_alone_is_found_to_smuggle(name: str) -> None:
    async with recorder() as database, lengths_only(database) as port:
        wrong = await probed(database, port, OF[name])
    assert any("sees b'GET /smuggled" in fault for fault in wrong) == (name != "TE.TE, folded by a tab"), wrong
    assert wrong


def test_a_proxy_that_copies_bytes_is_found_in_every_probe_that_is_to_be_refused() -> None:
    taken = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    refused = taken.replace(b"200 OK", b"400 Bad Request")
    probes = [probe for probe in PROBES if probe.status is not None]
    assert [probe.name for probe in probes if not faults(probe, [probe.data + POISON], taken)] == []
    # Some frame nothing for any reader, so that only the answer tells; of most the database's own bytes do.
    seen = [probe.name for probe in probes if faults(probe, [probe.data + POISON], refused)]
    assert len(seen) > 0.9 * len(probes)


def test_a_careful_proxy_is_not_accused() -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    assert faults(OF["CL.TE"], [], refused) == []
    taken = Probe(name="plain", data=HEAD + b"Content-Length: 3\r\n\r\nabc", status=None, framed=(b"abc",))
    assert faults(taken, [taken.data, POISON], b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 2) == []


@pytest.mark.parametrize(
    ("raws", "answer"),
    [
        ([], None),
        ([], b"HTTP/1.1 200 OK\r\n\r\n"),
        ([], b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2),
        ([POISON], b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ([HEAD], b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ],
    ids=["open", "answered", "twice", "the poison arrived", "it began"],
)
def test_what_is_no_refusal_is_told(raws: list[bytes], answer: bytes | None) -> None:
    assert faults(OF["CL.TE"], raws, answer) != []


def test_a_field_that_the_client_gave_to_another_request_is_told() -> None:
    poison = POISON.replace(b"Host", b"Api-Key: stolen\r\nHost")
    answers = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 2
    assert any("carries" in fault for fault in faults(OF["trailers"], [OF["trailers"].data, poison], answers))
