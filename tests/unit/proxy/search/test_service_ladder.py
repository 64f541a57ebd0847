"""The rungs around one search, on a transport that is a script: which one answers, what is learned, what is counted."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from support.manual_time import settle
from support.toy_backend import COPIES, OPERATION, OUT_OF_QUOTA, TOO_MANY, ToyAdapter, ToyUpstream, families_of, ranking
from support.toy_exchange import OWN, SERVER_ERROR, ToyAnswer, ToyExchange, Toys, policy, refused, toys
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.proxy.search.budgets import FREE, OVERDRAFT
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.search.exchange import Fits, Gate
from vecsieve.proxy.search.fetch import OFTEN, Attempt
from vecsieve.proxy.search.limits import CANDIDATE_BYTES, CONSECUTIVE, OPEN_SECONDS
from vecsieve.proxy.search.report import Report
from vecsieve.proxy.search.searcher import PAGE_ROUNDS
from vecsieve.proxy.telemetry.labels import AttemptKind, BreakerState, Bypass, FailOpen, Outcome, OwnRead, Retry


def prepared(around: Toys, exchange: ToyExchange) -> Attempt:
    attempt = around.service.prepare(exchange)
    assert isinstance(attempt, Attempt)
    return attempt


async def answered(around: Toys, exchange: ToyExchange) -> tuple[ToyAnswer, Report]:
    return await around.service.best_answer(exchange, prepared(around, exchange))


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
    assert answer is OWN
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
    assert answer is OWN
    assert report.fail_open is FailOpen.INTERNAL
    assert (exchange.sent, exchange.originals) == ([], [AttemptKind.ORIGINAL])
    assert [around.count("retries_total", backend="qdrant", reason=reason) for reason in Retry] == [0] * len(Retry)


async def test_a_quota_that_is_spent_is_answered_as_it_is() -> None:
    around, exchange = toys(), ToyExchange(answering=lambda _: refused(TOO_MANY))
    answer, report = await answered(around, exchange)
    assert answer == exchange.refusal()
    assert (report.outcome, report.fail_open) == (Outcome.FAIL_OPEN, FailOpen.OVERFETCH_STATUS)
    assert exchange.originals == []


async def test_a_quota_that_is_spent_while_growing_leaves_the_pool_that_is_there() -> None:
    exchange = ToyExchange()
    first = json.dumps([[[1.0, *[0.0] * 129, 1.0]] * 24]).encode()
    exchange.answering = lambda _: first if len(exchange.sent) == 1 else refused(TOO_MANY)
    answer, report = await answered(toys(), exchange)
    assert len(exchange.sent) == 2
    assert len(json.loads(answer.body)[0]) == 4
    assert report.outcome is Outcome.DEDUP


@pytest.mark.parametrize(
    "fault", [refused(TOO_MANY), refused(), LostReplyError(FailOpen.TOO_LARGE), LostReplyError(FailOpen.MALFORMED)]
)
async def test_any_answer_ends_a_probe_well(fault: Exception) -> None:
    around = toys()
    for _ in range(CONSECUTIVE):
        await answered(around, ToyExchange(answering=lambda _: LostReplyError(FailOpen.OVERFETCH_RESET)))
    around.clock.advance(OPEN_SECONDS + 1)
    await answered(around, ToyExchange(answering=lambda _: fault))
    assert around.services.breaker.state is BreakerState.CLOSED


async def test_an_open_breaker_sends_the_original_and_nothing_else() -> None:
    around = toys()
    for _ in range(CONSECUTIVE):
        await answered(around, ToyExchange(answering=lambda _: refused(SERVER_ERROR)))
    exchange = ToyExchange()
    answer, report = await answered(around, exchange)
    assert answer is OWN
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
        around.services.learned.forget(OPERATION.collection)
    assert around.services.breaker.state is BreakerState.CLOSED


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
    assert around.services.learned.cap(OPERATION) == 12
    await answered(around, replace(exchange, own=replace(OWN, is_success=False)))
    assert around.services.learned.cap(OPERATION) == 12, "what the client did wrong teaches nothing"


async def test_a_named_limit_is_learned_and_a_wrong_vector_is_unlearned() -> None:
    around = toys()
    await answered(around, ToyExchange(answering=lambda _: refused(words=b"limit 10")))
    assert around.services.learned.cap(OPERATION) == 10
    await answered(around, ToyExchange(answering=lambda _: refused(words=b"no vector")))
    assert around.services.learned.cap(OPERATION) is None


async def test_a_reply_that_was_too_large_is_not_asked_for_again() -> None:
    around = toys()
    await answered(around, ToyExchange(answering=lambda _: LostReplyError(FailOpen.TOO_LARGE)))
    assert around.service.prepare(ToyExchange()) is Bypass.WINDOW_TOO_LARGE


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
    assert around.services.breaker.allow(), "the next one is the probe"


async def test_extra_bytes_are_counted_for_improved_answers_and_for_dropped_ones() -> None:
    around, exchange = toys(), ToyExchange()
    answer, report = await answered(around, exchange)
    spent = json.loads(around.services.egress.as_json())
    assert str(report.overfetch_bytes - answer.body_bytes) in json.dumps(spent)


async def test_a_spent_budget_leaves_searches_alone() -> None:
    around = toys(budget_bytes=10)
    await answered(around, ToyExchange())
    assert around.service.prepare(ToyExchange()) is Bypass.BUDGET


async def test_an_unsupported_request_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)

    monkeypatch.setattr("support.toy_backend.ToyAdapter.parse_request", unsupported)
    assert toys().service.prepare(ToyExchange()) is Reason.ORDERING_CHOSEN


def test_a_window_that_leaves_no_room_is_left_alone() -> None:
    small = ToyExchange(policy=policy(fetch={"cap": 8, "floor": 1, "page_cap": 8}))
    assert toys().service.prepare(replace(small, plain=b'[{"k": 8}]')) is Bypass.WINDOW_TOO_LARGE


def test_what_is_known_of_a_collection_reaches_the_needs() -> None:
    attempt = toys().service.prepare(ToyExchange(), "known")
    assert isinstance(attempt, Attempt)
    assert attempt.call.needs.known == "known"


async def test_a_measurement_is_reported_as_shadows_and_sends_nothing_of_the_clients() -> None:
    around, exchange = toys(), ToyExchange()
    report = await around.service.measure(exchange, prepared(around, exchange))
    assert report is not None
    assert (report.outcome, report.counts.collapsed) == (Outcome.SHADOW, 3)
    assert exchange.originals == []


@pytest.mark.parametrize("keep", [0, 2])
async def test_searches_are_remembered_where_that_is_wanted(keep: int) -> None:
    around = toys(keep=keep)
    for _ in range(3):
        await answered(around, ToyExchange())
    assert len(around.services.recent.newest()) == keep


async def test_while_as_many_are_asked_again_as_may_be_new_searches_go_as_the_client_wrote_them() -> None:
    """Our failure is still the plain answer: no replay is refused, there are only no more of them."""
    made, answered = toys(in_flight=lambda: 10), asyncio.Event()

    class Slow(ToyExchange):
        async def original(self, kind: AttemptKind, gate: Gate | None = None) -> ToyAnswer:
            await answered.wait()
            return await ToyExchange.original(self, kind, gate)

    failing = [Slow(answering=lambda _: LostReplyError(FailOpen.OVERFETCH_RESET)) for _ in range(3)]
    replayed = [asyncio.create_task(made.service.best_answer(each, prepared(made, each))) for each in failing]
    await settle()
    fresh = ToyExchange()
    answer, report = await made.service.best_answer(fresh, prepared(made, fresh))
    assert (answer, report.fail_open) == (OWN, FailOpen.BREAKER)
    assert (fresh.sent, fresh.originals) == ([], [AttemptKind.ORIGINAL])
    answered.set()
    assert [each for each, _ in await asyncio.gather(*replayed)] == [OWN] * 3
    again = ToyExchange()
    _, report = await made.service.best_answer(again, prepared(made, again))
    assert report.outcome is Outcome.DEDUP


async def test_where_the_replies_of_others_fill_the_room_a_search_passes_through_and_is_never_kept_waiting() -> None:
    made, arrived = toys(held_bytes=20_000), asyncio.Event()

    class Slow(ToyExchange):
        async def send(self, body: bytes, *, seconds: float, fits: Fits, suffix: str = "") -> bytes:
            await arrived.wait()
            return await ToyExchange.send(self, body, seconds=seconds, fits=fits)

    slow, fresh = Slow(), ToyExchange()
    first = asyncio.create_task(made.service.best_answer(slow, prepared(made, slow)))
    await settle()
    answer, report = await made.service.best_answer(fresh, prepared(made, fresh))
    assert (answer, report.fail_open, fresh.sent) == (OWN, FailOpen.OVERLOAD, [])
    arrived.set()
    assert (await first)[1].outcome is Outcome.DEDUP
    assert made.services.held.total == 0


async def test_a_reply_that_turns_out_not_to_fit_is_dropped_and_the_original_sent() -> None:
    made = toys(held_bytes=420_000)
    exchange = ToyExchange(answering=lambda _: bytes(500_000))
    other = made.services.held.hold((1,), CANDIDATE_BYTES)
    assert other is not None
    answer, report = await made.service.best_answer(exchange, prepared(made, exchange))
    assert (answer, report.fail_open, exchange.originals) == (OWN, FailOpen.OVERLOAD, [AttemptKind.REPLAY])
    assert made.services.breaker.state is BreakerState.CLOSED
    other.release()
    assert made.services.held.total == 0


@pytest.mark.parametrize("end", ["answered", "lost", "refused", "cancelled", "shadow"])
async def test_however_a_search_ends_it_holds_nothing(end: str) -> None:
    made = toys()
    answering: dict[str, object] = {"lost": LostReplyError(FailOpen.OVERFETCH_RESET), "refused": refused()}

    class Stuck(ToyExchange):
        async def send(self, body: bytes, *, seconds: float, fits: Fits, suffix: str = "") -> bytes:
            if end == "cancelled":
                await asyncio.Event().wait()
            assert made.services.held.total > 0
            return await ToyExchange.send(self, body, seconds=seconds, fits=fits)

    exchange = Stuck(answering=(lambda _: answering[end]) if end in answering else None)
    attempt = prepared(made, exchange)
    call = made.service.measure(exchange, attempt) if end == "shadow" else made.service.best_answer(exchange, attempt)
    task = asyncio.ensure_future(call)
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert made.services.held.total == 0
    assert made.count("selection_bytes_in_flight") == 0


HUNGRY = json.dumps([[[1.0, *[0.0] * 129, 1.0]] * 24]).encode()  # copies of one point: every page of it wants more


async def test_a_pool_is_grown_within_the_budget_alone_and_the_first_answer_stands() -> None:
    around = toys(own_reads_share=0.0)
    sent = []
    for _ in range(3):
        exchange = ToyExchange(answering=lambda _: HUNGRY)
        answer, report = await answered(around, exchange)
        assert (len(json.loads(answer.body)[0]), report.outcome) == (4, Outcome.DEDUP)
        sent.append(len(exchange.sent))
    assert sent == [1 + FREE, 1, 1]
    assert around.count("own_reads_total", kind="grow") == 1
    assert around.count("own_reads_withheld_total", reason="budget") == 2


async def test_a_batch_grows_at_the_price_of_all_its_searches() -> None:
    around = toys(own_reads_share=0.0)
    lists = json.loads(HUNGRY) * 2
    exchange = ToyExchange(plain=b'[{"k": 4}, {"k": 4}]', answering=lambda _: json.dumps(lists).encode())
    await answered(around, exchange)
    assert len(exchange.sent) == 1


async def test_a_refusal_for_want_of_quota_inside_a_success_is_answered_as_it_is() -> None:
    around, exchange = toys(), ToyExchange(answering=lambda _: OUT_OF_QUOTA)
    answer, report = await answered(around, exchange)
    assert (answer.body, report.fail_open, report.figures) == (OUT_OF_QUOTA, FailOpen.OVERFETCH_STATUS, ())
    assert exchange.originals == []
    assert around.services.own.is_quiet(OPERATION)


@pytest.mark.parametrize("refusal", [refused(TOO_MANY), OUT_OF_QUOTA])
async def test_a_growing_pool_that_is_refused_is_the_last_read_of_ours_for_a_while(refusal: object) -> None:
    around, exchange = toys(), ToyExchange()
    exchange.answering = lambda _: HUNGRY if len(exchange.sent) == 1 else refusal
    answer, report = await answered(around, exchange)
    assert (len(json.loads(answer.body)[0]), report.outcome, len(exchange.sent)) == (4, Outcome.DEDUP, 2)
    again = ToyExchange(answering=lambda _: HUNGRY)
    await answered(around, again)
    assert len(again.sent) == 1
    assert around.count("own_reads_withheld_total", reason="refused") == 1


async def test_searches_whose_widened_requests_keep_failing_go_as_the_client_wrote_them() -> None:
    around = toys(own_reads_share=0.0)
    exchanges = [ToyExchange(answering=lambda _: refused(words=b"no vector")) for _ in range(10)]
    reports = [(await answered(around, exchange))[1] for exchange in exchanges]
    widened = FREE + OVERDRAFT + 1
    assert [len(exchange.sent) for exchange in exchanges] == [1] * widened + [0] * (10 - widened)
    assert {report.fail_open for report in reports[widened:]} == {FailOpen.BUDGET}
    assert around.count("own_reads_total", kind="replay") == widened


def test_a_request_that_is_too_much_to_be_read_is_told_before_it_is() -> None:
    around = toys(parts=2)
    assert around.service.too_large(ToyExchange(plain=b'[{"k": 4}, {"k": 4}]')) is None
    assert around.service.too_large(ToyExchange(plain=b'[{"k": 4}, {"k": 4}, {"k": 4}]')) is Reason.TOO_MANY_PARTS


def test_a_search_whose_reply_would_be_too_large_fetches_as_many_candidates_as_fit() -> None:
    around = toys(reply_bytes=7 * CANDIDATE_BYTES)
    attempt = prepared(around, ToyExchange())
    assert attempt.plan == (7,)
    assert attempt.candidate_bytes == CANDIDATE_BYTES


@pytest.mark.parametrize("plain", [b'[{"k": 7}]', b'[{"k": 2}, {"k": 2}]', b'[{"k": 4, "offset": 2}]'])
def test_what_would_not_be_improved_by_what_fits_is_left_alone(plain: bytes) -> None:
    around = toys(reply_bytes=7 * CANDIDATE_BYTES)
    assert around.service.prepare(ToyExchange(plain=plain)) is Bypass.REPLY_TOO_LARGE


async def test_what_a_candidate_took_decides_how_many_fit_into_the_next_reply() -> None:
    around = toys(reply_bytes=24 * CANDIDATE_BYTES)
    await answered(around, ToyExchange())
    assert prepared(around, ToyExchange()).plan == (24,)
    around.services.held.learn(OPERATION, (1,), 2 * CANDIDATE_BYTES)
    assert prepared(around, ToyExchange()).plan == (12,)


async def test_a_pool_does_not_grow_beyond_what_a_reply_may_hold() -> None:
    flooded = [0] * 24 + [1, 2, 3]
    exchange = ToyExchange(upstream=ToyUpstream(ranking(flooded)))
    size = len(await exchange.upstream.fetch(b"[24]"))
    around = toys(reply_bytes=26 * size // 24 + 1)
    around.services.held.learn(OPERATION, (24,), size)
    attempt = prepared(around, exchange)
    await around.service.best_answer(exchange, attempt)
    assert attempt.sizes == (26,)


async def test_a_batch_leaves_the_loop_to_others_between_its_searches() -> None:
    around, turns = toys(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    exchange = ToyExchange(plain=b'[{"k": 4}, {"k": 4}, {"k": 4}]', upstream=ToyUpstream(*[ranking(COPIES)] * 3))
    attempt = prepared(around, exchange)
    beside = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    before = turns
    answer, _ = await around.service.best_answer(exchange, attempt)
    beside.cancel()
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
    beside = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    answer, _ = await around.service.best_answer(exchange, attempt)
    beside.cancel()
    assert families_of(answer.body) == [list(range(8))]
    assert turns > 200 // 50


async def test_a_collection_whose_pages_keep_wanting_more_is_asked_for_the_grown_pool_at_once() -> None:
    around = toys(own_reads_share=0.0)
    grown = ToyUpstream(ranking([family for family in range(12) for _ in range(8)]))
    sent, found = [], []
    for _ in range(8):
        exchange = ToyExchange(upstream=grown)
        answer, _report = await answered(around, exchange)
        sent.append([json.loads(body) for body, _ in exchange.sent])
        found.append(families_of(answer.body)[0])
    assert sent[0] == [[24], [100]], "the first is grown within the budget"
    assert sent[1:OFTEN] == [[[24]]] * (OFTEN - 1), "then growing is withheld"
    assert sent[OFTEN:] == [[[100]]] * (8 - OFTEN), "then it is foreseen: one read"
    assert found[0] == found[OFTEN] == [0, 1, 2, 3], "with the answer of a pool that was grown"
    assert around.count("own_reads_total", kind="grow") == 1


async def test_a_page_read_by_its_offset_is_always_whole_and_the_next_one_costs_no_second_read() -> None:
    around = toys(own_reads_share=0.0)
    ranked = [family for family in range(60) for _ in range(16)]
    sent, pages = [], []
    for offset in range(0, 24, 4):
        exchange = ToyExchange(
            plain=json.dumps([{"k": 4, "offset": offset}]).encode(), upstream=ToyUpstream(ranking(ranked))
        )
        answer, _ = await answered(around, exchange)
        sent.append(len(exchange.sent))
        pages += families_of(answer.body)[0]
    assert pages == list(range(24))
    assert sum(sent) - len(sent) <= PAGE_ROUNDS
    assert sent[-1] == 1


async def test_after_a_refusal_not_even_a_page_read_by_its_offset_goes_over_the_budget() -> None:
    around = toys(own_reads_share=0.0)
    around.services.hedges.attempt_timeout.was_late(OPERATION, is_late=False)
    around.services.own.refused("")
    exchange = ToyExchange(plain=b'[{"k": 4, "offset": 0}]', answering=lambda _: HUNGRY)
    await answered(around, exchange)
    assert len(exchange.sent) == 1


class Silent(ToyExchange):
    """Whose widened requests are never answered."""

    async def send(self, body: bytes, *, seconds: float, fits: Fits, suffix: str = "") -> bytes:
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
    assert around.services.held.total == 0
    assert around.services.breaker.state is BreakerState.CLOSED
    assert around.count("own_reads_total", kind="hedge") == 1


async def test_while_the_pace_is_unknown_no_more_searches_are_widened_than_can_be_hedged() -> None:
    around, exchanges = toys(own_reads_share=0.0), [Silent() for _ in range(9)]
    tasks = [asyncio.create_task(around.service.best_answer(each, prepared(around, each))) for each in exchanges]
    await settle()
    room = FREE + OVERDRAFT
    assert [len(each.sent) for each in exchanges] == [1] * room + [0] * (9 - room)
    assert [(await task)[1].fail_open for task in tasks[room:]] == [FailOpen.SLOW] * (9 - room)
    for _ in range(room):
        around.timers.fire()
    assert [(await task)[0] for task in tasks] == [OWN] * 9
    late = Silent()
    assert (await answered(around, late))[1].fail_open is FailOpen.SLOW
    assert late.sent == []


async def test_a_timely_answer_gives_the_reserved_read_to_a_growing_pool() -> None:
    around, exchange = toys(own_reads_share=0.0), ToyExchange(answering=lambda _: HUNGRY)
    await answered(around, exchange)
    assert len(exchange.sent) == 2
    assert around.count("own_reads_total", kind="hedge") == 0


async def test_without_room_in_the_budget_the_original_waits_for_the_last_moment_and_the_breaker_hears_of_it() -> None:
    around = toys(own_reads_share=0.0)
    await answered(around, ToyExchange())
    around.services.own.spend(OPERATION, OwnRead.GROW)
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
    assert around.services.hedges.attempt_timeout.attempt_seconds(OPERATION, None) == 1.0
    assert around.services.held.total == 0
    assert around.services.own.has(OPERATION), "what was reserved is free again"
