"""The tools themselves: each toxic does its fault, the histogram never flatters, the generator keeps its schedule and repeats nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prove.database import Database, write
from prove.faults import FAULTS, REPORT, Seen, fault, is_same, once_a_connection, seen
from prove.histogram import Histogram
from prove.openload import FAILED, Pool, RequestRecorder, capacity, open_load
from prove.toxics import Toxic, ToxicRelay
from support.network.faulty_upstream import FaultyUpstream, answering, reply

GET = b"GET / HTTP/1.1\r\nHost: db\r\n\r\n"


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(0, 1))
def test_a_percentile_is_never_below_the_true_one_and_at_most_a_hundredth_above(values: list[float], q: float) -> None:
    """A percentile is at least the true one, to the microsecond, and at most 1 % more."""
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    true = next(value for rank, value in enumerate(sorted(values), 1) if rank >= q * len(values))
    assert true - 1e-6 <= histogram.percentile(q) <= true * 1.01 + 1e-6


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        Histogram().percentile(0.5)


@pytest.mark.parametrize(
    ("toxic", "size", "kind"),
    [
        (None, 1, "whole"),
        (Toxic.LATENCY, 1, "whole"),
        (Toxic.BANDWIDTH, 4_000, "whole"),
        (Toxic.SLICER, 7, "whole"),
        (Toxic.SLOW_CLOSE, 1, "whole"),
        (Toxic.LIMIT_DATA, 20, "broken"),
        (Toxic.DOWN, 1, "broken"),
        (Toxic.RESET_PEER, 1, "broken"),
        (Toxic.TIMEOUT, 1, "silence"),
    ],
)
async def test_each_toxic_does_what_its_name_says(toxic: Toxic | None, size: int, kind: str) -> None:
    async with (
        FaultyUpstream(once_a_connection) as upstream,
        ToxicRelay(upstream.port, toxic=toxic, size=size) as relay,
    ):
        assert (await seen(relay.port)).kind == kind
        assert len(upstream.requests) == (toxic is not Toxic.DOWN)


def test_every_toxic_is_among_the_faults() -> None:
    assert {toxic for toxic, _, _ in FAULTS} == {None, *Toxic}


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
async def test_a_widened_answer_that_is_cut_is_replaced_by_the_original(mode: str) -> None:
    found = await fault(mode, Toxic.LIMIT_DATA, 400, 0.0, rounds=1)
    assert found.met, found.measured


def test_a_difference_from_the_direct_answer_is_told() -> None:
    line, kind = b"HTTP/1.1 200 OK", ((b"A", b"1"), (b"B", b"2"))
    whole, better = Seen("whole", b"a", line, kind), Seen("whole", b"b", line, (*kind, (REPORT, b"pool=8")))
    assert is_same(whole, whole, better)
    assert is_same(whole, replace(better, headers=(*kind, (REPORT, b"pool=9"))), better)
    assert not is_same(whole, replace(whole, body=b"half"), better)
    assert not is_same(whole, replace(whole, line=b"HTTP/1.1 200 Fine"), better)
    assert not is_same(whole, replace(whole, headers=kind[::-1]), better)
    assert not is_same(whole, replace(whole, headers=(*kind, (REPORT, b"pool=8"))), better)
    assert not is_same(whole, replace(better, headers=kind[:1]), better)
    assert not is_same(whole, Seen("ours", b"502"), better)
    assert not is_same(Seen("broken"), Seen("whole", b"half"), better)
    assert not is_same(Seen("broken"), Seen("silence"), better)


async def test_what_belongs_to_one_hop_is_not_compared() -> None:
    sent = reply(b"x", headers=[(b"Keep-Alive", b"timeout=5"), (b"Set-Cookie", b"a"), (b"set-cookie", b"b")])
    async with FaultyUpstream(answering(sent)) as upstream:
        one = await seen(upstream.port)
    assert one.headers == ((b"Set-Cookie", b"a"), (b"set-cookie", b"b"), (b"Content-Length", b"1"))


async def test_the_schedule_does_not_wait_for_answers_and_nothing_is_sent_twice() -> None:
    due: list[float] = []
    gate = asyncio.Event()

    async def ask(raw: bytes) -> int:
        due.append(float(raw))
        if len(due) == 20:
            gate.set()
        await gate.wait()  # nobody is answered before the last was asked
        return 200

    tally = RequestRecorder()
    await open_load(0, lambda number: b"%d" % number, rate=1_000, count=20, heard=tally.heard, ask=ask)
    assert all(later - earlier == 1 for earlier, later in pairwise(due))
    assert (tally.statuses[200], tally.failed, tally.latency.count) == (20, 0, 20)


async def test_a_request_without_a_whole_answer_is_failed_and_was_sent_once() -> None:
    async with FaultyUpstream(once_a_connection) as upstream:
        relay = ToxicRelay(upstream.port, toxic=Toxic.RESET_PEER)
        async with relay:
            assert await Pool(relay.port).ask(write(1)) == FAILED
        assert relay.connections == 1


async def test_connections_are_used_again() -> None:
    async with FaultyUpstream(answering(reply(b"x"))) as upstream:
        pool = Pool(upstream.port)
        assert [await pool.ask(GET) for _ in range(3)] == [200] * 3
        await pool.close()
        assert upstream.connections == 1


async def test_an_acknowledged_write_outlives_the_databases_sudden_end(tmp_path: Path) -> None:
    database = Database(tmp_path / "journal")
    database.start()
    try:
        await database.listening()
        pool = Pool(database.port)
        assert await pool.ask(write(7)) == 200
        await pool.close()
    finally:
        database.kill()
    assert database.written() == {7: 1}


async def test_a_closed_loop_counts_the_answers_of_all_its_clients() -> None:
    async with FaultyUpstream(answering(reply(b"x"))) as upstream:
        per_second = await capacity(upstream.port, GET, seconds=0.2)
        assert per_second * 0.2 == pytest.approx(len(upstream.requests))
