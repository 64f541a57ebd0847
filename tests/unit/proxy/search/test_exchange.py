"""What an exchange's search has met, and the report and the records made of it."""

from __future__ import annotations

import pytest

from support.backends.toy_exchange import ToyExchange, grant, toys
from vecsieve.adapters.contract import MalformedReplyError
from vecsieve.proxy.admin.recent import Seen, seen_of
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError, RejectedReplyError
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.report import report_of
from vecsieve.proxy.telemetry.labels import FailOpen, MemoryRecall, Outcome, Stage
from vecsieve.proxy.telemetry.reports import Report


def reported(made: Source) -> Report:
    return report_of(made, outcome=Outcome.DEDUP, selected=made.selected)


def remembered(made: Source) -> list[Seen]:
    assert made.selected is not None
    return list(seen_of(made.selected, reported(made), texts=True))


async def attempted(plain: bytes = b'[{"k": 4}]') -> tuple[ToyExchange, Source]:
    around, exchange = toys(), ToyExchange(plain=plain)
    if plain.count(b"{") > 1:
        exchange.upstream.rankings *= plain.count(b"{")
    made = around.service.prepare(exchange)
    assert isinstance(made, Source)
    await around.service.best_answer(exchange, made)
    return exchange, made


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RejectedReplyError(FailOpen.NO_VECTORS), FailOpen.NO_VECTORS),
        (MalformedReplyError("at 3"), FailOpen.MALFORMED),
        (MemoryError(), FailOpen.MEMORY),
        (ValueError(), FailOpen.INTERNAL),
        (RecursionError(), FailOpen.INTERNAL),
    ],
)
def test_each_fall_has_its_reason(error: Exception, reason: FailOpen) -> None:
    met = grant()
    met.failed(error)
    assert met.reason is reason


def test_the_first_reason_stands_because_later_ones_follow_from_it() -> None:
    met = grant()
    met.failed(RejectedReplyError(FailOpen.OVERFETCH_TIMEOUT))
    met.failed(ValueError())
    assert met.reason is FailOpen.OVERFETCH_TIMEOUT


async def test_rows_and_records_are_one_a_search() -> None:
    _, made = await attempted(b'[{"k": 4}, {"k": 2}]')
    rows = reported(made).figures
    assert [row.returned for row in rows] == [4, 2]
    assert [row.candidates for row in rows] == [16, 16]
    assert [seen.top_k for seen in remembered(made)] == [4, 2]


async def test_a_search_that_was_sent_as_it_came_has_no_record() -> None:
    _, made = await attempted(b'[{"k": 4}, {"k": 2000}]')
    assert [planned is None for planned in made.planned.plan] == [False, True]
    assert len(reported(made).figures) == 2
    assert [seen.top_k for seen in remembered(made)] == [4]


async def test_a_report_tells_what_the_attempt_came_to() -> None:
    _, made = await attempted()
    made.recall = MemoryRecall.WHOLE
    report = reported(made)
    assert (report.backend, report.operation, report.outcome) == ("toy", "nearest", Outcome.DEDUP)
    assert (report.fail_open, report.bypass, report.grown) == (None, None, False)
    assert report.overfetch_bytes == made.fetched_bytes > 0
    assert report.recall is MemoryRecall.WHOLE
    assert (report.vector_fetch, report.extra_read_units) == (None, 0)
    assert Stage.UPSTREAM in dict(report.stages)
    assert [row.returned for row in report.figures] == [4]


async def test_a_report_of_a_fall_has_no_figures() -> None:
    _, made = await attempted()
    report = report_of(made, outcome=Outcome.FAIL_OPEN, reason=FailOpen.MEMORY)
    assert (report.outcome, report.fail_open, report.figures) == (Outcome.FAIL_OPEN, FailOpen.MEMORY, ())
    assert (report.searches, report.top_k) == (1, 4), "what was asked for is known, whatever came of it"


async def test_a_report_of_a_batch_says_how_many_searches_ask_for_how_many_results() -> None:
    _, made = await attempted(b'[{"k": 4}, {"k": 2}]')
    report = report_of(made, outcome=Outcome.DEDUP)
    assert (report.searches, report.top_k) == (2, 6)


def test_what_was_lost_or_refused_says_so_without_a_word_of_upstreams() -> None:
    lost = LostReplyError(FailOpen.TOO_LARGE, received_bytes=7)
    assert (lost.reason, lost.received_bytes, str(lost)) == (FailOpen.TOO_LARGE, 7, "too_large")
    refused = RefusedReplyError(400, b"secret", is_server_error=False, may_be_size=True)
    assert "secret" not in f"{refused} {refused!r}"
