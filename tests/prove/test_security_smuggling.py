"""The judge of S1 finds what two careless proxies let through, and has nothing against a careful one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from prove.security_corpus import HEAD, POISON, PROBES, Probe
from prove.security_smuggling import Recorder, faults, probed, recorder
from support.network.streams import serving

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
    assert any("sees b'GET /smuggled" in each for each in wrong) == (name != "TE.TE, folded by a tab"), wrong
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
