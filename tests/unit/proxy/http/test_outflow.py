from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.outflow import AHEAD_SHARE, ANSWER_SHARE, TURN_BYTES, Backlog, LargeAnswers, ReplyObserver
from vecsieve.proxy.http.pools import Loan
from vecsieve.proxy.http.upstream_connection import Exchange


def test_one_answer_has_a_share_of_the_memory_and_all_that_are_read_ahead_half_of_it() -> None:
    backlog = Backlog(ANSWER_SHARE * 10)
    assert not backlog.grew(0, 11)
    for _ in range(int(AHEAD_SHARE * ANSWER_SHARE)):
        assert backlog.grew(0, 10)
    assert not backlog.grew(0, 1)
    assert backlog.total_bytes == AHEAD_SHARE * ANSWER_SHARE * 10
    backlog.changed(-10)
    assert backlog.grew(0, 9)
    assert backlog.grew(9, 10)


def test_one_that_is_alone_is_not_cut_however_much_it_holds() -> None:
    cut: list[str] = []
    backlog = Backlog(1)
    backlog.changed(100)
    backlog.lend("alone", Loan(None, lambda: 0.0, lambda: cut.append("alone")))
    assert cut == []
    backlog.changed(100)
    backlog.lend("reads", Loan(None, lambda: 1.0, lambda: cut.append("reads")))
    assert cut == ["alone"]


@given(st.lists(st.integers(min_value=1, max_value=500), max_size=40))
def test_what_slow_clients_hold_stays_within_the_limit_while_more_than_one_is_left(sizes: list[int]) -> None:
    """Invariant: with all clients slow, the total exceeds the limit by what one of them holds at most."""
    backlog, holdings = Backlog(1000), dict(enumerate(sizes))

    def cut(holder: int) -> None:
        backlog.changed(-holdings.pop(holder))

    for holder, size in enumerate(sizes):
        backlog.changed(size)
        backlog.lend(holder, Loan(None, lambda: 0.0, partial(cut, holder)))
        assert backlog.total_bytes == sum(holdings[number] for number in holdings if number <= holder)
        assert backlog.total_bytes <= 1000 or len([number for number in holdings if number <= holder]) == 1


@given(st.lists(st.integers(min_value=1, max_value=2 * TURN_BYTES), min_size=1, max_size=12))
def test_a_turn_of_the_loop_sends_a_bounded_part_of_large_answers(sizes: list[int]) -> None:
    """Invariant: of any answers, a turn passes TURN_BYTES and one piece, or twice that, each its pieces in order, and all of them in the end."""
    passed: list[list[tuple[int, int]]] = []

    async def answer(turns: LargeAnswers, number: int) -> None:
        for piece in range(3):
            await turns.take(sizes[number])
            passed[-1].append((number, piece))

    async def play() -> None:
        turns = LargeAnswers()
        tasks = [asyncio.create_task(answer(turns, number)) for number in range(len(sizes))]
        while not all(task.done() for task in tasks):
            passed.append([])
            await asyncio.sleep(0)

    asyncio.run(play())
    for turn in passed:
        assert sum(sizes[number] for number, _ in turn) <= 2 * (TURN_BYTES + max(sizes))
    flat = [written for turn in passed for written in turn]
    assert sorted(flat) == [(number, piece) for number in range(len(sizes)) for piece in range(3)]
    assert [written for written in flat if written[1] == 0] == [(number, 0) for number in range(len(sizes))], "by turns"


async def test_an_answer_alone_never_waits_and_one_that_leaves_the_queue_is_not_waited_for() -> None:
    turns = LargeAnswers()
    for _ in range(3):
        await asyncio.wait_for(turns.take(10 * TURN_BYTES), 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    passing, leaving, staying = (asyncio.create_task(turns.take(TURN_BYTES)) for _ in range(3))
    await asyncio.sleep(0)
    assert [passing.done(), leaving.done()] == [True, False]
    leaving.cancel()
    await asyncio.wait_for(staying, 1)
    assert leaving.cancelled()


@dataclass(frozen=True, slots=True)
class Head:
    status: int = 200
    raw_headers: tuple[tuple[bytes, bytes], ...] = field(default=())

    @property
    def content_length(self) -> int | None:
        return next((int(value) for name, value in self.raw_headers if name.lower() == b"content-length"), None)


def heard(
    *pieces: bytes,
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    limit: int = 100,
    cut: bool = False,
) -> list[bytes]:
    learned: list[bytes] = []
    observer = ReplyObserver(learned.append, limit_bytes=limit)
    observer.begin(cast(Exchange, Head(status, headers)))
    for piece in pieces:
        observer.receive(piece)
    if not cut:
        observer.end()
    return learned


@given(pieces=st.lists(st.binary(max_size=20), max_size=5))
def test_the_whole_body_is_heard_once_however_it_comes(pieces: list[bytes]) -> None:
    """Invariant: one call with the joined pieces, with a length or without."""
    body = b"".join(pieces)
    assert heard(*pieces) == [body]
    assert heard(*pieces, headers=((b"Content-Length", b"%d" % len(body)),)) == [body]


def test_the_last_piece_is_read_before_it_is_sent_on() -> None:
    assert heard(b"ab", b"c", headers=((b"content-length", b"3"),), cut=True) == [b"abc"]


def test_a_body_that_was_cut_is_not_heard() -> None:
    assert heard(b"ab", headers=((b"content-length", b"3"),), cut=True) == []
    assert heard(b"ab", cut=True) == []


@pytest.mark.parametrize("status", [199, 300, 404, 500])
def test_only_a_success_is_heard(status: int) -> None:
    assert heard(b"ab", status=status) == []


def test_what_is_too_long_is_not_heard() -> None:
    assert heard(b"a" * 60, b"b" * 40) != []
    assert heard(b"a" * 60, b"b" * 41, b"c") == []


def test_a_coding_that_is_read_is_undone_and_another_is_not_heard() -> None:
    packed = zlib.compress(b"x" * 50, wbits=31)
    assert heard(packed, headers=((b"content-encoding", b"gzip"),)) == [b"x" * 50]
    assert heard(zlib.compress(b"x" * 500, wbits=31), headers=((b"content-encoding", b"gzip"),)) == []
    assert heard(b"...", headers=((b"Content-Encoding", b"br"),)) == []


def test_an_answer_whose_head_never_came_is_not_heard() -> None:
    learned: list[bytes] = []
    observer = ReplyObserver(learned.append)
    observer.receive(b"a")
    observer.end()
    assert learned == []
