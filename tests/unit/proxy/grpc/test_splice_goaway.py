"""GOAWAY and the reason of a cut are inserted between the frames of the server."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from support.grpc.http2_frames import GOAWAY_TYPE, frame, frames_of
from support.grpc.spliced import DATA, PINGS, SETTINGS, WAIT_SECONDS, Spliced, of_a_splice, owed
from vecsieve.proxy.grpc import ends, splice
from vecsieve.proxy.grpc.frames import GOAWAY
from vecsieve.proxy.grpc.splice import Splice


@of_a_splice
async def test_a_goodbye_waits_for_the_end_of_the_servers_frame_and_is_said_once(both: Spliced) -> None:
    both.server[1].write(SETTINGS + DATA + b"ab")
    assert await asyncio.wait_for(both.client[0].readexactly(20), WAIT_SECONDS) == SETTINGS + DATA + b"ab"
    both.connections.send_goaway()
    assert both.connections.unsent == 1, "what the client sends until it has heard is to be answered"
    both.server[1].write(b"cd" + DATA + b"efgh")
    assert await asyncio.wait_for(both.client[0].readexactly(32), WAIT_SECONDS) == b"cd" + GOAWAY + DATA + b"efgh"
    both.server[1].write(DATA + b"ijkl")
    assert await asyncio.wait_for(both.client[0].readexactly(13), WAIT_SECONDS) == DATA + b"ijkl"
    both.client[1].write(b"on its way")
    assert await asyncio.wait_for(both.server[0].readexactly(10), WAIT_SECONDS) == b"on its way"


@of_a_splice
async def test_a_goodbye_between_two_frames_is_said_at_once(both: Spliced) -> None:
    both.server[1].write(SETTINGS)
    assert await asyncio.wait_for(both.client[0].readexactly(9), WAIT_SECONDS) == SETTINGS
    both.connections.send_goaway()
    assert await asyncio.wait_for(both.client[0].readexactly(len(GOAWAY)), WAIT_SECONDS) == GOAWAY


@of_a_splice
async def test_a_client_that_does_not_heed_a_goodbye_is_owed_nothing_after_a_while(
    both: Spliced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "GOAWAY_SECONDS", 0.1)
    monkeypatch.setattr(ends, "ON_ITS_WAY_SECONDS", 0.1)
    both.connections.send_goaway()
    assert both.connections.unsent == 1
    await owed(both.connections, 0)


@of_a_splice
async def test_who_is_cut_in_the_middle_of_a_frame_of_the_servers_gets_its_end_and_then_the_reason(
    both: Spliced,
) -> None:
    half = frame(0, 0, bytes(100))
    (reader, writer), (_, server) = both.client, both.server
    server.write(SETTINGS + half[:50])
    heard = await asyncio.wait_for(reader.readexactly(9 + 50), WAIT_SECONDS)
    (only,) = both.connections._open
    assert isinstance(only, Splice)
    writer.write(PINGS)
    while not only.is_cut:
        await asyncio.sleep(0.01)
    server.write(half[50:] + frame(0, 0, b"dropped"))
    heard += await asyncio.wait_for(reader.read(), WAIT_SECONDS)
    assert [kind for kind, _, _ in frames_of(heard)] == [4, 0, GOAWAY_TYPE]
    await both.is_over()


@of_a_splice
async def test_who_is_cut_before_the_server_said_anything_hears_settings_first(both: Spliced) -> None:
    both.client[1].write(PINGS)
    heard = await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS)
    (settings, *_), (goaway, _, said) = frames_of(heard)
    assert (settings, goaway) == (4, GOAWAY_TYPE)
    assert int.from_bytes(said[4:8]) == 11, "ENHANCE_YOUR_CALM"
    await both.is_over()


@of_a_splice
async def test_a_client_that_does_not_read_why_it_is_cut_is_gone_soon_all_the_same(both: Spliced) -> None:
    cast(asyncio.Transport, both.client[1].transport).pause_reading()
    both.client[1].write(PINGS * 3)
    await asyncio.wait_for(both.is_over(), splice.CUT_SECONDS + 2)
