"""The rungs around one search, on a transport that is a script: which one answers, what is learned, what is counted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.backends.toy_backend import OPERATION, TOO_MANY, ToyAdapter, families_of
from support.backends.toy_exchange import OWN, SERVER_ERROR, ToyExchange, answered, prepared, refused, toys
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.proxy.admin.recent import Observed
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.search.limits import CONSECUTIVE, OPEN_SECONDS
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.telemetry.labels import AttemptKind, BreakerState, FailOpen, Outcome, Retry


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
    await answered(around, replace(exchange, own=replace(OWN, is_success=False)))
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
