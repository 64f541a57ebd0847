"""When a search is late: its deadline, the original beside it, a client that goes. The transport is a script."""

from __future__ import annotations

import asyncio

import pytest

from support.backends.toy_backend import OPERATION
from support.backends.toy_exchange import OWN, ToyExchange, answered, prepared, toys
from support.process.manual_time import settle
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.proxy.search.budgets import FREE, OVERDRAFT
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.search.hedge import Fits
from vecsieve.proxy.search.limits import CONSECUTIVE, OPEN_SECONDS
from vecsieve.proxy.telemetry.labels import AttemptKind, BreakerState, FailOpen, Outcome, ReadKind


@pytest.mark.parametrize(("client", "seconds"), [(None, 5.0), (1.0, 1.0), (60.0, 5.0)])
async def test_the_widened_request_has_its_own_deadline_within_the_clients(
    client: float | None, seconds: float
) -> None:
    exchange = ToyExchange(client_timeout_seconds=client)
    await answered(toys(), exchange)
    assert [given for _, given in exchange.sent] == [seconds]


async def test_a_cancelled_search_is_no_verdict_on_the_database_and_is_not_swallowed() -> None:
    around = toys()
    for _ in range(CONSECUTIVE):
        await answered(around, ToyExchange(answering=lambda _: LostReplyError(FailOpen.OVERFETCH_RESET)))
    around.clock.advance(OPEN_SECONDS + 1)
    cancelled = ToyExchange(answering=lambda _: asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await answered(around, cancelled)
    assert cancelled.originals == []
    assert around.services.governor.breaker.allow(), "the next one is the probe"


class Silent(ToyExchange):
    """Whose widened requests are never answered."""

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        self.sent.append((body, seconds))
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_late_widened_request_is_joined_by_the_original_and_the_first_answer_counts() -> None:
    around, exchange = toys(), Silent()
    task = asyncio.create_task(around.service.best_answer(exchange, prepared(around, exchange)))
    await settle()
    assert around.timers.fire() == 0.5
    answer, report = await task
    assert (answer, exchange.originals) == (OWN, [AttemptKind.HEDGE])
    assert (report.outcome, report.fail_open, report.hedged) == (Outcome.FAIL_OPEN, FailOpen.OVERFETCH_TIMEOUT, True)
    assert around.services.governor.bytes_in_flight.total == 0
    assert around.services.governor.breaker.state is BreakerState.CLOSED
    assert around.count("own_reads_total", kind="hedge") == 1


async def test_while_the_pace_is_unknown_no_more_searches_are_widened_than_can_be_hedged() -> None:
    around, exchanges = toys(own_reads_share=0.0), [Silent() for _ in range(9)]
    tasks = [
        asyncio.create_task(around.service.best_answer(exchange, prepared(around, exchange))) for exchange in exchanges
    ]
    await settle()
    room = FREE + OVERDRAFT
    assert [len(exchange.sent) for exchange in exchanges] == [1] * room + [0] * (9 - room)
    assert [(await task)[1].fail_open for task in tasks[room:]] == [FailOpen.SLOW] * (9 - room)
    for _ in range(room):
        around.timers.fire()
    assert [(await task)[0] for task in tasks] == [OWN] * 9
    late = Silent()
    assert (await answered(around, late))[1].fail_open is FailOpen.SLOW
    assert late.sent == []


async def test_without_room_in_the_budget_the_original_waits_for_the_last_moment_and_the_breaker_hears_of_it() -> None:
    around = toys(own_reads_share=0.0)
    await answered(around, ToyExchange())
    around.services.governor.reads.spend(OPERATION, ReadKind.GROW)
    exchange = Silent()
    task = asyncio.create_task(around.service.best_answer(exchange, prepared(around, exchange)))
    await settle()
    around.timers.fire()
    await settle()
    assert exchange.originals == []
    around.clock.advance(1.0)
    around.timers.fire()
    assert (await task)[0] is OWN
    assert exchange.originals == [AttemptKind.HEDGE]


async def test_a_client_that_went_away_has_shown_its_patience() -> None:
    around, exchange = toys(), Silent()
    task = asyncio.create_task(around.service.best_answer(exchange, prepared(around, exchange)))
    await settle()
    around.clock.advance(2.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert around.services.governor.attempt_timeout.of(OPERATION).times(None)[1] == 1.0
    assert around.services.governor.bytes_in_flight.total == 0
    assert around.services.governor.reads.hold(OPERATION) is not None, "what was reserved is free again"
