"""Reads that VecSieve adds to a search, within the budget and the quota of the database. The transport is a script."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.backends.toy_backend import OPERATION, OUT_OF_QUOTA, TOO_MANY, ToyUpstream, families_of, ranking
from support.backends.toy_exchange import UPSTREAM_ANSWER, ToyAnswer, ToyExchange, answered, prepared, refused, toys
from support.process.manual_time import settle
from vecsieve.proxy.search.budgets import FREE, OVERDRAFT
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.search.hedge import Gate
from vecsieve.proxy.search.searcher import PAGE_ROUNDS
from vecsieve.proxy.telemetry.labels import AttemptKind, Bypass, FailOpen, Outcome, ReadKind


async def test_a_quota_that_is_spent_while_growing_leaves_the_pool_that_is_there() -> None:
    exchange = ToyExchange()
    first = json.dumps([[[1.0, *[0.0] * 129, 1.0]] * 24]).encode()
    exchange.answering = lambda _: first if len(exchange.sent) == 1 else refused(TOO_MANY)
    answer, report = await answered(toys(), exchange)
    assert len(exchange.sent) == 2
    assert len(json.loads(answer.body)[0]) == 4
    assert report.outcome is Outcome.DEDUP


async def test_extra_bytes_are_counted_for_improved_answers_and_for_dropped_ones() -> None:
    around, exchange = toys(), ToyExchange()
    answer, report = await answered(around, exchange)
    spent = json.loads(around.services.governor.egress.as_json())
    assert str(report.overfetch_bytes - answer.body_bytes) in json.dumps(spent)


async def test_a_spent_budget_leaves_searches_alone() -> None:
    around = toys(budget_bytes=10)
    await answered(around, ToyExchange())
    assert around.services.governor.withheld(OPERATION) is Bypass.BUDGET


async def test_while_as_many_are_asked_again_as_may_be_new_searches_go_as_the_client_wrote_them() -> None:
    """Our failure is still the plain answer: no replay is refused, there are only no more of them."""
    made, answered = toys(in_flight=lambda: 10), asyncio.Event()

    class Slow(ToyExchange):
        async def original(self, kind: AttemptKind, gate: Gate | None = None) -> ToyAnswer:
            await answered.wait()
            return await ToyExchange.original(self, kind, gate)

    failing = [Slow(answering=lambda _: LostReplyError(FailOpen.OVERFETCH_RESET)) for _ in range(3)]
    replayed = [
        asyncio.create_task(made.service.best_answer(exchange, prepared(made, exchange))) for exchange in failing
    ]
    await settle()
    fresh = ToyExchange()
    answer, report = await made.service.best_answer(fresh, prepared(made, fresh))
    assert (answer, report.fail_open) == (UPSTREAM_ANSWER, FailOpen.BREAKER)
    assert (fresh.sent, fresh.originals) == ([], [AttemptKind.ORIGINAL])
    answered.set()
    assert [exchange for exchange, _ in await asyncio.gather(*replayed)] == [UPSTREAM_ANSWER] * 3
    again = ToyExchange()
    _, report = await made.service.best_answer(again, prepared(made, again))
    assert report.outcome is Outcome.DEDUP


HUNGRY = json.dumps([[[1.0, *[0.0] * 129, 1.0]] * 24]).encode()  # copies of one point: every page of it wants more


async def test_a_pool_is_grown_within_the_budget_alone_and_the_first_answer_stands() -> None:
    around = toys(extra_reads_share=0.0)
    assert around.services.governor.reads.take(OPERATION, ReadKind.GROW, FREE)
    sent = []
    for _ in range(3):
        exchange = ToyExchange(answering=lambda _: HUNGRY)
        answer, report = await answered(around, exchange)
        assert (len(json.loads(answer.body)[0]), report.outcome) == (4, Outcome.DEDUP)
        sent.append([json.loads(body) for body, _ in exchange.sent])
    assert sent == [[[24]], [[100]], [[100]]], "growing is withheld once, then the pool is asked for at once"
    assert around.count("own_reads_total", kind="grow") == FREE
    assert around.count("own_reads_withheld_total", reason="budget") == 1


async def test_a_batch_grows_at_the_price_of_all_its_searches() -> None:
    around = toys(extra_reads_share=0.0)
    lists = json.loads(HUNGRY) * 2
    exchange = ToyExchange(plain=b'[{"k": 4}, {"k": 4}]', answering=lambda _: json.dumps(lists).encode())
    await answered(around, exchange)
    assert len(exchange.sent) == 1


async def test_a_refusal_for_want_of_quota_inside_a_success_is_answered_as_it_is() -> None:
    around, exchange = toys(), ToyExchange(answering=lambda _: OUT_OF_QUOTA)
    answer, report = await answered(around, exchange)
    assert (answer.body, report.fail_open, report.figures) == (OUT_OF_QUOTA, FailOpen.OVERFETCH_STATUS, ())
    assert exchange.originals == []
    assert around.services.governor.reads.is_quiet(OPERATION)


@pytest.mark.parametrize("refusal", [refused(TOO_MANY), OUT_OF_QUOTA])
async def test_a_growing_pool_that_is_refused_is_the_last_read_of_ours_for_a_while(refusal: object) -> None:
    around, exchange = toys(), ToyExchange()
    exchange.answering = lambda _: HUNGRY if len(exchange.sent) == 1 else refusal
    answer, report = await answered(around, exchange)
    assert (len(json.loads(answer.body)[0]), report.outcome, len(exchange.sent)) == (4, Outcome.DEDUP, 2)
    again = ToyExchange(answering=lambda _: HUNGRY)
    await answered(around, again)
    assert [json.loads(body) for body, _ in again.sent] == [[100]]


async def test_searches_whose_widened_requests_keep_failing_go_as_the_client_wrote_them() -> None:
    around = toys(extra_reads_share=0.0)
    exchanges = [ToyExchange(answering=lambda _: refused(words=b"no vector")) for _ in range(10)]
    reports = [(await answered(around, exchange))[1] for exchange in exchanges]
    widened = FREE + OVERDRAFT + 1
    assert [len(exchange.sent) for exchange in exchanges] == [1] * widened + [0] * (10 - widened)
    assert {report.fail_open for report in reports[widened:]} == {FailOpen.BUDGET}
    assert around.count("own_reads_total", kind="replay") == widened


async def test_a_collection_whose_page_wanted_more_is_asked_for_what_it_took_from_the_next_search_on() -> None:
    around = toys(extra_reads_share=0.0)
    grown = ToyUpstream(ranking([family for family in range(12) for _ in range(8)]))
    sent, pages = [], []
    for _ in range(8):
        exchange = ToyExchange(upstream=grown)
        answer, _report = await answered(around, exchange)
        sent.append([json.loads(body) for body, _ in exchange.sent])
        pages.append(families_of(answer.body)[0])
    assert sent[0] == [[24], [100]], "the first is grown within the budget"
    assert sent[1:] == [[[32]]] * 7, "then one read is enough"
    assert pages == [[0, 1, 2, 3]] * 8, "for the answer of a pool that was grown"
    assert around.count("own_reads_total", kind="grow") == 1


async def test_a_page_read_by_its_offset_is_always_whole_and_the_next_one_costs_no_second_read() -> None:
    around = toys(extra_reads_share=0.0)
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
    around = toys(extra_reads_share=0.0)
    around.services.governor.attempt_timeout.of(OPERATION).late.append(False)
    around.services.governor.reads.refused("")
    exchange = ToyExchange(plain=b'[{"k": 4, "offset": 0}]', answering=lambda _: HUNGRY)
    await answered(around, exchange)
    assert len(exchange.sent) == 1


async def test_a_timely_answer_gives_the_reserved_read_to_a_growing_pool() -> None:
    around, exchange = toys(extra_reads_share=0.0), ToyExchange(answering=lambda _: HUNGRY)
    await answered(around, exchange)
    assert len(exchange.sent) == 2
    assert around.count("own_reads_total", kind="hedge") == 0
