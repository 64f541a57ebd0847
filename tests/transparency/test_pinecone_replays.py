"""Every recorded request of a Pinecone client asked twice: of an emulator, and of another one behind the proxy.

In mode on: that off and shadow change nothing, test_pinecone_captures.py proves for every recording. Both begin empty of
everything but the same records and hear the same requests in the same order, so their counters agree and an answer through the proxy can be compared with the direct one whole: status, reason, headers in their order, bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from servers.pinecone.server import serve

from support.exchanges.captures import NEEDS_CAPTURES, Captured, recordings
from support.network.faulty_upstream import RawClient, RawReply
from support.pinecone.emulator import LOCAL
from support.pinecone.loading import SPEC, sent
from support.process.running import running

RECORDINGS = {name: made for name, made in recordings("pinecone").items() if not name.endswith("grpc")}
# What the recorded clients ask near and write: everything else lies across it, so that nothing is a copy of anything.
ALONG = np.array([0.1, 0.2, 0.3])
ACROSS, OTHER = np.array([0.3, 0.0, -0.1]), np.array([-0.02, 0.1, -0.06])
VECTORS = {
    "a": ALONG,
    "p": ACROSS + 0.3 * ALONG,
    "q": 0.2 * ALONG - ACROSS,
    "r": 3 * OTHER + 0.1 * ALONG,
    "s": -3 * OTHER,
}
RECORDS = [
    {
        "id": name,
        "values": [float(value) for value in vector],
        "sparseValues": {"indices": [1, 5 + place], "values": [0.25, 0.5]},
        "metadata": {"genre": "x", "t": 2**53 - place},
    }
    for place, (name, vector) in enumerate(VECTORS.items())
]


@asynccontextmanager
async def stocked() -> AsyncIterator[str]:
    """The URL of an index of an emulator of its own."""
    async with serve(LOCAL) as emulator:
        description = {"name": "idx", "dimension": 3, "metric": "dotproduct", "spec": SPEC}
        host = (await asyncio.to_thread(sent, emulator.url, "/indexes", description))["host"]
        for namespace in ("", "ns1"):
            await asyncio.to_thread(sent, host, "/vectors/upsert", {"vectors": RECORDS, "namespace": namespace})
        yield host


async def heard(port: int, requests: list[Captured]) -> list[RawReply]:
    """The answers, all on one connection, as recorded."""
    client = await RawClient.connect(port)
    answers = []
    for request in requests:
        await client.send(request.raw)
        answers.append(await client.reply())
    await client.close()
    return answers


# The emulator numbers every request, the widened ones too.
APART = {b"date", b"x-pinecone-request-id", b"x-vecsieve"}


def comparable(answer: RawReply) -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
    """All of an answer but the headers apart."""
    return answer.line, [(name, value) for name, value in answer.headers if name.lower() not in APART], answer.body


@NEEDS_CAPTURES
@pytest.mark.parametrize("name", RECORDINGS)
async def test_a_recorded_client_hears_the_same_through_the_proxy(name: str) -> None:
    async with (
        stocked() as direct,
        stocked() as database,
        running(database, mode="on", backend="pinecone", pinecone={"index_host": database}) as proxy,
    ):
        expected = await heard(int(direct.rpartition(":")[2]), RECORDINGS[name])
        for request, plain, answer in zip(
            RECORDINGS[name], expected, await heard(proxy.port, RECORDINGS[name]), strict=True
        ):
            assert comparable(answer) == comparable(plain), request.label
        assert sum(plain.status == 200 for plain in expected) >= 7, "most of what was recorded can be answered"
        assert proxy.count("searches_total", backend="pinecone", outcome="dedup") >= 4
