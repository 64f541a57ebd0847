from __future__ import annotations

import asyncio
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from support.http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame
from support.relay_server import Invalidation
from support.streams import listening, serving_at
from vecsieve.proxy.grpc.connections import InnerSocket, SharedConnections
from vecsieve.proxy.grpc.frames import HASTY_RESETS, MOST_WAITING, Calls, OpenStreams
from vecsieve.proxy.grpc.shared_port import PREFACE
from vecsieve.proxy.grpc.splice import Splice
from vecsieve.proxy.http.connections import Connections

ASKED = END_HEADERS


def asked(streams: OpenStreams, *numbers: int) -> None:
    for number in numbers:
        streams.client_frame(HEADERS, ASKED, number, 0)


def test_a_call_is_open_from_its_fields_to_the_servers_last_frame() -> None:
    calls = Calls()
    streams = OpenStreams(calls, float)
    asked(streams, 1, 3)
    streams.client_frame(DATA, END_STREAM, 1, 0)
    streams.server_frame(HEADERS, END_HEADERS, 1, 0)
    streams.server_frame(DATA, 0, 1, 0)
    assert calls.open == 2, "the client has said all, the server has not"
    streams.server_frame(HEADERS, END_HEADERS | END_STREAM, 1, 0)
    assert calls.open == 1
    streams.server_frame(DATA, END_STREAM, 3, 0)
    assert calls.open == 0


def test_either_side_may_break_a_call_off_and_then_it_is_over_once() -> None:
    calls = Calls()
    streams = OpenStreams(calls, float)
    asked(streams, 1, 3)
    streams.client_frame(RST_STREAM, 0, 1, 0)
    streams.server_frame(RST_STREAM, 0, 1, 0)
    streams.server_frame(RST_STREAM, 0, 3, 0)
    streams.client_frame(RST_STREAM, 0, 3, 0)
    assert calls.open == 0


def test_trailers_of_a_client_are_no_second_call() -> None:
    calls = Calls()
    streams = OpenStreams(calls, float)
    asked(streams, 1, 1)
    streams.server_frame(HEADERS, END_STREAM, 1, 0)
    asked(streams, 1)
    assert calls.open == 0


def test_with_a_connection_its_calls_are_gone_and_others_stay() -> None:
    calls = Calls()
    one, other = OpenStreams(calls, float), OpenStreams(calls, float)
    asked(one, 1, 3, 5)
    asked(other, 1)
    one.end()
    one.end()
    assert calls.open == 1


def test_what_is_taken_does_not_wait_and_nobody_waits_less_than_not_at_all() -> None:
    calls = Calls()
    asked(OpenStreams(calls, float), 1, 3, 5)
    calls.taken = 1
    assert calls.waiting == 2
    calls.taken = 4  # the server has answered before its frames passed here
    assert calls.waiting == 0


async def test_a_splice_counts_what_passes_and_forgets_it_with_its_client() -> None:
    calls = Calls()
    inner, connections = InnerSocket(calls), SharedConnections(Connections(limit=9, events=Invalidation()))
    answers: list[asyncio.StreamWriter] = []

    class DataPort(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made = Splice(cast(asyncio.Transport, transport), connections, inner)
            assert connections.enter(made)
            made.begin(PREFACE)

    async def counted(wanted: int) -> None:
        async with asyncio.timeout(5):
            while calls.open != wanted:
                await asyncio.sleep(0.005)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.append(writer)
        await writer.wait_closed()

    async with serving_at(inner.path, answer), listening(DataPort) as port:
        _, client = await asyncio.open_connection("127.0.0.1", port.sockets[0].getsockname()[1])
        client.write(b"".join(frame(HEADERS, END_HEADERS, b"", number) for number in (1, 3, 5)))
        await counted(3)
        answers[0].write(frame(HEADERS, END_HEADERS | END_STREAM, b"", 3))
        await counted(2)
        client.close()
        answers[0].close()
        await counted(0)
    inner.close()


KINDS = st.sampled_from([DATA, HEADERS, RST_STREAM, SETTINGS])
SAID = st.tuples(st.booleans(), KINDS, st.integers(0, 255), st.integers(0, 9))


@given(st.lists(SAID, max_size=60))
def test_whatever_is_said_the_count_is_of_calls_that_were_asked_and_ends_with_the_connection(
    said: list[tuple[bool, int, int, int]],
) -> None:
    """Invariant: between none and as many as have asked, and none at the end."""
    calls, new = Calls(), 0
    streams = OpenStreams(calls, float)
    for by_client, kind, flags, stream in said:
        new += by_client and kind == HEADERS
        (streams.client_frame if by_client else streams.server_frame)(kind, flags, stream, 0)
        assert 0 <= calls.open <= new
    streams.end()
    assert calls.open == 0


def test_the_last_call_of_a_turn_is_the_one_that_finds_others_waiting() -> None:
    calls = Calls()
    one, other = OpenStreams(calls, float), OpenStreams(calls, float)
    costs = [one.client_frame(HEADERS, ASKED, 2 * number + 1, 20) for number in range(MOST_WAITING + 1)]
    assert not any(costs[: MOST_WAITING - 1])
    assert all(cost > 10**9 for cost in costs[MOST_WAITING - 1 :])
    assert one.is_held
    assert other.client_frame(HEADERS, ASKED, 1, 20) == 0, "who has none open is not held up by others"
    assert not other.is_held
    calls.taken = MOST_WAITING
    assert not one.is_held


def test_from_some_resets_on_each_is_waited_behind() -> None:
    streams = OpenStreams(Calls(), float)
    for number in range(HASTY_RESETS + 1):
        assert not streams.is_resting
        asked(streams, 2 * number + 1)
        cost = streams.client_frame(RST_STREAM, 0, 2 * number + 1, 4)
    assert streams.is_resting
    assert cost > 10**9
