"""The rungs around one search, on a transport that is a script: which one answers, what is learned, what is counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from support.backends.toy_backend import OPERATION, OUT_OF_QUOTA, TOO_MANY, ToyAdapter, ToyDialect, families_of
from support.backends.toy_exchange import (
    SERVER_ERROR,
    UPSTREAM_ANSWER,
    ToyExchange,
    answered,
    prepared,
    refused,
    shadowed,
    toys,
)
from support.process.clocks import ManualClock
from support.process.manual_time import settle
from support.process.turning import Turning, calm
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.admin.recent import Observed
from vecsieve.proxy.runtime.memory import MemoryGuard
from vecsieve.proxy.search.budgets import FREE, OVERDRAFT
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.search.hedge import Fits
from vecsieve.proxy.search.limits import CONSECUTIVE, OPEN_SECONDS, Turns
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.service import ProcessServices, SearchService
from vecsieve.proxy.telemetry.labels import AttemptKind, BreakerState, Bypass, FailOpen, Outcome, ReadKind, Retry
from vecsieve.proxy.telemetry.requests import RequestRecord


async def test_the_first_rung_is_the_distinct_answer_and_nothing_else_is_sent() -> None:
    around, exchange = toys(), ToyExchange()
    answer, report = await answered(around, exchange)
    assert families_of(answer.body) == [[0, 1, 2, 3]]
    assert answer.report is report
    assert (report.outcome, report.fail_open) == (Outcome.DEDUP, None)
    assert report.counts.collapsed == 3
    assert [json.loads(body) for body, _ in exchange.sent] == [[24]]
    assert exchange.originals == []
    assert around.count("upstream_request_duration_seconds_count", backend="qdrant", attempt="overfetch") == 1
    received = len(json.dumps(exchange.upstream.rankings).encode())
    assert around.count("upstream_response_bytes_total", backend="qdrant") == received
    assert report.overfetch_bytes == received


async def test_a_reply_that_cannot_be_selected_from_is_answered_by_its_first_top_k(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError

    monkeypatch.setattr("vecsieve.proxy.search.searcher.selecting", broken)
    around, exchange = toys(), ToyExchange()
    answer, report = await answered(around, exchange)
    assert families_of(answer.body) == [[0, 0, 0, 1]]
    assert (report.outcome, report.fail_open, report.figures) == (Outcome.FAIL_OPEN, FailOpen.INTERNAL, ())
    assert exchange.originals == []


FALLS = {
    "timeout": (LostReplyError(FailOpen.OVERFETCH_TIMEOUT), FailOpen.OVERFETCH_TIMEOUT),
    "reset": (LostReplyError(FailOpen.OVERFETCH_RESET), FailOpen.OVERFETCH_RESET),
    "too large": (LostReplyError(FailOpen.TOO_LARGE, received_bytes=9), FailOpen.TOO_LARGE),
    "not to be read": (LostReplyError(FailOpen.MALFORMED), FailOpen.MALFORMED),
    "not JSON": (b"no", FailOpen.MALFORMED),
    "as many lists as nobody asked for": (b"[[], []]", FailOpen.MALFORMED),
    "refused": (refused(), FailOpen.OVERFETCH_STATUS),
    "broken": (refused(SERVER_ERROR), FailOpen.OVERFETCH_STATUS),
    "a limit": (refused(words=b"limit 10"), FailOpen.OVERFETCH_STATUS),
    "no vector": (refused(words=b"no vector"), FailOpen.NOT_FOUND_VECTOR),
    "memory": (MemoryError(), FailOpen.MEMORY),
    "ours": (RuntimeError(), FailOpen.INTERNAL),
}


@pytest.mark.parametrize("name", FALLS)
async def test_what_leaves_nothing_to_answer_from_sends_the_original_once(name: str) -> None:
    fault, reason = FALLS[name]
    around, exchange = toys(), ToyExchange(answering=lambda _: fault)
    answer, report = await answered(around, exchange)
    assert answer is UPSTREAM_ANSWER
    assert (report.outcome, report.fail_open) == (Outcome.FAIL_OPEN, reason)
    assert len(exchange.sent) == 1
    assert exchange.originals == [AttemptKind.REPLAY]
    assert around.count("retries_total", backend="qdrant", reason=Retry.of(reason)) == 1


async def test_what_fails_before_anything_was_sent_is_no_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> bytes:
        raise RuntimeError

    monkeypatch.setattr(ToyAdapter, "widen", breaks)
    around, exchange = toys(), ToyExchange()
    answer, report = await answered(around, exchange)
    assert answer is UPSTREAM_ANSWER
    assert report.fail_open is FailOpen.INTERNAL
    assert (exchange.sent, exchange.originals) == ([], [AttemptKind.ORIGINAL])
    assert [around.count("retries_total", backend="qdrant", reason=reason) for reason in Retry] == [0] * len(Retry)


async def test_a_quota_that_is_spent_is_answered_as_it_is() -> None:
    around, exchange = toys(), ToyExchange(answering=lambda _: refused(TOO_MANY))
    answer, report = await answered(around, exchange)
    assert answer == exchange.refusal()
    assert (report.outcome, report.fail_open) == (Outcome.FAIL_OPEN, FailOpen.OVERFETCH_STATUS)
    assert exchange.originals == []


@pytest.mark.parametrize(
    "fault", [refused(TOO_MANY), refused(), LostReplyError(FailOpen.TOO_LARGE), LostReplyError(FailOpen.MALFORMED)]
)
async def test_any_answer_ends_a_probe_well(fault: Exception) -> None:
    around = toys()
    for _ in range(CONSECUTIVE):
        await answered(around, ToyExchange(answering=lambda _: LostReplyError(FailOpen.OVERFETCH_RESET)))
    around.clock.advance(OPEN_SECONDS + 1)
    await answered(around, ToyExchange(answering=lambda _: fault))
    assert around.services.governor.breaker.state is BreakerState.CLOSED


async def test_an_open_breaker_sends_the_original_and_nothing_else() -> None:
    around = toys()
    for _ in range(CONSECUTIVE):
        await answered(around, ToyExchange(answering=lambda _: refused(SERVER_ERROR)))
    exchange = ToyExchange()
    answer, report = await answered(around, exchange)
    assert answer is UPSTREAM_ANSWER
    assert report.fail_open is FailOpen.BREAKER
    assert (exchange.sent, exchange.originals) == ([], [AttemptKind.ORIGINAL])
    assert around.count("upstream_errors_total", backend="qdrant", kind="5xx") == CONSECUTIVE
    assert around.count("retries_total", backend="qdrant", reason="refused") == CONSECUTIVE, "this one was asked once"


@pytest.mark.parametrize(
    "fault", [refused(), b"no JSON", LostReplyError(FailOpen.MALFORMED), LostReplyError(FailOpen.TOO_LARGE)]
)
async def test_a_database_that_answers_keeps_the_breaker_closed(fault: object) -> None:
    around = toys()
    for _ in range(2 * CONSECUTIVE):
        await answered(around, ToyExchange(answering=lambda _: fault, plain=b'[{"k": 4}]'))
        around.services.governor.learned.forget(OPERATION.collection)
    assert around.services.governor.breaker.state is BreakerState.CLOSED


async def test_shadow_does_not_ask_a_database_that_an_open_breaker_spares() -> None:
    around = toys()
    for _ in range(CONSECUTIVE):
        exchange = ToyExchange(answering=lambda _: LostReplyError(FailOpen.OVERFETCH_RESET))
        assert await around.service.measure(exchange, prepared(around, exchange)) is None
        assert len(exchange.sent) == 1
    spared = ToyExchange()
    assert await around.service.measure(spared, prepared(around, spared)) is None
    assert spared.sent == []


async def test_a_refusal_without_a_reason_halves_the_next_pool_where_the_original_was_fine() -> None:
    around, exchange = toys(), ToyExchange(answering=lambda _: refused())
    await answered(around, exchange)
    assert around.services.governor.learned.cap(OPERATION) == 12
    await answered(around, replace(exchange, specific=replace(UPSTREAM_ANSWER, is_success=False)))
    assert around.services.governor.learned.cap(OPERATION) == 12, "what the client did wrong teaches nothing"


async def test_a_named_limit_is_learned_and_a_wrong_vector_is_unlearned() -> None:
    around = toys()
    await answered(around, ToyExchange(answering=lambda _: refused(words=b"limit 10")))
    assert around.services.governor.learned.cap(OPERATION) == 10
    await answered(around, ToyExchange(answering=lambda _: refused(words=b"no vector")))
    assert around.services.governor.learned.cap(OPERATION) is None


async def test_an_unsupported_request_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)

    monkeypatch.setattr("support.backends.toy_backend.ToyAdapter.parse_request", unsupported)
    assert toys().service.prepare(ToyExchange()) is Reason.ORDERING_CHOSEN


def test_what_is_known_of_a_collection_reaches_the_needs() -> None:
    attempt = toys().service.prepare(ToyExchange(), "known")
    assert isinstance(attempt, Source)
    assert attempt.call.needs.known == "known"


async def test_a_measurement_is_reported_as_shadows_and_sends_nothing_of_the_clients() -> None:
    around, exchange = toys(), ToyExchange()
    report = await around.service.measure(exchange, prepared(around, exchange))
    assert report is not None
    assert (report.outcome, report.counts.collapsed) == (Outcome.SHADOW, 3)
    assert exchange.originals == []


@pytest.mark.parametrize("keep", [0, 2])
async def test_searches_are_remembered_where_that_is_requested(keep: int) -> None:
    around = toys(keep=keep)
    for _ in range(3):
        await answered(around, ToyExchange())
    observer = around.services.observer
    assert isinstance(observer, Observed)
    assert len(observer.recent.newest()) == keep


# When a search is late: its deadline, the original beside it, a client that goes. The transport is a script.


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
    assert (answer, exchange.originals) == (UPSTREAM_ANSWER, [AttemptKind.HEDGE])
    assert (report.outcome, report.fail_open, report.hedged) == (Outcome.FAIL_OPEN, FailOpen.OVERFETCH_TIMEOUT, True)
    assert around.services.governor.bytes_in_flight.total == 0
    assert around.services.governor.breaker.state is BreakerState.CLOSED
    assert around.count("own_reads_total", kind="hedge") == 1


async def test_while_the_pace_is_unknown_no_more_searches_are_widened_than_can_be_hedged() -> None:
    around, exchanges = toys(extra_reads_share=0.0), [Silent() for _ in range(9)]
    tasks = [
        asyncio.create_task(around.service.best_answer(exchange, prepared(around, exchange))) for exchange in exchanges
    ]
    await settle()
    room = FREE + OVERDRAFT
    assert [len(exchange.sent) for exchange in exchanges] == [1] * room + [0] * (9 - room)
    assert [(await task)[1].fail_open for task in tasks[room:]] == [FailOpen.SLOW] * (9 - room)
    for _ in range(room):
        around.timers.fire()
    assert [(await task)[0] for task in tasks] == [UPSTREAM_ANSWER] * 9
    late = Silent()
    assert (await answered(around, late))[1].fail_open is FailOpen.SLOW
    assert late.sent == []


async def test_without_room_in_the_budget_the_original_waits_for_the_last_moment_and_the_breaker_hears_of_it() -> None:
    around = toys(extra_reads_share=0.0)
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
    assert (await task)[0] is UPSTREAM_ANSWER
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


# The way of a search from its body to its answer: who answers it, and what is said of it.


@dataclass
class Made:
    """A service as a process makes it."""

    services: ProcessServices
    service: SearchService

    def record(self) -> RequestRecord:
        return self.services.recorder.begin()


def made(*, resident: Callable[[], int] = lambda: 0, most: int = 2, turns: Turns | None = None) -> Made:
    """``resident``: how many of 100 bytes are held."""
    guard = MemoryGuard(100, resident_bytes=resident, clock=ManualClock())
    turns = calm() if turns is None else turns
    toys_made = toys(limits=LimitSettings(searches_in_flight=most), memory=guard, turns=turns)
    return Made(toys_made.services, toys_made.service)


async def test_a_search_is_improved_and_reported() -> None:
    there, exchange = made(), ToyExchange()
    record = there.record()
    answer = await there.service.search(exchange, record, sample=1.0)
    assert families_of(answer.body) == [[0, 1, 2, 3]]
    assert record.outcome is Outcome.DEDUP
    assert record.report is answer.report
    assert there.services.recorder.searches_in_flight == 0


async def test_in_shadow_the_answer_is_upstreams_own_and_the_measurement_follows_it() -> None:
    there, exchange = made(), shadowed(ToyExchange())
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is UPSTREAM_ANSWER
    assert (record.outcome, record.report) == (Outcome.SHADOW, None)
    assert (exchange.originals, exchange.sent) == ([AttemptKind.ORIGINAL], [])
    await settle()
    assert len(exchange.sent) == 1


async def test_in_shadow_what_is_not_sampled_is_bypassed() -> None:
    there, exchange = made(), shadowed(ToyExchange())
    record = there.record()
    assert await there.service.search(exchange, record, sample=0.0) is UPSTREAM_ANSWER
    assert (record.outcome, record.bypass) == (Outcome.BYPASS, Bypass.SHADOW_NOT_SAMPLED)
    await settle()
    assert exchange.sent == []


async def test_what_the_adapter_does_not_support_is_bypassed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)

    monkeypatch.setattr(ToyAdapter, "parse_request", unsupported)
    there, exchange = made(), ToyExchange()
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is UPSTREAM_ANSWER
    assert (record.outcome, record.bypass) == (Outcome.BYPASS, Reason.ORDERING_CHOSEN)
    assert exchange.originals == [AttemptKind.ORIGINAL]


async def test_a_fault_of_ours_while_preparing_is_the_plain_answer() -> None:
    there, exchange = made(), ToyExchange(plain=b"no JSON")
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is UPSTREAM_ANSWER
    assert (record.outcome, record.fail_open) == (Outcome.FAIL_OPEN, FailOpen.INTERNAL)
    assert exchange.originals == [AttemptKind.ORIGINAL]


@pytest.mark.parametrize(("resident", "reason"), [(10, None), (86, FailOpen.MEMORY)])
def test_there_is_no_room_when_memory_is_short(resident: int, reason: FailOpen | None) -> None:
    there = made(resident=lambda: resident)
    assert there.service.no_room() is reason


async def test_there_is_no_room_when_as_many_as_may_be_are_improved() -> None:
    there, go_on = made(most=1), asyncio.Event()

    class Slow(ToyExchange):
        async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
            await go_on.wait()
            return await ToyExchange.send(self, body, seconds=seconds, fits=fits)

    assert there.service.no_room() is None
    first = asyncio.create_task(there.service.search(Slow(), there.record(), sample=1.0))
    await settle()
    assert there.service.no_room() is FailOpen.OVERLOAD
    go_on.set()
    await first
    assert there.service.no_room() is None


async def test_a_cancelled_search_gives_its_place_back() -> None:
    there = made()
    cancelled = ToyExchange(answering=lambda _: asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await there.service.search(cancelled, there.record(), sample=1.0)
    assert there.services.recorder.searches_in_flight == 0


async def test_those_whom_nobody_has_looked_at_take_up_room_too() -> None:
    there, waiting = made(most=3), 2
    service = SearchService(ToyAdapter(), ToyDialect(), there.services, number_bytes=12, waiting=lambda: waiting)
    assert service.no_room() is None
    waiting = 3
    assert service.no_room() is FailOpen.OVERLOAD


async def test_while_the_loop_lags_there_is_no_room_for_a_search() -> None:
    loop = Turning()
    there = made(turns=loop.turns)
    assert there.service.no_room() is None
    for _ in range(3):
        loop.turn(2 * LimitSettings().lag_seconds)
    assert there.service.no_room() is FailOpen.OVERLOAD


async def test_after_a_refusal_a_search_goes_as_the_client_wrote_it_and_nothing_is_asked() -> None:
    there, exchange = made(), ToyExchange()
    there.service.status_received("c", 429)
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is UPSTREAM_ANSWER
    assert (record.outcome, record.bypass) == (Outcome.BYPASS, Bypass.QUOTA)
    assert (exchange.sent, exchange.originals) == ([], [AttemptKind.ORIGINAL])


async def test_what_is_no_refusal_changes_nothing() -> None:
    there, exchange = made(), ToyExchange()
    there.service.status_received("c", 500)
    there.service.success_received("c", b"fine")
    await there.service.search(exchange, there.record(), sample=1.0)
    assert len(exchange.sent) == 1


async def test_a_refusal_inside_a_success_is_heard_too() -> None:
    there, exchange = made(), ToyExchange()
    there.service.success_received("c", OUT_OF_QUOTA)
    record = there.record()
    await there.service.search(exchange, record, sample=1.0)
    assert record.bypass is Bypass.QUOTA


async def test_a_measurement_is_withheld_while_the_share_comes_back() -> None:
    there, exchange = made(), shadowed(ToyExchange())
    there.service.status_received("", 429)
    record = there.record()
    assert await there.service.search(exchange, record, sample=1.0) is UPSTREAM_ANSWER
    await settle()
    assert (record.bypass, exchange.sent) == (Bypass.QUOTA, [])
