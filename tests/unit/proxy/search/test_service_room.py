"""What one search may hold: bytes of replies, candidates that fit, turns of the loop. The transport is a script."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from support.backends.toy_backend import COPIES, OPERATION, ToyUpstream, families_of, ranking
from support.backends.toy_exchange import UPSTREAM_ANSWER, ToyExchange, answered, policy, prepared, refused, toys
from support.process.manual_time import settle
from vecsieve.adapters.contract import Reason
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.search.hedge import Fits
from vecsieve.proxy.search.limits import CANDIDATE_BYTES
from vecsieve.proxy.telemetry.labels import AttemptKind, BreakerState, Bypass, FailOpen, Outcome


async def test_a_reply_that_was_too_large_is_not_asked_for_again() -> None:
    around = toys()
    await answered(around, ToyExchange(answering=lambda _: LostReplyError(FailOpen.TOO_LARGE)))
    assert around.service.prepare(ToyExchange()) is Bypass.WINDOW_TOO_LARGE


def test_a_window_that_leaves_no_room_is_left_alone() -> None:
    small = ToyExchange(policy=policy(fetch={"cap": 8, "floor": 1, "page_cap": 8}))
    assert toys().service.prepare(replace(small, plain=b'[{"k": 8}]')) is Bypass.WINDOW_TOO_LARGE


async def test_where_the_replies_of_others_fill_the_room_a_search_passes_through_and_is_never_kept_waiting() -> None:
    made, arrived = toys(buffered_bytes=20_000), asyncio.Event()

    class Slow(ToyExchange):
        async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
            await arrived.wait()
            return await ToyExchange.send(self, body, seconds=seconds, fits=fits)

    slow, fresh = Slow(), ToyExchange()
    first = asyncio.create_task(made.service.best_answer(slow, prepared(made, slow)))
    await settle()
    answer, report = await made.service.best_answer(fresh, prepared(made, fresh))
    assert (answer, report.fail_open, fresh.sent) == (UPSTREAM_ANSWER, FailOpen.OVERLOAD, [])
    arrived.set()
    assert (await first)[1].outcome is Outcome.DEDUP
    assert made.services.governor.bytes_in_flight.total == 0


async def test_a_reply_that_turns_out_not_to_fit_is_dropped_and_the_original_sent() -> None:
    made = toys(buffered_bytes=420_000)
    exchange = ToyExchange(answering=lambda _: bytes(500_000))
    other = made.services.governor.bytes_in_flight.hold((1,), CANDIDATE_BYTES)
    assert other is not None
    answer, report = await made.service.best_answer(exchange, prepared(made, exchange))
    assert (answer, report.fail_open, exchange.originals) == (UPSTREAM_ANSWER, FailOpen.OVERLOAD, [AttemptKind.REPLAY])
    assert made.services.governor.breaker.state is BreakerState.CLOSED
    other.release()
    assert made.services.governor.bytes_in_flight.total == 0


@pytest.mark.parametrize("end", ["answered", "lost", "refused", "cancelled", "shadow"])
async def test_however_a_search_ends_it_holds_nothing(end: str) -> None:
    made = toys()
    answering: dict[str, object] = {"lost": LostReplyError(FailOpen.OVERFETCH_RESET), "refused": refused()}

    class Stuck(ToyExchange):
        async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
            if end == "cancelled":
                await asyncio.Event().wait()
            assert made.services.governor.bytes_in_flight.total > 0
            return await ToyExchange.send(self, body, seconds=seconds, fits=fits)

    exchange = Stuck(answering=(lambda _: answering[end]) if end in answering else None)
    attempt = prepared(made, exchange)
    call = made.service.measure(exchange, attempt) if end == "shadow" else made.service.best_answer(exchange, attempt)
    task = asyncio.ensure_future(call)
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert made.services.governor.bytes_in_flight.total == 0


async def test_a_request_that_is_too_much_to_be_read_is_told_before_it_is() -> None:
    around = toys(parts=2)
    for plain, bypass in ((b'[{"k": 4}, {"k": 4}]', None), (b'[{"k": 4}, {"k": 4}, {"k": 4}]', Reason.TOO_MANY_PARTS)):
        record = around.services.recorder.begin()
        await around.service.search(ToyExchange(plain=plain), record, sample=1.0)
        assert record.bypass is bypass


def test_a_search_whose_reply_would_be_too_large_fetches_as_many_candidates_as_fit() -> None:
    around = toys(reply_bytes=7 * CANDIDATE_BYTES)
    attempt = prepared(around, ToyExchange())
    assert attempt.planned.plan == (7,)
    assert attempt.planned.grant is not None
    assert attempt.planned.grant.candidate_bytes == CANDIDATE_BYTES


@pytest.mark.parametrize("plain", [b'[{"k": 7}]', b'[{"k": 2}, {"k": 2}]', b'[{"k": 4, "offset": 2}]'])
def test_what_would_not_be_improved_by_what_fits_is_left_alone(plain: bytes) -> None:
    around = toys(reply_bytes=7 * CANDIDATE_BYTES)
    assert around.service.prepare(ToyExchange(plain=plain)) is Bypass.REPLY_TOO_LARGE


async def test_what_a_candidate_took_decides_how_many_fit_into_the_next_reply() -> None:
    around = toys(reply_bytes=24 * CANDIDATE_BYTES)
    await answered(around, ToyExchange())
    assert prepared(around, ToyExchange()).planned.plan == (24,)
    around.services.governor.bytes_in_flight.learn(OPERATION, (1,), 2 * CANDIDATE_BYTES)
    assert prepared(around, ToyExchange()).planned.plan == (12,)


async def test_a_pool_does_not_grow_beyond_what_a_reply_may_hold() -> None:
    flooded = [0] * 24 + [1, 2, 3]
    exchange = ToyExchange(upstream=ToyUpstream(ranking(flooded)))
    size = len(await exchange.upstream.fetch(b"[24]"))
    around = toys(reply_bytes=26 * size // 24 + 1)
    around.services.governor.bytes_in_flight.learn(OPERATION, (24,), size)
    attempt = prepared(around, exchange)
    await around.service.best_answer(exchange, attempt)
    assert attempt.last is not None
    assert attempt.last.sizes == (26,)


async def test_a_batch_leaves_the_loop_to_others_between_its_searches() -> None:
    around, turns = toys(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    exchange = ToyExchange(plain=b'[{"k": 4}, {"k": 4}, {"k": 4}]', upstream=ToyUpstream(*[ranking(COPIES)] * 3))
    attempt = prepared(around, exchange)
    meanwhile = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    before = turns
    answer, _ = await around.service.best_answer(exchange, attempt)
    meanwhile.cancel()
    assert families_of(answer.body) == [[0, 1, 2, 3]] * 3
    assert turns - before >= 2


async def test_a_list_read_page_by_page_leaves_the_loop_to_others_between_its_blocks() -> None:
    around, turns = toys(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    rows = ranking([rank // 20 for rank in range(400)])
    exchange = ToyExchange(plain=b'[{"k": 8, "offset": 0}]', upstream=ToyUpstream(rows))
    attempt = prepared(around, exchange)
    meanwhile = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    answer, _ = await around.service.best_answer(exchange, attempt)
    meanwhile.cancel()
    assert families_of(answer.body) == [list(range(8))]
    assert turns > 200 // 50
